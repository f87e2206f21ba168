"""The settings of a node: which they are, and which of them users can set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from eo_listener.model.errors import SettingsError
from tests.broker.listeners import CONTROLLER, HOST, MAIN, Listener

# Setting one of these would cut the broker off from what this package knows about it.
OURS: Final = {
    "process.roles": "--nodes, or Broker(nodes=)",
    "node.id": "--nodes, or Broker(nodes=)",
    "broker.id": "--nodes, or Broker(nodes=)",
    "controller.quorum.voters": "--nodes, or Broker(nodes=)",
    "controller.quorum.bootstrap.servers": "--nodes, or Broker(nodes=)",
    "controller.listener.names": "--nodes, or Broker(nodes=)",
    "listeners": "--port, or Broker(port=, listeners=)",
    "advertised.listeners": "Broker(listeners=)",
    "log.dir": "--data, or Broker(data=)",
    "log.dirs": "--data, or Broker(data=)",
    "metadata.log.dir": "--data, or Broker(data=)",
}


def require_settable(wanted: Mapping[str, str]) -> None:
    """Raise SettingsError when a property is among those that only a parameter can set."""
    for name in wanted:
        if name in OURS:
            raise SettingsError(
                f"The broker property {name} cannot be set directly",
                fix=f"Use {OURS[name]}",
            )


def node_properties(
    *,
    node: int,
    ports: Mapping[int, Mapping[str, int]],
    listeners: Sequence[Listener],
    folder: Path,
    wanted: Mapping[str, str],
) -> dict[str, str]:
    """Return all settings of node number `node`; `wanted` are the user's, which win.

    `ports` holds for each node the port of each listener, the plain one and the controller's
    included; `folder` is where the node keeps its records.

    Raises SettingsError when a listener advertises too few addresses.
    """
    own = ports[node]
    protocols = {MAIN: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    protocols |= {listener.name: listener.security_protocol for listener in listeners}
    hosts = {listener.name: listener.host for listener in listeners}
    advertised = {MAIN: f"{HOST}:{own[MAIN]}"}
    advertised |= {item.name: item.advertised_by(node, own[item.name]) for item in listeners}
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(
            f"{number}@{HOST}:{ports[number][CONTROLLER]}" for number in sorted(ports)
        ),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": MAIN,
        "listeners": ",".join(
            f"{name}://{hosts.get(name, HOST)}:{own[name]}" for name in protocols
        ),
        "advertised.listeners": ",".join(f"{name}://{at}" for name, at in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "log.dirs": str(folder),
    }
    settings |= _defaults(len(ports))
    for listener in listeners:
        settings |= listener.prefixed()
    return {**settings, **wanted}


def _defaults(nodes: int) -> dict[str, str]:
    copies = min(3, nodes)
    safe = 2 if copies == 3 else 1  # with two copies one of them may be stopped
    return {
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(safe),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(safe),
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(safe),
        "share.coordinator.state.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        # A node that was killed is taken back only when its old session has run out: with
        # Kafka's 9 s a restart would take 12 s.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # 128 MB would fill the heap
    }


def parse_pair(text: str) -> tuple[str, str]:
    """Split what a user typed as key=value. Raises SettingsError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise SettingsError(
            f"a broker property must be key=value, got {name!r}",
            fix="Give one such as log.retention.ms=60000",
        )
    return name.strip(), value.strip()
