"""What facts mean for a KafkaSink: tables over the judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.audit.position_finding import Severity
from eo_listener.preflight.facts import (
    LONGEST_MS,
    CheckPlan,
    ClusterFacts,
    GroupFacts,
    Member,
    SinkPlan,
    TopicFacts,
    Tried,
)
from eo_listener.preflight.findings import CheckFinding, to_act_on
from eo_listener.preflight.request import Request
from eo_listener.preflight.sink_checks import (
    judge_ledger,
    judge_sink_group,
    judge_target,
    judge_transactional_id,
    judge_transactions,
    may_try,
)

SERVERS = "k:9092"
PLAN = CheckPlan(servers=SERVERS, principal="User:al")
SINK = SinkPlan(topics=("delays",), key="delays", query="flights", dead_letters="dead")
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE"})
TARGET = TopicFacts(name="delays", operations=ALL, replicas=3, ends={0: 0, 1: 0})
LEDGER = TopicFacts(name="eo-ledger", operations=ALL, replicas=3, ends={0: 0})
LOG = TopicFacts(name="__transaction_state", error="TOPIC_AUTHORIZATION_FAILED")
THREE = ClusterFacts(servers=SERVERS, brokers=3, settings={})
ADD = f"kafka-acls --bootstrap-server {SERVERS} --add --allow-principal User:al "
FINE, NOTE, WARNING, PROBLEM = Severity.FINE, Severity.NOTE, Severity.WARNING, Severity.PROBLEM
Settings = Mapping[str, str]
Said = tuple[Severity, str, str]  # level, and a part each of what is found and of what to do


def told(
    findings: Iterable[CheckFinding], level: Severity, what: str = "", advice: str = ""
) -> None:
    """The only thing to act on, or the only note, is this one."""
    found = [*findings]
    (one,) = to_act_on(found) or [one for one in found if one.level is NOTE]
    assert one.level is level, one
    assert what in one.what
    assert advice in one.advice


def well(findings: Iterable[CheckFinding]) -> None:
    assert {one.level for one in findings} <= {FINE}


def target(topic: TopicFacts, settings: Settings, sink: SinkPlan = SINK) -> list[CheckFinding]:
    return list(judge_target(topic, settings, sink, PLAN))


DENIED, ABSENT = {"error": "TOPIC_AUTHORIZATION_FAILED"}, {"error": "UNKNOWN_TOPIC_OR_PART"}
SEEN = {"operations": frozenset({"READ", "DESCRIBE"})}
WRITE = ADD + "--operation Write --topic delays"
TO_CREATE = f"kafka-topics --bootstrap-server {SERVERS} --create --topic delays --partitions N"
TO_DELETE = "--alter --topic dead --add-config cleanup.policy=delete"


@pytest.mark.parametrize(
    ("change", "settings", "said"),
    [
        (ABSENT, {}, (PROBLEM, "does not exist", TO_CREATE)),
        (DENIED, {}, (PROBLEM, "User:al may not Write", WRITE)),
        (SEEN, {}, (PROBLEM, "User:al may not Write", WRITE)),
        ({"error": "_TIMED_OUT"}, {}, (NOTE, "_TIMED_OUT", "")),
        ({"operations": None}, {}, (NOTE, "Kafka does not report", "")),
        ({}, {"cleanup.policy": "compact"}, (NOTE, "without a key", "")),
        ({"name": "dead"}, {"cleanup.policy": "compact,delete"}, (PROBLEM, "no key", TO_DELETE)),
        ({}, {"max.message.bytes": "5000"}, (WARNING, "", '{"kafka.max.request.size": "5000"}')),
    ],
)
def test_a_topic_that_is_written_to(change: dict[str, Any], settings: Settings, said: Said) -> None:
    """What is missing is named, with the command that gives it."""
    told(target(replace(TARGET, **change), settings), *said)


def test_one_partition_is_one_task() -> None:
    """Which is worth a word where the executors are to write, of rows and not of dead letters."""
    well(target(TARGET, {"cleanup.policy": "delete", "max.message.bytes": "1048588"}))
    single = replace(TARGET, ends={0: 0})
    well(target(single, {}))
    by_executors = replace(SINK, write_method="executors")
    told(target(single, {}, by_executors), NOTE, "one task writes all", "write_method")
    unfenced = target(single, {}, replace(by_executors, transactions=False))
    told(unfenced, NOTE, "one task writes all")
    assert "write_method" not in " ".join(one.advice for one in unfenced)
    well(target(replace(single, name="dead"), {}, by_executors))


def test_a_topic_that_is_read_back() -> None:
    """Without transactions the sink reads its topic, which must keep every row."""
    unfenced = replace(SINK, transactions=False)
    well(target(TARGET, {"cleanup.policy": "delete"}, unfenced))
    compacted = target(TARGET, {"cleanup.policy": "compact"}, unfenced)
    told(compacted, PROBLEM, "transactions=False", "cleanup.policy=delete")
    denied = replace(TARGET, operations=frozenset({"WRITE", "DESCRIBE"}))
    well(target(denied, {}))
    rights = "--operation Read --operation DescribeConfigs"
    told(target(denied, {}, unfenced), PROBLEM, advice=rights)


class OfSinks:
    """A cluster in which all is well; keeps which transactional ids were tried."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    def cluster(self) -> ClusterFacts:
        return replace(THREE, settings={"transaction.max.timeout.ms": "900000"})

    def group(self, name: str) -> GroupFacts:
        return GroupFacts(name=name, state="Empty", operations=frozenset({"READ"}))

    def topics(self, names: frozenset[str]) -> Mapping[str, TopicFacts]:
        return {name: replace(TARGET, name=name) for name in names}

    def settings(self, topic: str) -> Settings:
        return {"cleanup.policy": "compact" if topic == "eo-ledger" else "delete"}

    def try_creating(self, topic: str) -> Tried:
        return Tried()

    def try_transactional_id(self, transactional_id: str) -> Tried:
        self.tried.append(transactional_id)
        return Tried()


def test_without_transactions_none_is_asked_about() -> None:
    """Neither their limits, nor the right to an id; the same cluster is asked with them."""
    asked = {}
    for transactions in (True, False):
        sink = replace(SINK, dead_letters=None, transactions=transactions)
        cluster = OfSinks()
        request = Request(properties={"bootstrap.servers": SERVERS}, sink=sink)
        assert Request.parse(request.text()) == request, "it travels whole"
        abouts = " ".join(one.about for one in request.findings(cluster))
        asked[transactions] = (cluster.tried, "transactional id" in abouts)
    assert asked == {True: (["eo-listener/delays/flights"], True), False: ([], False)}


def ledger(
    change: Mapping[str, Any], settings: Settings | None, tried: Tried | None = None, **sink: Any
) -> list[CheckFinding]:
    topic = replace(LEDGER, **change)
    return list(judge_ledger(topic, settings, tried, THREE, replace(SINK, **sink), PLAN))


COMPACT = {"cleanup.policy": "compact"}
CREATE = "--create --topic eo-ledger --config cleanup.policy=compact"
ALTER = "--alter --topic eo-ledger --add-config cleanup.policy=compact"
ONLY_SEEN = {"operations": frozenset({"READ", "WRITE", "DESCRIBE"})}


@pytest.mark.parametrize(
    ("change", "settings", "error", "said"),
    [
        (ABSENT, None, None, (PROBLEM, "create=False", CREATE)),
        (ABSENT, None, DENIED["error"], (PROBLEM, "", ADD + "--operation Create --topic eo-led")),
        (ABSENT, None, "POLICY_VIOLATION", (PROBLEM, "POLICY_VIOLATION", CREATE)),
        (DENIED, None, None, (PROBLEM, "Read and Write and DescribeConfigs and Create", "")),
        (ONLY_SEEN, None, None, (PROBLEM, "", ADD + "--operation DescribeConfigs --topic eo-led")),
        ({}, {"cleanup.policy": "delete"}, None, (PROBLEM, "is delete", ALTER)),
        ({}, {"cleanup.policy": "compact,delete"}, None, (PROBLEM, "compact,delete", ALTER)),
        ({}, None, None, (NOTE, "could not be read", "")),
        ({"replicas": 1}, COMPACT, None, (WARNING, "1 replica", "kafka-reassign-partitions")),
    ],
)
def test_the_ledgers_topic(
    change: dict[str, Any], settings: Settings | None, error: str | None, said: Said
) -> None:
    """It must be readable, writable, compacted, and outlive a broker."""
    told(ledger(change, settings, Tried(error=error) if error else None), *said)


def test_a_ledger_that_is_well() -> None:
    """It is there and compacted, or the first batch may make it."""
    well(ledger({}, COMPACT))
    well(ledger(ABSENT, None, Tried()))
    (refused,) = to_act_on(ledger(DENIED, None, create=False))
    assert (refused.level, "Create" in refused.advice) == (PROBLEM, False)


def transactions(
    settings: Settings, log: TopicFacts = LOG, *, brokers: int = 3, timeout: float = 600
) -> list[CheckFinding]:
    cluster = ClusterFacts(servers=SERVERS, brokers=brokers, settings=settings)
    return list(judge_transactions(cluster, log, replace(SINK, transaction_timeout=timeout)))


REPLICAS = "transaction.state.log.replication.factor"
IN_SYNC = "transaction.state.log.min.isr"


ONE = TopicFacts(name="__transaction_state", replicas=1)


@pytest.mark.parametrize(
    ("settings", "log", "brokers", "said"),
    [
        ({"transaction.max.timeout.ms": "599999"}, LOG, 3, (PROBLEM, "=600 s", "timeout=599,")),
        ({REPLICAS: "3"}, LOG, 2, (WARNING, "no transaction can begin", f"{REPLICAS}=2")),
        ({REPLICAS: "1"}, LOG, 3, (WARNING, "1 replica", f"{REPLICAS}=3")),
        ({REPLICAS: "2", IN_SYNC: "3"}, LOG, 3, (PROBLEM, "", f"{IN_SYNC}=2")),
        ({REPLICAS: "3", IN_SYNC: "2"}, ONE, 1, (PROBLEM, "1 replica", f"{IN_SYNC}=1")),
    ],
)
def test_what_brokers_allow(settings: Settings, log: TopicFacts, brokers: int, said: Said) -> None:
    """A topic that is there counts more than the setting that it was once made by."""
    told(transactions(settings, log, brokers=brokers), *said)


def test_brokers_that_are_well() -> None:
    """As they come, of one and of three; and those that say nothing."""
    kafka = {"transaction.max.timeout.ms": "900000", REPLICAS: "3", IN_SYNC: "2"}
    well(transactions(kafka))
    well(transactions({**kafka, REPLICAS: "1", IN_SYNC: "1"}, brokers=1))
    well(transactions({}, timeout=10_000))


def test_the_right_to_the_transactional_id() -> None:
    """It is tried where that takes the id from nobody; else what would give it is said."""
    own = "--transactional-id eo-listener/delays/flights"
    rights = ADD + "--operation Write --operation Describe "

    def judged(tried: Tried | None, sink: SinkPlan = SINK) -> list[CheckFinding]:
        return [judge_transactional_id(sink, tried, PLAN)]

    well(judged(Tried()))
    denied = Tried(error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    told(judged(denied), PROBLEM, advice=rights + own)
    told(judged(None), NOTE, advice=rights + own)
    told(judged(Tried(error="_TIMED_OUT")), NOTE, "_TIMED_OUT")
    prefixed = "--resource-pattern-type prefixed --transactional-id eo-listener/delays/"
    told(judged(None, replace(SINK, query=None)), NOTE, advice=rights + prefixed)


def test_the_id_is_tried_only_where_some_timeout_is_refused() -> None:
    """A time-out that is allowed would fence the query that runs."""
    assert may_try(replace(THREE, settings={"transaction.max.timeout.ms": "900000"}))
    for settings in ({"transaction.max.timeout.ms": str(LONGEST_MS)}, {}, None):
        assert not may_try(replace(THREE, settings=settings))


def test_the_group_that_is_moved_with_the_batches() -> None:
    """It needs Read; and whoever is a member of it may commit too."""
    read = GroupFacts(name="g", state="Empty", operations=frozenset({"READ"}))
    denied = replace(read, error="GROUP_AUTHORIZATION_FAILED", operations=None)
    joined = replace(read, members=(Member(client="c", host="h", instance=None),))
    well(judge_sink_group(read, PLAN))
    for facts, level, what, advice in (
        (denied, PROBLEM, "", ADD + "--operation Read --group g"),
        (joined, WARNING, "1 member (c at h)", ""),
        (replace(read, protocol="connect"), PROBLEM, "connect group", ""),
        (GroupFacts(name="g", error="_TIMED_OUT"), NOTE, "(_TIMED_OUT)", ""),
    ):
        told(judge_sink_group(facts, PLAN), level, what, advice)
