"""What facts mean: tables over the judges, for what no broker at hand can be made to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.model.check_finding import CheckFinding, Severity, to_act_on
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from eo_listener.preflight import kafka_checks
from eo_listener.preflight.child_process import Answer
from eo_listener.preflight.facts import ClusterFacts, GroupFacts, Member, Request, TopicFacts
from eo_listener.preflight.kafka_checks import judge_cluster, judge_group, judge_topic

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {"t": TopicFacts(name="t", has_id=True, ends={0: 9, 1: 9})}


SERVERS = {"bootstrap.servers": "k:9092"}
AL = {**SERVERS, "security.protocol": "sasl_ssl", "sasl.username": "al"}
PLAN = Request(properties=SERVERS)
TRANSACTIONAL = replace(PLAN, mode="transactional")
CONSUMER = Request(properties={**SERVERS, "group.protocol": "consumer"}, mode="member")
OURS = Member(client="eo-listener", host="h", instance="eo-listener")


def cluster(settings: dict[str, str], plan: Request) -> tuple[CheckFinding, ...]:
    facts = ClusterFacts(servers="k:9092", brokers=3, settings=settings)
    return to_act_on(judge_cluster(facts, plan))


@pytest.mark.parametrize(
    ("settings", "plan", "words"),
    [
        ({"offset.metadata.max.bytes": "100"}, PLAN, "120"),
        ({"transaction.max.timeout.ms": "30000"}, TRANSACTIONAL, "transaction.timeout.ms"),
        ({"group.coordinator.rebalance.protocols": "classic"}, CONSUMER, "new protocol"),
    ],
)
def test_limits_of_a_broker(settings: dict[str, str], plan: Request, words: str) -> None:
    """What would refuse every commit is a problem, and only for the mode that meets it."""
    (found,) = cluster(settings, plan)
    assert (found.level, words in found.what) == (Severity.PROBLEM, True)
    if plan.mode != "simple":
        assert not cluster(settings, PLAN)


@pytest.mark.parametrize(
    ("days", "mode", "level"),
    [(4, "simple", Severity.WARNING), (7, "simple", Severity.PROBLEM), (30, "member", None)],
)
def test_the_recommit_interval_is_held_against_the_brokers_retention(
    days: int, mode: str, level: Severity | None
) -> None:
    """Kafka keeps offsets for 7 days, but those of a group with a live member for ever."""
    plan = replace(PLAN, mode=mode, recommit_interval=days * 86400.0)
    found = cluster({"offsets.retention.minutes": "10080"}, plan)
    assert [one.level for one in found] == ([] if level is None else [level])


def test_settings_that_may_not_be_read_are_no_finding() -> None:
    """Most clients may not; what is compared with them is left out, and said."""
    facts = ClusterFacts(servers="k:9092", brokers=1, refused="CLUSTER_AUTHORIZATION_FAILED")
    found = list(judge_cluster(facts, replace(PLAN, properties=AL)))
    assert not to_act_on(found)
    assert found[1].advice.endswith(
        "--allow-principal User:al --operation DescribeConfigs --cluster"
    )


def held(offset: int = 5, **metadata: object) -> Position:
    writer = {"name": "q", "query_id": "i" * 8, "run_id": "r" * 8, "batch_id": 1, **metadata}
    return Position(offset=offset, metadata=CommitMetadata(**writer).text())  # type: ignore[arg-type]  # as a test gives them


def group(facts: GroupFacts, mode: str = "simple") -> tuple[CheckFinding, ...]:
    return to_act_on(judge_group(facts, LOGS, replace(PLAN, mode=mode)))


EMPTY = GroupFacts(name="g", state="Empty", kind="Classic", simple=True, held={})


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({P0: held(withheld=True)}, "withheld"),
        ({P0: held(), P1: held(name="other")}, "other, q"),
        ({TopicPartition("gone", 0): held()}, "do not exist"),
        ({TopicPartition("t", 7): held()}, "do not exist"),
        ({P0: Position(offset=5)}, "another program"),
    ],
)
def test_what_a_group_holds(offsets: dict[TopicPartition, Position], words: str) -> None:
    """Each problem of the held offsets is reported once."""
    facts = GroupFacts(name="g", state="Empty", kind="Classic", simple=True, held=offsets)
    (found,) = group(facts)
    assert (found.level, words in found.what) == (Severity.WARNING, True)


def test_a_fixed_member_of_ours_is_named() -> None:
    """In the mode "member" a second driver would take the place of the first, or wait."""
    facts = GroupFacts(name="g", state="Stable", kind="Classic", simple=False, members=(OURS,))
    levels = {mode: group(facts, mode)[0].level for mode in ("simple", "member")}
    assert levels == {"simple": Severity.PROBLEM, "member": Severity.WARNING}


def test_at_a_start_the_committers_own_traces_are_no_news() -> None:
    """By then it may be the member, or have a transaction open; another one is still reported."""
    other = Member(client="somebody", host="h", instance=None)
    for mode, members, told in (
        ("member", (OURS,), False),
        ("member", (OURS, other), True),
        ("transactional", (), False),
    ):
        facts = GroupFacts(
            name="g", state="Stable", kind="Classic", simple=True, members=members, unstable=True
        )
        found = judge_group(facts, LOGS, replace(PLAN, mode=mode, running=True))
        assert bool(to_act_on(found)) is told


@pytest.mark.parametrize(("kind", "mode"), [("Consumer", "simple"), ("Classic", "member")])
def test_a_group_that_was_left_is_no_trap_where_offsets_go_one_by_one(kind: str, mode: str) -> None:
    """In the new protocol each offset has its own time; a member of ours will keep them all."""
    facts = GroupFacts(name="g", state="Empty", kind=kind, simple=False, held={})
    assert not group(facts, mode)


def test_a_group_that_cannot_be_read_is_no_finding_of_its_own() -> None:
    """Kafka's error is noted, as a passing fault is nothing to act on."""
    facts = GroupFacts(name="g", error="_TIMED_OUT", held_error="_TIMED_OUT")
    found = list(judge_group(facts, {}, PLAN))
    assert {one.level for one in found} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("granted", "lacking"),
    [
        ({"READ"}, ()),  # implies Describe
        ({"ALL"}, ()),
        ({"DESCRIBE"}, ("READ",)),
        ({"WRITE"}, ("READ",)),
        (set(), ("READ", "DESCRIBE")),
    ],
)
def test_rights_that_imply_others(granted: set[str], lacking: tuple[str, ...]) -> None:
    """As Kafka's authorizer sees them."""
    assert kafka_checks.missing(("READ", "DESCRIBE"), granted) == lacking


def test_a_topic_without_an_id_is_noted() -> None:
    """With brokers before 2.8 a topic that was recreated cannot be recognised."""
    facts = TopicFacts(name="t", operations=frozenset({"READ"}), ends={0: 1})
    levels = [one.level for one in judge_topic(facts, PLAN)]
    assert levels == [Severity.FINE, Severity.NOTE]


def test_a_request_and_its_answer_travel_whole() -> None:
    """The repr of a request leaves out the properties, which only the child may read."""
    properties = {"bootstrap.servers": "k:9092", "sasl.password": "hunter2"}
    request = Request(
        properties=properties, groups=("g",), topics=("t",), mode="member", running=True
    )
    assert Request.parse(request.text()) == request
    assert "hunter2" not in repr(request)
    finding = CheckFinding(level=Severity.NOTE, about="a", what="b", advice="c")
    answer = Answer(findings=(finding,), reached=False)
    assert Answer.parse(answer.text()) == answer


@pytest.mark.parametrize(("name", "mode", "wrong"), [
    ("grüße", "transactional", True),
    ("grüße", "simple", False),
    ("grüße", "member", False),
    ("greetings", "transactional", False),
])  # fmt: skip
def test_a_name_that_no_transaction_takes(name: str, mode: str, wrong: bool) -> None:
    """librdkafka refuses a group that is not ASCII in that mode alone, and that is said before."""
    found = group(replace(EMPTY, name=name), mode)
    assert [one.level for one in found if "printable ASCII" in one.what] == [
        Severity.PROBLEM
    ] * wrong
