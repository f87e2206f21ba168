"""A KafkaSink's check of topics, rights and limits: tables over made-up facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from eo_listener.model.check_finding import CheckFinding, Severity, to_act_on
from eo_listener.preflight.facts import LONGEST_MS, ClusterFacts, Request, TopicFacts
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.check import SinkCheck
from eo_listener.sinks.kafka.errors import Explanation

SERVERS = "k:9092"
OWN = "eo-listener/delays/flights"
LOGIN = {"security.protocol": "sasl_ssl", "sasl.username": "al"}
PLAN = Request(properties={"bootstrap.servers": SERVERS, **LOGIN})
EXPLAIN = Explanation(
    label="l",
    servers=SERVERS,
    principal="User:al",
    transactional_id=OWN,
    topics=("delays",),
    ledger="eo-ledger",
    group=None,
    transaction_timeout=600,
)
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE"})
ADD = f"kafka-acls --bootstrap-server {SERVERS} --add --allow-principal User:al "
FINE, NOTE, WARNING, PROBLEM = Severity.FINE, Severity.NOTE, Severity.WARNING, Severity.PROBLEM
LIMIT, POLICY = "transaction.max.timeout.ms", "cleanup.policy"
REPLICAS = "transaction.state.log.replication.factor"
IN_SYNC = "transaction.state.log.min.isr"
DEFAULTS = {LIMIT: "900000", REPLICAS: "3", IN_SYNC: "2"}
ALONE = {**DEFAULTS, REPLICAS: "1", IN_SYNC: "1"}
Settings = Mapping[str, str]
Said = tuple[Severity, str, str]  # level, and a part each of what is every and of what to do
DENIED, ABSENT = {"error": "TOPIC_AUTHORIZATION_FAILED"}, {"error": "UNKNOWN_TOPIC_OR_PART"}


@dataclass
class OfSinks:
    """A cluster without problems, except those that a test adds; keeps the ids that were tried."""

    brokers: int = 3
    limits: Settings | None = field(default_factory=lambda: DEFAULTS)
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_topics: Mapping[str, Settings | None] = field(default_factory=dict)
    creating: str | None = None
    using: str | None = None
    tried: list[str] = field(default_factory=list)

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(servers=SERVERS, brokers=self.brokers, settings=self.limits)

    def topics(self, names: frozenset[str]) -> Mapping[str, TopicFacts]:
        well = TopicFacts(name="", operations=ALL, replicas=self.brokers, ends={0: 0, 1: 0})
        return {name: replace(well, name=name, **self.changes.get(name, {})) for name in names}

    def settings(self, topic: str) -> Settings | None:
        policy = "compact" if topic == "eo-ledger" else "delete"
        return self.of_topics.get(topic, {POLICY: policy, "max.message.bytes": "1048588"})

    def try_creating(self, topic: str) -> str | None:
        assert topic == "eo-ledger"
        return self.creating

    def try_transactional_id(self, transactional_id: str) -> str | None:
        self.tried.append(transactional_id)
        return self.using


def findings(
    cluster: OfSinks, *, explain: Explanation = EXPLAIN, query: str | None = "flights", **sink: Any
) -> list[CheckFinding]:
    arguments = {"dead_letters": None, "create": True, "by_executors": False, **sink}
    if arguments["dead_letters"] is not None:
        explain = replace(explain, topics=(*explain.topics, arguments["dead_letters"]))
    about: dict[str, Any] = {"cluster": cluster, "plan": PLAN, "explain": explain, "query": query}
    return list(SinkCheck(**about, **arguments).findings())


def told(
    findings: Iterable[CheckFinding], level: Severity, what: str = "", advice: str = ""
) -> None:
    """The only thing to act on, or the only note, is this one."""
    every = [*findings]
    (finding,) = to_act_on(every) or [finding for finding in every if finding.level is NOTE]
    assert finding.level is level, finding
    assert what in finding.what
    assert advice in finding.advice


def well(findings: Iterable[CheckFinding]) -> None:
    assert {finding.level for finding in findings} <= {FINE}


SEEN = {"operations": frozenset({"READ", "DESCRIBE"})}
WRITE = ADD + "--operation Write --topic delays"
TO_CREATE = f"kafka-topics --bootstrap-server {SERVERS} --create --topic delays --partitions N"
TO_DELETE = "--alter --topic dead --add-config cleanup.policy=delete"


@pytest.mark.parametrize(
    ("topic", "change", "settings", "expected"),
    [
        ("delays", ABSENT, {}, (PROBLEM, "does not exist", TO_CREATE)),
        ("delays", DENIED, {}, (PROBLEM, "User:al may not Write", WRITE)),
        ("delays", SEEN, {}, (PROBLEM, "User:al may not Write", WRITE)),
        ("delays", {"error": "_TIMED_OUT"}, {}, (NOTE, "_TIMED_OUT", "")),
        ("delays", {"operations": None}, {}, (NOTE, "Kafka does not report", "")),
        ("delays", {}, {POLICY: "compact"}, (NOTE, "without a key", "")),
        ("dead", {}, {POLICY: "compact,delete"}, (PROBLEM, "no key", TO_DELETE)),
        (
            "delays",
            {},
            {"max.message.bytes": "5000"},
            (WARNING, "", '{"kafka.max.request.size": "5000"}'),
        ),
    ],
)
def test_a_topic_that_is_written_to(
    topic: str, change: dict[str, Any], settings: Settings, expected: Said
) -> None:
    """Each problem is named, with the command that solves it."""
    cluster = OfSinks(changes={topic: change}, of_topics={topic: settings})
    told(findings(cluster, dead_letters="dead"), *expected)


def test_one_partition_is_one_task() -> None:
    """A note, if executors write, about a topic of rows; none about dead letters."""
    single = OfSinks(changes={"delays": {"ends": {0: 0}}})
    well(findings(single))
    told(findings(single, by_executors=True), NOTE, "one task writes all", "write_method")
    unfenced = findings(single, explain=replace(EXPLAIN, fences=False), by_executors=True)
    told(unfenced, NOTE, "one task writes all")
    assert "write_method" not in " ".join(finding.advice for finding in unfenced)
    dead = OfSinks(changes={"dead": {"ends": {0: 0}}})
    well(findings(dead, by_executors=True, dead_letters="dead"))


def test_a_topic_that_is_read_back() -> None:
    """Without transactions the sink reads its topic, which must keep every row."""
    unfenced = replace(EXPLAIN, fences=False)
    compacted = OfSinks(of_topics={"delays": {POLICY: "compact"}})
    told(
        findings(compacted, explain=unfenced),
        PROBLEM,
        "transactions=False",
        "cleanup.policy=delete",
    )
    denied = OfSinks(changes={"delays": {"operations": frozenset({"WRITE", "DESCRIBE"})}})
    well(findings(denied))
    rights = "--operation Read --operation DescribeConfigs"
    told(findings(denied, explain=unfenced), PROBLEM, advice=rights)


def test_without_transactions_none_is_asked_about() -> None:
    """Neither their limits nor the right to an id are read; with transactions both are."""
    asked = {}
    for transactions in (True, False):
        cluster = OfSinks()
        every = findings(cluster, explain=replace(EXPLAIN, fences=transactions))
        abouts = {finding.about.partition(" ")[0] for finding in every}
        asked[transactions] = (cluster.tried, sorted(abouts))
    subjects = ["cluster", "ledger", "topic", "transactional"]
    assert asked == {True: ([OWN], subjects), False: ([], ["ledger", "topic"])}


COMPACT = {POLICY: "compact"}
CREATE = "--create --topic eo-ledger --config cleanup.policy=compact"
ALTER = "--alter --topic eo-ledger --add-config cleanup.policy=compact"
ONLY_SEEN = {"operations": frozenset({"READ", "WRITE", "DESCRIBE"})}


@pytest.mark.parametrize(
    ("change", "settings", "error", "expected"),
    [
        (ABSENT, None, DENIED["error"], (PROBLEM, "", ADD + "--operation Create --topic eo-led")),
        (ABSENT, None, "POLICY_VIOLATION", (PROBLEM, "POLICY_VIOLATION", CREATE)),
        (DENIED, None, None, (PROBLEM, "Read and Write and DescribeConfigs and Create", "")),
        (ONLY_SEEN, None, None, (PROBLEM, "", ADD + "--operation DescribeConfigs --topic eo-led")),
        ({}, {POLICY: "delete"}, None, (PROBLEM, "is delete", ALTER)),
        ({}, {POLICY: "compact,delete"}, None, (PROBLEM, "compact,delete", ALTER)),
        ({}, None, None, (NOTE, "could not be read", "")),
        ({"replicas": 1}, COMPACT, None, (WARNING, "1 replica", "kafka-reassign-partitions")),
    ],
)
def test_the_ledgers_topic(
    change: dict[str, Any], settings: Settings | None, error: str | None, expected: Said
) -> None:
    """It must be readable, writable, compacted, and outlive a broker."""
    of_topics = {"eo-ledger": settings}
    cluster = OfSinks(changes={"eo-ledger": change}, of_topics=of_topics, creating=error)
    told(findings(cluster), *expected)


def test_a_ledger_that_is_not_there() -> None:
    """The first batch creates it; with create=False an administrator must."""
    absent = OfSinks(changes={"eo-ledger": ABSENT})
    well(findings(absent))
    well(findings(OfSinks(1, ALONE)))  # Kafka's own defaults on one broker
    told(findings(absent, create=False), PROBLEM, "create=False", CREATE)
    (refused,) = to_act_on(findings(OfSinks(changes={"eo-ledger": DENIED}), create=False))
    assert (refused.level, "Create" in refused.advice) == (PROBLEM, False)


ONE = {"replicas": 1}


@pytest.mark.parametrize(
    ("limits", "log", "brokers", "expected"),
    [
        ({LIMIT: "599999"}, DENIED, 3, (PROBLEM, "=600 s", "timeout=599,")),
        ({REPLICAS: "3"}, DENIED, 2, (WARNING, "no transaction can begin", f"{REPLICAS}=2")),
        ({REPLICAS: "1"}, DENIED, 3, (WARNING, "1 replica", f"{REPLICAS}=3")),
        ({REPLICAS: "2", IN_SYNC: "3"}, DENIED, 3, (PROBLEM, "", f"{IN_SYNC}=2")),
        ({REPLICAS: "3", IN_SYNC: "2"}, ONE, 1, (PROBLEM, "1 replica", f"{IN_SYNC}=1")),
    ],
)
def test_limits_of_the_brokers(
    limits: Settings, log: Mapping[str, Any], brokers: int, expected: Said
) -> None:
    """The replicas of an existing topic count, not the setting for a new one."""
    cluster = OfSinks(brokers, {LIMIT: "900000", **limits}, changes={"__transaction_state": log})
    told(findings(cluster), *expected)


def test_the_right_to_the_transactional_id() -> None:
    """If it is missing or was not tried, the finding has the command that grants it."""
    rights = ADD + "--operation Write --operation Describe "
    denied = OfSinks(using="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    told(findings(denied), PROBLEM, advice=rights + "--transactional-id " + OWN)
    told(findings(OfSinks(using="_TIMED_OUT")), NOTE, "_TIMED_OUT")
    prefix = replace(EXPLAIN, transactional_id="eo-listener/delays/")
    prefixed = "--resource-pattern-type prefixed --transactional-id eo-listener/delays/"
    unnamed = OfSinks()
    told(findings(unnamed, explain=prefix, query=None), NOTE, advice=rights + prefixed)
    assert not unnamed.tried


@pytest.mark.parametrize("limits", [{LIMIT: str(LONGEST_MS)}, {}, None])
def test_the_id_is_tried_only_if_the_brokers_refuse_a_timeout(limits: Settings | None) -> None:
    """If they allowed the time-out, the trial would fence the running query."""
    cluster = OfSinks(limits=limits)
    rights = ADD + "--operation Write --operation Describe --transactional-id "
    told(findings(cluster), NOTE, advice=rights + OWN)
    assert not cluster.tried


def test_a_cluster_that_cannot_be_reached_is_a_finding() -> None:
    """A check raises nothing: an error becomes its last finding."""
    sink = KafkaSink({"kafka.bootstrap.servers": "127.0.0.1:1"}, "t", timeout=1)
    (every,) = sink.check()
    assert (every.level, every.about) == (PROBLEM, "cluster 127.0.0.1:1")
    (long,) = sink.check("q" * 40_000)
    assert (long.level, "transactional id" in long.what) == (PROBLEM, True)
