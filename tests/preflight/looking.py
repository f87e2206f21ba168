"""Look at a cluster as the command does, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from eo_listener.broker import Broker
from eo_listener.kafka.inspector import Inspector
from eo_listener.preflight.findings import Finding
from eo_listener.preflight.request import Request


def look(
    broker: Broker,
    *groups: str,
    topics: tuple[str, ...] = (),
    mode: str = "simple",
    heartbeat: float = 3600.0,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    """All findings; never while the broker restarts, see the inspector."""
    request = Request(
        properties={"bootstrap.servers": broker.bootstrap_servers, **properties},
        groups=groups,
        topics=topics,
        mode=mode,
        heartbeat=heartbeat,
    )
    inspector = Inspector(request.properties)
    found = list(request.findings(inspector))
    inspector.close()
    return found
