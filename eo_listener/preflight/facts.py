"""Facts about a cluster, its groups and topics, and this machine. Nothing secret.

If Kafka refused to answer, `refused` or `error` holds the name of its error, and the refused fact
is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from eo_listener.client_config.identities import LEDGER_TOPIC
from eo_listener.client_config.kafka_options import TRANSACTION_TIMEOUT
from eo_listener.offsets import Position, TopicPartition

LONGEST_MS: Final = 2**31 - 1 - 100
"""The longest transaction that librdkafka can ask for: it adds 100 ms, in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """One cluster. `settings` are those of a broker, as it runs."""

    servers: str
    brokers: int
    settings: Mapping[str, str] | None = None
    refused: str | None = None

    def number(self, name: str) -> int | None:
        """A setting that is a number; None when it is not known."""
        text = (self.settings or {}).get(name, "")
        return int(text) if text.lstrip("-").isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group; `instance` is its `group.instance.id`, None if it has none."""

    client: str
    host: str
    instance: str | None

    def __str__(self) -> str:
        return f"{self.client} at {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group. `state` and `kind` as Kafka names them: `Empty`, `Stable`; `Classic`, `Consumer`.

    `protocol` is its protocolType if that is not a consumer's ("connect", "share", ...). `simple`
    is True if it never had members, or its offsets have expired since; `operations` are what the
    client may do with it. `held` is None if it could not be read, for the reason in `held_error`;
    `unstable` is True if a transaction on it is open.
    """

    name: str
    error: str | None = None
    state: str | None = None
    kind: str | None = None
    protocol: str | None = None
    simple: bool | None = None
    members: tuple[Member, ...] = ()
    operations: frozenset[str] | None = None
    held: Mapping[TopicPartition, Position] | None = None
    held_error: str | None = None
    unstable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic. `error` is Kafka's, also for one that does not exist.

    `replicas` are those of the partition that has fewest.
    """

    name: str
    error: str | None = None
    has_id: bool = False
    operations: frozenset[str] | None = None
    replicas: int = 0
    starts: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    ends: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """What is to be done with the cluster: by whom (as ACLs name the client), and how.

    `running` says that a committer of ours is at it already, so that its own traces are no news.
    """

    mode: str = "simple"
    recommit_interval: float = 3600.0
    protocol: str = "classic"
    principal: str | None = None
    running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """What a KafkaSink is to do with the cluster; its arguments, by their names.

    `key` is its name, and `query` that of the query, None where it was not said.
    """

    topics: tuple[str, ...]
    key: str
    query: str | None = None
    ledger_topic: str = LEDGER_TOPIC
    create: bool = True
    dead_letters: str | None = None
    group: str | None = None
    write_method: str = "driver"
    transactions: bool = True
    transaction_timeout: float = TRANSACTION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The outcome of a trial that changes nothing; `error` is None where Kafka allows it."""

    error: str | None = None
