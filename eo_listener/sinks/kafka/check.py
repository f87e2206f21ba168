"""Checks whether rights, topics and brokers' limits allow a KafkaSink to write. Changes nothing.

A driver may use this module: its requests are not those that can end a process. The check fences no
producer. To test the right to the sink's transactional id, it requests a longer transaction timeout
than the brokers allow, which the brokers refuse before they look at the id. If the brokers' longest
timeout is unknown, or cannot be exceeded, the check does not test that right, and reports this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eo_listener.client_config.admin_commands import alter_topic, create_ledger, create_topic
from eo_listener.errors import counted
from eo_listener.kafka.cluster_describer import ClusterDescriber
from eo_listener.model.check_finding import CheckFinding, Findings, fine, note, problem, warning
from eo_listener.preflight.facts import LONGEST_MS, ClusterFacts, Request, TopicFacts
from eo_listener.preflight.kafka_checks import NO_RIGHTS, UNKNOWN, judge_rights, refused
from eo_listener.sinks.kafka.errors import Explanation

TRANSACTIONS: Final = "__transaction_state"
_MOST: Final = "transaction.max.timeout.ms"
_REPLICAS: Final = "transaction.state.log.replication.factor"
_IN_SYNC: Final = "transaction.state.log.min.isr"
_POLICY: Final = "cleanup.policy"
_RECORD: Final = "max.message.bytes"
_LARGEST: Final = 1_000_000  # bytes of a record that librdkafka sends by default
_SAFE: Final = 3
_NO_ID: Final = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCheck:
    """Checks a KafkaSink. `query` is the query's name, or None if it is unknown."""

    cluster: ClusterDescriber
    plan: Request
    explain: Explanation
    query: str | None
    dead_letters: str | None
    create: bool
    by_executors: bool

    def findings(self) -> Findings:
        """Yield the findings. Raises KafkaError if the cluster cannot be reached."""
        facts, explain = self.cluster.cluster(), self.explain
        log = [TRANSACTIONS] if explain.fences else []
        topics = self.cluster.topics(frozenset([*explain.topics, explain.ledger, *log]))
        if explain.fences:
            yield from self._transactions(facts, topics[TRANSACTIONS])
        for name in explain.topics:
            yield from self._target(topics[name])
        yield from self._ledger(topics[explain.ledger], facts.brokers)
        if explain.fences:
            yield self._transactional_id(facts)

    def _target(self, topic: TopicFacts) -> Findings:
        """Yield the findings about a topic to which the sink writes rows or dead letters."""
        about, servers = f"topic {topic.name}", self.explain.servers
        transactions, is_letters = self.explain.fences, topic.name == self.dead_letters
        needed = ("WRITE",) if transactions else ("READ", "WRITE", "DESCRIBE_CONFIGS")
        if topic.error in UNKNOWN:
            yield problem(
                about,
                "it does not exist, and a sink does not create its target topics",
                create_topic(servers, topic.name),
            )
            return
        if (yield from judge_rights(about, topic, needed, self.plan)) is False:
            return
        may = "write to it (Write)" if transactions else "read and write it (Read, Write)"
        yield fine(about, f"{counted(len(topic.ends), 'partition')}; the client may {may}")
        if self.by_executors and len(topic.ends) == 1 and not is_letters:
            yield note(
                about,
                "it has 1 partition, so one task writes all rows, no faster than the driver would",
                "give it more partitions" + ('; or write_method="driver"' if transactions else ""),
            )
        settings = self.cluster.settings(topic.name) or {}
        to_delete = alter_topic(servers, topic.name, f"{_POLICY}=delete")
        if "compact" not in settings.get(_POLICY, ""):
            pass
        elif is_letters:
            yield problem(
                about,
                f"its {_POLICY} includes compact, but dead letters have no key: brokers refuse "
                "them",
                to_delete,
            )
        elif not transactions:
            yield problem(
                about,
                f"its {_POLICY} includes compact, which transactions=False does not allow: a row "
                "that compaction has removed would be written again after a crash",
                f"use transactions, or {to_delete}",
            )
        else:
            yield note(
                about, "it is compacted: brokers refuse a batch that has a row without a key"
            )
        largest = settings.get(_RECORD, "")
        if largest.isdigit() and int(largest) < _LARGEST:
            yield warning(
                about,
                f"its {_RECORD} is {largest}: a larger row fails its whole batch, and is not "
                "refused alone",
                f'set {{"kafka.max.request.size": "{largest}"}} in the sink\'s options; or '
                f"{alter_topic(servers, topic.name, f'{_RECORD}={_LARGEST}')}",
            )

    def _ledger(self, topic: TopicFacts, brokers: int) -> Findings:
        about = f"ledger {topic.name}"
        if topic.error in UNKNOWN:
            yield self._absent(about, topic.name)
            return
        needed = ["READ", "WRITE", "DESCRIBE_CONFIGS"]
        if topic.error in NO_RIGHTS and self.create:  # Kafka does not reveal if the topic exists
            needed.append("CREATE")
        if (yield from judge_rights(about, topic, needed, self.plan)) is False:
            return
        policy = (self.cluster.settings(topic.name) or {}).get(_POLICY)
        if policy is None:
            yield note(about, f"its {_POLICY} could not be read")
        elif policy != "compact":
            yield problem(
                about,
                f"its {_POLICY} is {policy}: Kafka would delete old heads",
                alter_topic(self.explain.servers, topic.name, f"{_POLICY}=compact")
                + "; or name another topic with ledger_topic=",
            )
        else:
            yield fine(about, "it is compacted; the client may read and write it")
        if topic.replicas < min(_SAFE, brokers):
            yield warning(
                about,
                f"it has {topic.replicas} replicas on {brokers} brokers: losing a broker loses the "
                "proof of what was written",
                "add replicas with kafka-reassign-partitions",
            )

    def _absent(self, about: str, name: str) -> CheckFinding:
        create = create_ledger(self.explain.servers, name)
        if not self.create:
            return problem(about, "it does not exist, and create=False", create)
        error = self.cluster.try_creating(name)
        if error is None:
            return fine(about, "it does not exist yet: the first batch creates it")
        if error in NO_RIGHTS:
            return refused(about, self.plan, ["CREATE"], ["--topic", name])
        return problem(
            about, f"it does not exist, and Kafka refuses to create it ({error})", create
        )

    def _transactions(self, cluster: ClusterFacts, log: TopicFacts) -> Findings:
        """Yield findings about the brokers' limits for transactions, and about the topic `log`."""
        about = f"cluster {cluster.servers}"
        longest, timeout = cluster.number(_MOST), self.explain.transaction_timeout
        if longest is not None and round(timeout * 1000) > longest:
            yield problem(
                about,
                f"{_MOST} is {longest}, below transaction_timeout={timeout:g} s",
                f"set transaction_timeout={longest // 1000}, or raise {_MOST} on every broker",
            )
        elif longest is not None:
            yield fine(about, f"{_MOST} is {longest}: transaction_timeout fits")
        configured, in_sync = cluster.number(_REPLICAS), cluster.number(_IN_SYNC)
        replicas = None if log.error is not None else log.replicas
        if replicas is None and configured is not None and configured > cluster.brokers:
            yield warning(
                about,
                f"{_REPLICAS} is {configured}, but the cluster has {cluster.brokers} brokers: "
                f"unless {TRANSACTIONS} already exists, no transaction can begin",
                f"start more brokers, or set {_REPLICAS}={cluster.brokers} on every broker",
            )
            return
        copies = configured if replicas is None else replicas
        if copies is not None and in_sync is not None and in_sync > copies:
            yield problem(
                about,
                f"{_IN_SYNC} is {in_sync}, but {TRANSACTIONS} has {copies} replicas: no "
                "transaction can be written",
                f"set {_IN_SYNC}={copies} or less on every broker, or add replicas to "
                f"{TRANSACTIONS}",
            )
        elif copies is not None and copies < min(_SAFE, cluster.brokers):
            yield warning(
                about,
                f"{TRANSACTIONS} has {copies} replicas on {cluster.brokers} brokers: while one "
                "of these brokers is down, queries whose transactions are on it wait",
                f"set {_REPLICAS}={_SAFE} on every broker before the first transaction; later, use "
                "kafka-reassign-partitions",
            )

    def _transactional_id(self, cluster: ClusterFacts) -> CheckFinding:
        """Return the finding about the right to use the sink's transactional id."""
        own = self.explain.transactional_id
        about, resource = f"transactional id {own}", ["--transactional-id", own]
        if self.query is None:
            prefixed = ["--resource-pattern-type", "prefixed", *resource]
            return note(
                f"{about}...",
                "permission for it was not tried: the id ends with the query's name, which is "
                "missing",
                "name the query; if the cluster has ACLs: "
                f"{self.plan.grant(['WRITE', 'DESCRIBE'], prefixed)}",
            )
        longest = cluster.number(_MOST)
        if longest is None or longest >= LONGEST_MS:  # a trial would fence the producer of the id
            return note(
                about,
                f"permission for it was not tried: if {_MOST} is unknown, that may fence its owner",
                f"if the cluster has ACLs: {self.plan.grant(['WRITE', 'DESCRIBE'], resource)}",
            )
        error = self.cluster.try_transactional_id(own)
        if error is None:
            return fine(about, "the client may write with it (Write)")
        if error == _NO_ID:
            return refused(about, self.plan, ["WRITE", "DESCRIBE"], resource)
        return note(about, f"permission for it could not be tried ({error})")
