"""Makes the findings for a request, which has a JSON format for the child process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from eo_listener.client_config.cluster import principal
from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import SettingsError
from eo_listener.preflight.facts import (
    CheckPlan,
    ClusterFacts,
    GroupFacts,
    SinkPlan,
    TopicFacts,
    Tried,
)
from eo_listener.preflight.findings import Findings
from eo_listener.preflight.kafka_checks import UNKNOWN, judge_cluster, judge_group, judge_topic
from eo_listener.preflight.sink_checks import (
    TRANSACTIONS,
    judge_ledger,
    judge_sink_group,
    judge_target,
    judge_transactional_id,
    judge_transactions,
    may_try,
)


class Cluster(Protocol):
    """Reads the facts about a cluster for a preflight."""

    def cluster(self) -> ClusterFacts:
        """Return the facts about the cluster. Raises KafkaError if it cannot be reached."""
        ...

    def group(self, name: str) -> GroupFacts:
        """Return the facts about a group, including its offsets."""
        ...

    def topics(self, names: frozenset[str]) -> Mapping[str, TopicFacts]:
        """Return the facts about topics, including the ends of their logs."""
        ...

    def settings(self, topic: str) -> Mapping[str, str] | None:
        """Return the settings of a topic, or None if they cannot be read."""
        ...

    def try_creating(self, topic: str) -> Tried:
        """Ask Kafka if the topic could be created, without creating it."""
        ...

    def try_transactional_id(self, transactional_id: str) -> Tried:
        """Test if the client may use the id. Fences no producer if `may_try` has returned True."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for a preflight: a cluster, and the groups, topics and sink to check there."""

    #: librdkafka's properties, which are secret.
    properties: Mapping[str, str] = field(repr=False)
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    mode: str = "simple"
    recommit_interval: float = 3600.0
    #: True if a committer of eo_listener already works on the groups.
    running: bool = False
    #: The KafkaSink to check, if any.
    sink: SinkPlan | None = None

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
        facts, plan = cluster.cluster(), self.plan
        yield from judge_cluster(facts, plan)
        named = cluster.topics(frozenset(self.topics))
        for topic in named.values():
            yield from judge_topic(topic, plan)
        for name in self.groups:
            group = cluster.group(name)
            group_topics = frozenset(tp.topic for tp in group.held or ())
            topics = {**named, **cluster.topics(group_topics.difference(named))}
            yield from judge_group(group, topics, plan)
        if self.sink is not None:
            yield from _sink_findings(self.sink, cluster, facts, plan)

    def text(self) -> str:
        """Return the request as JSON, including its secrets."""
        return json.dumps(asdict(replace(self, properties=dict(self.properties))))

    @classmethod
    def parse(cls, text: str) -> Request:
        """Read a request from its JSON. Raises SettingsError, which quotes nothing from `text`."""
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(
                properties={str(k): str(v) for k, v in fields["properties"].items()},
                groups=tuple(map(str, fields["groups"])),
                topics=tuple(map(str, fields["topics"])),
                mode=str(fields["mode"]),
                recommit_interval=float(fields["recommit_interval"]),
                running=fields["running"] is True,
                sink=_parsed_sink(fields["sink"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SettingsError(
                f"standard input is not a request ({type(error).__name__})",
                fix="--stdin is for eo_listener itself; use the options instead",
            ) from None


def _sink_findings(
    sink: SinkPlan, cluster: Cluster, facts: ClusterFacts, plan: CheckPlan
) -> Findings:
    targets = (*sink.topics, *(() if sink.dead_letters is None else (sink.dead_letters,)))
    names = {*targets, sink.ledger_topic, *([TRANSACTIONS] if sink.transactions else [])}
    topics = cluster.topics(frozenset(names))
    existing = (name for name in (*targets, sink.ledger_topic) if topics[name].error is None)
    settings = {name: cluster.settings(name) for name in existing}
    if sink.transactions:
        yield from judge_transactions(facts, topics[TRANSACTIONS], sink)
    for name in targets:
        yield from judge_target(topics[name], settings.get(name), sink, plan)
    ledger = topics[sink.ledger_topic]
    creation = None
    if sink.create and ledger.error in UNKNOWN:
        creation = cluster.try_creating(ledger.name)
    yield from judge_ledger(ledger, settings.get(ledger.name), creation, facts, sink, plan)
    if not sink.transactions:
        return  # without transactions there is no transactional id and no group
    tried = None
    if sink.query is not None and may_try(facts):
        tried = cluster.try_transactional_id(sink_transactional_id(sink.key, sink.query))
    yield judge_transactional_id(sink, tried, plan)
    if sink.group is not None:
        yield from judge_sink_group(cluster.group(sink.group), plan)


def _parsed_sink(fields: dict[str, Any] | None) -> SinkPlan | None:
    return None if fields is None else SinkPlan(**{**fields, "topics": tuple(fields["topics"])})
