"""Makes the findings for a request, which has a JSON format for the child process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from eo_listener.client_config.cluster import principal
from eo_listener.model.check_finding import Findings
from eo_listener.preflight.facts import CheckPlan, ClusterFacts, GroupFacts, TopicFacts
from eo_listener.preflight.kafka_checks import judge_cluster, judge_group, judge_topic


class Cluster(Protocol):
    """Reads the facts about a cluster for a preflight."""

    def cluster(self) -> ClusterFacts:
        """Return the facts about the cluster. Raises KafkaError if it cannot be reached."""

    def group(self, name: str) -> GroupFacts:
        """Return the facts about a group, including its offsets."""

    def topics(self, names: frozenset[str]) -> Mapping[str, TopicFacts]:
        """Return the facts about topics, including the ends of their logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for a preflight: a cluster, and the groups and topics to check there."""

    #: librdkafka's properties, which are secret.
    properties: Mapping[str, str] = field(repr=False)
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    mode: str = "simple"
    recommit_interval: float = 3600.0
    #: True if a committer of eo_listener already works on the groups.
    running: bool = False

    @property
    def plan(self) -> CheckPlan:
        """The plan of the commits: their mode and their client."""
        return CheckPlan(
            servers=self.properties.get("bootstrap.servers", ""),
            mode=self.mode,
            recommit_interval=self.recommit_interval,
            protocol=self.properties.get("group.protocol", "classic"),
            principal=principal(self.properties),
            running=self.running,
        )

    def findings(self, cluster: Cluster) -> Findings:
        """Check everything in the request. Raises KafkaError if `cluster` cannot be reached."""
        plan = self.plan
        yield from judge_cluster(cluster.cluster(), plan)
        named = cluster.topics(frozenset(self.topics))
        for topic in named.values():
            yield from judge_topic(topic, plan)
        for name in self.groups:
            group = cluster.group(name)
            group_topics = frozenset(tp.topic for tp in group.held or ())
            topics = {**named, **cluster.topics(group_topics.difference(named))}
            yield from judge_group(group, topics, plan)

    def text(self) -> str:
        """Return the request as JSON, including its secrets."""
        return json.dumps(asdict(replace(self, properties=dict(self.properties))))

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read a request from its JSON."""
        fields: dict[str, Any] = json.loads(text)
        lists = {name: tuple(fields[name]) for name in ("groups", "topics")}
        return cls(**{**fields, **lists})
