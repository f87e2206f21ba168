"""Check a cluster as the command does: by a child, since the requests can end a process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eo_listener.devtools.broker import Broker
from eo_listener.preflight import child_process
from eo_listener.preflight.findings import CheckFinding
from eo_listener.preflight.request import Request


def check(
    broker: Broker,
    *groups: str,
    topics: tuple[str, ...] = (),
    mode: str = "simple",
    recommit_interval: float = 3600.0,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> list[CheckFinding]:
    """All findings."""
    request = Request(
        properties={"bootstrap.servers": broker.bootstrap_servers, **properties},
        groups=groups,
        topics=topics,
        mode=mode,
        recommit_interval=recommit_interval,
    )
    return list(child_process.run(request).findings)
