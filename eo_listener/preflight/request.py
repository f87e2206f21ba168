"""What a preflight is to check, and its format as JSON, which holds secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from eo_listener.client_config.translate import principal
from eo_listener.model.errors import SettingsError
from eo_listener.preflight.cluster_checks import judge_cluster
from eo_listener.preflight.facts import CheckPlan, ClusterFacts, GroupFacts, TopicFacts
from eo_listener.preflight.findings import CheckFinding
from eo_listener.preflight.kafka_checks import judge_group, judge_topic


class Cluster(Protocol):
    """What can be asked of a cluster."""

    def cluster(self) -> ClusterFacts:
        """Itself. Raises KafkaError when it cannot be reached."""
        ...

    def group(self, name: str) -> GroupFacts:
        """A group, and what it holds."""
        ...

    def topics(self, names: frozenset[str]) -> Mapping[str, TopicFacts]:
        """Topics, and the ends of their logs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A cluster's properties (librdkafka's), and the groups and topics to check there.

    `running` says that a committer of ours is at work on them already.
    """

    properties: Mapping[str, str] = field(repr=False)
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    mode: str = "simple"
    recommit_interval: float = 3600.0
    running: bool = False

    @property
    def plan(self) -> CheckPlan:
        """How commits will be made, and by whom."""
        return CheckPlan(
            mode=self.mode,
            recommit_interval=self.recommit_interval,
            protocol=self.properties.get("group.protocol", "classic"),
            principal=principal(self.properties),
            running=self.running,
        )

    def findings(self, cluster: Cluster) -> Iterator[CheckFinding]:
        """Look at all of it, and judge. Raises KafkaError when nothing can be reached."""
        facts, plan = cluster.cluster(), self.plan
        yield from judge_cluster(facts, plan)
        named = cluster.topics(frozenset(self.topics))
        for topic in named.values():
            yield from judge_topic(topic, facts.servers, plan)
        for name in self.groups:
            group = cluster.group(name)
            held = frozenset(tp.topic for tp in group.held or ())
            topics = {**named, **cluster.topics(held.difference(named))}
            yield from judge_group(group, topics, facts.servers, plan)

    def text(self) -> str:
        """Its form in JSON, with what is secret in it."""
        return json.dumps(
            {
                "properties": dict(self.properties),
                "groups": self.groups,
                "topics": self.topics,
                "mode": self.mode,
                "recommit_interval": self.recommit_interval,
                "running": self.running,
            }
        )

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read that form back. Raises SettingsError, which quotes nothing of it."""
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(
                properties={str(k): str(v) for k, v in fields["properties"].items()},
                groups=tuple(map(str, fields["groups"])),
                topics=tuple(map(str, fields["topics"])),
                mode=str(fields["mode"]),
                recommit_interval=float(fields["recommit_interval"]),
                running=fields["running"] is True,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(
                f"standard input is not a request ({type(error).__name__})",
                fix="--stdin is for eo_listener itself; give the options instead",
            ) from None
