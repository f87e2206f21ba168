"""Check a cluster as the command does: by a child, since the requests can end a process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eo_listener.model.check_finding import CheckFinding
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import Request
from tests.broker import Broker


def check(
    broker: Broker,
    *groups: str,
    topics: tuple[str, ...] = (),
    mode: str = "simple",
    properties: Mapping[str, str] = MappingProxyType({}),
) -> list[CheckFinding]:
    every = {"bootstrap.servers": broker.bootstrap_servers, **properties}
    request = Request(
        properties=every, groups=groups, topics=topics, mode=mode, recommit_interval=3600.0
    )
    return list(child_process.run(request).findings)
