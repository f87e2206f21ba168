"""What facts mean for a KafkaSink: tables over the judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

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
from eo_listener.preflight.findings import CheckFinding, Level, to_act_on
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
PLAN = CheckPlan(principal="User:al")
SINK = SinkPlan(topics=("delays",), key="delays", query="flights", dead_letters="dead")
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE"})
TARGET = TopicFacts(name="delays", operations=ALL, replicas=3, ends={0: 0, 1: 0})
LEDGER = TopicFacts(name="eo-ledger", operations=ALL, replicas=3, ends={0: 0})
LOG = TopicFacts(name="__transaction_state", error="TOPIC_AUTHORIZATION_FAILED")
THREE = ClusterFacts(servers=SERVERS, brokers=3, settings={})
ADD = f"kafka-acls --bootstrap-server {SERVERS} --add --allow-principal User:al "
Settings = Mapping[str, str]


def told(findings: Iterable[CheckFinding], level: Level) -> CheckFinding:
    """The only thing to act on, or the only note; it says what to do."""
    found = [*findings]
    (one,) = to_act_on(found) or [one for one in found if one.level is Level.NOTE]
    assert one.level is level, one
    return one


def well(findings: Iterable[CheckFinding]) -> None:
    assert {one.level for one in findings} <= {Level.FINE}


def target(topic: TopicFacts, settings: Settings, sink: SinkPlan = SINK) -> list[CheckFinding]:
    return list(judge_target(topic, settings, SERVERS, sink, PLAN))


@pytest.mark.parametrize(
    ("topic", "settings", "level", "what", "advice"),
    [
        (
            replace(TARGET, error="UNKNOWN_TOPIC_OR_PART"),
            {},
            Level.PROBLEM,
            "does not exist",
            f"kafka-topics --bootstrap-server {SERVERS} --create --topic delays --partitions N",
        ),
        (
            replace(TARGET, error="TOPIC_AUTHORIZATION_FAILED"),
            {},
            Level.PROBLEM,
            "User:al may not Write",
            ADD + "--operation Write --topic delays",
        ),
        (
            replace(TARGET, operations=frozenset({"READ", "DESCRIBE"})),
            {},
            Level.PROBLEM,
            "User:al may not Write",
            ADD + "--operation Write --topic delays",
        ),
        (replace(TARGET, error="_TIMED_OUT"), {}, Level.NOTE, "_TIMED_OUT", ""),
        (replace(TARGET, operations=None), {}, Level.NOTE, "Kafka does not report", ""),
        (TARGET, {"cleanup.policy": "compact"}, Level.NOTE, "a row without a key", ""),
        (
            replace(TARGET, name="dead"),
            {"cleanup.policy": "compact,delete"},
            Level.PROBLEM,
            "dead letters have no key",
            "--alter --topic dead --add-config cleanup.policy=delete",
        ),
        (
            TARGET,
            {"max.message.bytes": "5000"},
            Level.WARNING,
            "a larger row fails its batch",
            '{"kafka.max.request.size": "5000"}',
        ),
    ],
)
def test_a_topic_that_is_written_to(
    topic: TopicFacts, settings: Settings, level: Level, what: str, advice: str
) -> None:
    """What is missing is named, with the command that gives it."""
    one = told(target(topic, settings), level)
    assert what in one.what
    assert advice in one.advice


def test_one_partition_is_one_task() -> None:
    """Which is worth a word where the executors are to write, of rows and not of dead letters."""
    well(target(TARGET, {"cleanup.policy": "delete", "max.message.bytes": "1048588"}))
    single = replace(TARGET, ends={0: 0})
    well(target(single, {}))
    by_executors = replace(SINK, write_method="executors")
    for sink in (by_executors, replace(by_executors, transactions=False)):
        one = told(target(single, {}, sink), Level.NOTE)
        assert "one task writes all" in one.what
        assert ("write_method" in one.advice) is sink.transactions
    well(target(replace(single, name="dead"), {}, by_executors))


def test_a_topic_that_is_read_back() -> None:
    """Without transactions the sink reads its topic, which must keep every row."""
    unfenced = replace(SINK, transactions=False)
    well(target(TARGET, {"cleanup.policy": "delete"}, unfenced))
    one = told(target(TARGET, {"cleanup.policy": "compact"}, unfenced), Level.PROBLEM)
    assert "transactions=False" in one.what
    assert "cleanup.policy=delete" in one.advice
    denied = replace(TARGET, operations=frozenset({"WRITE", "DESCRIBE"}))
    well(target(denied, {}))
    one = told(target(denied, {}, unfenced), Level.PROBLEM)
    assert "--operation Read --operation DescribeConfigs" in one.advice


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
        abouts = " ".join(one.about for one in request.findings(cluster))
        asked[transactions] = (cluster.tried, "transactional id" in abouts)
    assert asked == {True: (["eo-listener/delays/flights"], True), False: ([], False)}


def ledger(
    topic: TopicFacts,
    settings: Settings | None,
    creation: Tried | None = None,
    sink: SinkPlan = SINK,
) -> list[CheckFinding]:
    return list(judge_ledger(topic, settings, creation, THREE, sink, PLAN))


ABSENT = replace(LEDGER, error="UNKNOWN_TOPIC_OR_PART")
COMPACT = {"cleanup.policy": "compact"}
CREATE = "--create --topic eo-ledger --config cleanup.policy=compact"


@pytest.mark.parametrize(
    ("topic", "settings", "creation", "level", "what", "advice"),
    [
        (ABSENT, None, None, Level.PROBLEM, "create=False", CREATE),
        (
            ABSENT,
            None,
            Tried(error="TOPIC_AUTHORIZATION_FAILED"),
            Level.PROBLEM,
            "may not Create",
            ADD + "--operation Create --topic eo-ledger",
        ),
        (ABSENT, None, Tried(error="POLICY_VIOLATION"), Level.PROBLEM, "POLICY_VIOLATION", CREATE),
        (
            replace(LEDGER, error="TOPIC_AUTHORIZATION_FAILED"),
            None,
            None,
            Level.PROBLEM,
            "may not Read and Write and DescribeConfigs and Create",
            "--operation DescribeConfigs --operation Create --topic eo-ledger",
        ),
        (
            replace(LEDGER, operations=frozenset({"READ", "WRITE", "DESCRIBE"})),
            None,
            None,
            Level.PROBLEM,
            "may not DescribeConfigs",
            ADD + "--operation DescribeConfigs --topic eo-ledger",
        ),
        (
            LEDGER,
            {"cleanup.policy": "delete"},
            None,
            Level.PROBLEM,
            "cleanup.policy is delete",
            "--alter --topic eo-ledger --add-config cleanup.policy=compact",
        ),
        (
            LEDGER,
            {"cleanup.policy": "compact,delete"},
            None,
            Level.PROBLEM,
            "compact,delete",
            "--add-config cleanup.policy=compact",
        ),
        (LEDGER, None, None, Level.NOTE, "could not be read", ""),
        (
            replace(LEDGER, replicas=1),
            COMPACT,
            None,
            Level.WARNING,
            "1 replicas, on 3 brokers",
            "kafka-reassign-partitions",
        ),
    ],
)
def test_the_ledgers_topic(
    topic: TopicFacts,
    settings: Settings | None,
    creation: Tried | None,
    level: Level,
    what: str,
    advice: str,
) -> None:
    """It must be readable, writable, compacted, and outlive a broker."""
    one = told(ledger(topic, settings, creation), level)
    assert what in one.what
    assert advice in one.advice


def test_a_ledger_that_is_well() -> None:
    """It is there and compacted, or the first batch may make it."""
    well(ledger(LEDGER, COMPACT))
    well(ledger(ABSENT, None, Tried()))
    refused = replace(LEDGER, error="TOPIC_AUTHORIZATION_FAILED")
    one = told(ledger(refused, None, sink=replace(SINK, create=False)), Level.PROBLEM)
    assert "Create" not in one.advice


def transactions(
    settings: Settings, log: TopicFacts = LOG, *, brokers: int = 3, timeout: float = 600
) -> list[CheckFinding]:
    cluster = ClusterFacts(servers=SERVERS, brokers=brokers, settings=settings)
    return list(judge_transactions(cluster, log, replace(SINK, transaction_timeout=timeout)))


REPLICAS = "transaction.state.log.replication.factor"
IN_SYNC = "transaction.state.log.min.isr"


@pytest.mark.parametrize(
    ("settings", "log", "brokers", "level", "what", "advice"),
    [
        (
            {"transaction.max.timeout.ms": "599999"},
            LOG,
            3,
            Level.PROBLEM,
            "below transaction_timeout=600 s",
            "transaction_timeout=599; or raise transaction.max.timeout.ms",
        ),
        ({REPLICAS: "3"}, LOG, 2, Level.WARNING, "no transaction can begin", f"{REPLICAS}=2"),
        ({REPLICAS: "1"}, LOG, 3, Level.WARNING, "1 replicas, on 3 brokers", f"{REPLICAS}=3"),
        ({REPLICAS: "2", IN_SYNC: "3"}, LOG, 3, Level.PROBLEM, "can be written", f"{IN_SYNC}=2"),
        (
            {REPLICAS: "3", IN_SYNC: "2"},
            TopicFacts(name="__transaction_state", replicas=1),
            1,
            Level.PROBLEM,
            "has 1 replicas",
            f"{IN_SYNC}=1",
        ),
    ],
)
def test_what_brokers_allow(
    settings: Settings, log: TopicFacts, brokers: int, level: Level, what: str, advice: str
) -> None:
    """A topic that is there counts more than the setting that it was once made by."""
    one = told(transactions(settings, log, brokers=brokers), level)
    assert what in one.what
    assert advice in one.advice


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
        return [judge_transactional_id(sink, tried, SERVERS, PLAN)]

    well(judged(Tried()))
    denied = Tried(error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert told(judged(denied), Level.PROBLEM).advice.endswith(rights + own)
    assert told(judged(None), Level.NOTE).advice.endswith(rights + own)
    assert "_TIMED_OUT" in told(judged(Tried(error="_TIMED_OUT")), Level.NOTE).what
    unnamed = told(judged(None, replace(SINK, query=None)), Level.NOTE).advice
    prefixed = "--resource-pattern-type prefixed --transactional-id eo-listener/delays/"
    assert unnamed.endswith(rights + prefixed)


@pytest.mark.parametrize(
    ("settings", "possible"),
    [
        ({"transaction.max.timeout.ms": "900000"}, True),
        ({"transaction.max.timeout.ms": str(LONGEST_MS)}, False),
        ({}, False),
        (None, False),
    ],
)
def test_the_id_is_tried_only_where_some_timeout_is_refused(
    settings: Settings | None, possible: bool
) -> None:
    """A time-out that is allowed would fence the query that runs."""
    assert may_try(replace(THREE, settings=settings)) is possible


def test_the_group_that_is_moved_with_the_batches() -> None:
    """It needs Read; and whoever is a member of it may commit too."""
    read = GroupFacts(name="g", state="Empty", operations=frozenset({"READ"}))
    well(judge_sink_group(read, SERVERS, PLAN))
    denied = replace(read, error="GROUP_AUTHORIZATION_FAILED", operations=None)
    one = told(judge_sink_group(denied, SERVERS, PLAN), Level.PROBLEM)
    assert one.advice.endswith(ADD + "--operation Read --group g")
    joined = replace(read, members=(Member(client="c", host="h", instance=None),))
    one = told(judge_sink_group(joined, SERVERS, PLAN), Level.WARNING)
    assert "it has 1 member (c at h)" in one.what
    connect = replace(read, protocol="connect")
    assert "connect group" in told(judge_sink_group(connect, SERVERS, PLAN), Level.PROBLEM).what
    unknown = GroupFacts(name="g", error="_TIMED_OUT")
    one = told(judge_sink_group(unknown, SERVERS, PLAN), Level.NOTE)
    assert "could not be described (_TIMED_OUT)" in one.what


def test_a_request_about_a_sink_travels_whole() -> None:
    """To the child that asks Kafka."""
    for sink in (SINK, replace(SINK, transactions=False)):
        request = Request(properties={"bootstrap.servers": SERVERS}, sink=sink)
        assert Request.parse(request.text()) == request
