"""The request for a check, and facts about a cluster, its groups and topics.

If Kafka refused to answer, `refused` or `error` has the name of Kafka's error, and the requested
fact is None.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from eo_listener.client_config.admin_commands import grant_command
from eo_listener.client_config.cluster import principal
from eo_listener.offsets import Position, TopicPartition

IN_BATCHES: Final = "in batches"
"""The mode of a group to which a KafkaSink commits with each batch."""
LONGEST_MS: Final = 2**31 - 1 - 100
"""The longest transaction timeout that librdkafka can request: it adds 100 ms, in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts about one cluster. `settings` are the settings of one broker."""

    servers: str
    brokers: int
    settings: Mapping[str, str] | None = None
    refused: str | None = None

    def number(self, name: str) -> int | None:
        """Return the setting `name` as a number, or None if it is unknown."""
        text = (self.settings or {}).get(name, "")
        return int(text) if text.lstrip("-").isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. `instance` is its `group.instance.id`, or None if that is not set."""

    client: str
    host: str
    instance: str | None

    def __str__(self) -> str:
        return f"{self.client} at {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The facts about one group, with the names that Kafka uses."""

    name: str
    error: str | None = None
    #: The group's state, such as `Empty` or `Stable`.
    state: str | None = None
    #: The group's type, `Classic` or `Consumer`.
    kind: str | None = None
    #: The group's protocolType if it is not a consumer group: "connect", "share", ...
    protocol: str | None = None
    #: True if the group never had members, or its offsets have expired since.
    simple: bool | None = None
    members: tuple[Member, ...] = ()
    #: The operations that the client may perform on the group.
    operations: frozenset[str] | None = None
    #: The group's offsets, or None if they could not be read.
    held: Mapping[TopicPartition, Position] | None = None
    #: The reason why `held` could not be read.
    held_error: str | None = None
    #: True if a transaction that commits to the group is open.
    unstable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The facts about one topic."""

    name: str
    #: Kafka's error for the topic, also if the topic does not exist.
    error: str | None = None
    has_id: bool = False
    operations: frozenset[str] | None = None
    #: The number of replicas of the partition that has the fewest.
    replicas: int = 0
    starts: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    ends: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for a preflight: a cluster, and the groups and topics to check there."""

    #: librdkafka's properties, which are secret.
    properties: Mapping[str, str] = field(repr=False)
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    mode: str = "simple"
    recommit_interval: float = 3600.0
    #: True if a committer of eo_listener already works on the groups: its traces are no findings.
    running: bool = False

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.properties.get("bootstrap.servers", "")

    @property
    def principal(self) -> str | None:
        """The client's name in ACLs, or None if unknown."""
        return principal(self.properties)

    def grant(self, operations: Collection[str], resource: Collection[str]) -> str:
        """Return the command that grants the client `operations` on a resource."""
        return grant_command(self.servers, self.principal, operations, resource)

    def text(self) -> str:
        """Return the request as JSON, including its secrets."""
        return json.dumps(asdict(replace(self, properties=dict(self.properties))))

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read a request from its JSON."""
        fields: dict[str, Any] = json.loads(text)
        lists = {name: tuple(fields[name]) for name in ("groups", "topics")}
        return cls(**{**fields, **lists})
