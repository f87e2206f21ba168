"""What a node is configured with."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

MAIN: Final = "PLAINTEXT"
CONTROLLER: Final = "CONTROLLER"
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A further listener; clients are sent to `advertised` ("host:port"), a proxy in front."""

    name: str
    security_protocol: str = "PLAINTEXT"
    host: str = HOST
    advertised: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return so many different ones."""
    # Below the range from which Linux and macOS take the ports of outgoing connections.
    ports = random.sample(range(20_000, 30_000), 10_000)
    return list(islice(filter(is_free, ports), count))


def node_settings(
    node: int,
    ports: Mapping[int, Mapping[str, int]],
    listeners: Sequence[Listener],
    records: Path,
    properties: Mapping[str, str],
) -> dict[str, str]:
    """Return all settings of a node; `properties` win; `ports` are those of each node."""
    own = ports[node]
    hosts = {item.name: item.host for item in listeners}
    protocols = {MAIN: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    protocols |= {item.name: item.security_protocol for item in listeners}
    advertised = {MAIN: f"{HOST}:{own[MAIN]}"}
    for item in listeners:
        advertised[item.name] = item.advertised or f"{item.host}:{own[item.name]}"
    voters = (f"{number}@{HOST}:{ports[number][CONTROLLER]}" for number in ports)
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": MAIN,
        "listeners": ",".join(f"{name}://{hosts.get(name, HOST)}:{own[name]}" for name in own),
        "advertised.listeners": ",".join(f"{name}://{at}" for name, at in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "log.dirs": str(records),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # 128 MB would fill the heap
        **_copies(len(ports)),
    }
    for item in listeners:
        for name, value in item.properties.items():
            settings[f"listener.name.{item.name.lower()}.{name}"] = value
    return {**settings, **properties}


def _copies(nodes: int) -> dict[str, str]:
    copies = str(min(3, nodes))
    safe = "2" if copies == "3" else "1"  # with two copies one of them may be stopped
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": safe,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": safe,
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": safe,
        "share.coordinator.state.topic.num.partitions": "5",
    }
