"""Check a cluster as the command does: by a child, since the requests can end a process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from eo_listener.client_config.identities import sink_key
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import SinkPlan
from eo_listener.preflight.findings import CheckFinding
from eo_listener.preflight.request import Request
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


def check_sink(
    servers: str,
    *topics: str,
    properties: Mapping[str, str] = MappingProxyType({}),
    reads: tuple[str, ...] = (),
    **more: Any,
) -> list[CheckFinding]:
    """All findings about a KafkaSink that writes to these topics."""
    request = Request(
        properties={"bootstrap.servers": servers, **properties},
        topics=reads,
        sink=SinkPlan(topics=topics, key=sink_key(topics), **more),
    )
    return list(child_process.run(request).findings)
