"""What counts as the end of a transaction: what is seen afterwards, not what was answered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from eo_listener.kafka import transaction_repair
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    OpenProducer,
    OpenProducers,
)
from eo_listener.kafka.open_transactions import OpenTransaction, TransactionVerdict
from eo_listener.kafka.stable_offsets import StableOffsets
from eo_listener.kafka.transaction_repair import End, EndedTransaction, TransactionRepair
from eo_listener.model.errors import InUseError, KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

T0, T1, T2 = (TopicPartition("delays", number) for number in range(3))
ONE = OpenProducer(4711, 0, 0, 120, 1, 1_000_000)
OPEN = {T0: ONE}
ID = "eo-listener/delays/flights"
LOST = KafkaError("the connection was lost", code="_TRANSPORT")
LATE = KafkaError("no answer in time", code="REQUEST_TIMED_OUT")
MOVING = KafkaError("not the leader", code="NOT_LEADER_OR_FOLLOWER")


def described(state: str = "Ongoing", started: int | None = 7) -> DescribedTransaction:
    return DescribedTransaction(
        state=state,
        producer_id=4711,
        epoch=0,
        partitions=frozenset(OPEN),
        timeout=60.0,
        started=started,
    )


def hanging(*partitions: TopicPartition, name: str | None = None) -> OpenTransaction:
    return OpenTransaction(
        producer_id=4711,
        transactional_id=name,
        verdict=TransactionVerdict.HANGING,
        producers=dict.fromkeys(partitions, ONE),
        holds=frozenset(partitions),
        described=None if name is None else described("Empty"),
    )


@dataclass
class Java:
    """Leaders, of which a marker ends what they have open; and a coordinator.

    `refused` are the errors of markers, `lost` whether they are written all the same; `before` is
    called before each question to a leader.
    """

    still_open: dict[TopicPartition, OpenProducer]
    state: DescribedTransaction | None = None
    away: KafkaError | None = None
    refused: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)
    lost: bool = False
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    before: Callable[[Java], None] = lambda java: None
    stable: int = 200
    marked: list[TopicPartition] = field(default_factory=list)

    def open_producers(self, asked: Collection[TopicPartition], timeout: float) -> OpenProducers:
        if self.away is not None:
            raise self.away
        self.before(self)
        found = {tp: (one,) for tp, one in self.still_open.items() if tp in asked}
        errors = {tp: error for tp, error in self.errors.items() if tp in asked}
        return OpenProducers(found=found, errors=errors)

    def stable_offsets(self, asked: Collection[TopicPartition]) -> StableOffsets:
        return StableOffsets(ranges=dict.fromkeys(asked, OffsetRange(self.stable, 300)))

    def transactional_ids(self, producers: Collection[int], timeout: float) -> Mapping[int, str]:
        return self.named

    def describe(self, transactional_id: str, timeout: float) -> DescribedTransaction:
        assert self.state is not None
        return self.state

    def abort(self, tp: TopicPartition, producer: OpenProducer, timeout: float) -> None:
        self.marked.append(tp)
        if tp not in self.refused or self.lost:
            self.still_open.pop(tp, None)
        if tp in self.refused:
            raise self.refused[tp]


taken: list[float] = []


def repair(
    monkeypatch: pytest.MonkeyPatch, java: Java, *failed: KafkaError | None
) -> TransactionRepair:
    """A repair whose producers take the id over, or fail to; `taken` has their time-outs."""
    taken.clear()

    class Taken:
        def __init__(self, *_: object, transaction_timeout: float) -> None:
            taken.append(transaction_timeout)

        def take_over(self, timeout: float) -> None:
            if len(taken) <= len(failed) and (error := failed[len(taken) - 1]) is not None:
                raise error

        def leave(self) -> None:
            """Have nothing to leave."""

    for name in ("_TIMEOUT", "_QUESTION", "_PAUSE"):
        monkeypatch.setattr(transaction_repair, name, 0.01)
    monkeypatch.setattr(transaction_repair, "BatchProducer", Taken)
    properties = {"bootstrap.servers": "k:9092"}
    return TransactionRepair(properties, java, java.stable_offsets)  # type: ignore[arg-type]  # stands in


def ends(found: EndedTransaction) -> list[End]:
    return [one.end for one in found.partitions.values()]


def test_an_answer_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id was taken over, the marker written all the same: nothing is open, which is success."""
    gone = Java({}, described("Empty", started=None))
    assert repair(monkeypatch, gone, LOST).fence(ID, described(), OPEN).whole
    written = Java({T0: ONE}, refused={T0: LATE}, lost=True)
    assert repair(monkeypatch, written).mark_aborted(hanging(T0)).whole


def test_one_that_was_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open as before, and why is said: it is not known whether it comes yet."""
    same = Java(dict(OPEN), described())
    found = repair(monkeypatch, same, LOST).fence(ID, described(), OPEN)
    assert not found.whole
    assert ends(found) == [End.OPEN]
    assert "connection was lost; it may have arrived" in (found.partitions[T0].why or "")
    assert found.coordinator is not None
    assert found.coordinator.why == "its coordinator says Ongoing"


def test_a_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was changed, and the command is said."""
    right = KafkaError("refused", code="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    same = Java(dict(OPEN), described())
    with pytest.raises(KafkaError, match=f"--operation Write --transactional-id {ID}"):
        repair(monkeypatch, same, right).fence(ID, described(), OPEN)
    cluster = KafkaError("refused", code="CLUSTER_AUTHORIZATION_FAILED")
    refusing = Java({T0: ONE, T1: ONE}, refused={T0: cluster})
    with pytest.raises(KafkaError, match="--operation ClusterAction --cluster"):
        repair(monkeypatch, refusing).mark_aborted(hanging(T0, T1))
    assert refusing.marked == [T0]


def test_a_time_out_above_what_brokers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is taken over for some seconds, however long its own transactions may last."""
    gone = Java({}, described("Empty", started=None))
    long = replace(described(), timeout=900.0)
    assert repair(monkeypatch, gone).fence(ID, long, OPEN).whole
    assert taken == [10.0]
    too_long = KafkaError("refused", code="INVALID_TRANSACTION_TIMEOUT")
    assert repair(monkeypatch, gone, too_long).fence(ID, long, OPEN).whole
    assert taken == [10.0, 1.0]
    repair(monkeypatch, gone, LOST).fence(ID, long, OPEN)
    assert taken == [10.0], "one that may have been done is not done again"


@pytest.mark.parametrize("state", ["Ongoing", "PrepareAbort"])
def test_one_that_stays_open(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call succeeded, and it is open all the same: that is no success."""
    at_leader = Java(dict(OPEN), described("Empty", started=None))
    found = repair(monkeypatch, at_leader).fence(ID, described(), OPEN)
    assert (ends(found), found.whole) == ([End.OPEN], False)
    at_coordinator = Java({}, described(state))
    found = repair(monkeypatch, at_coordinator).fence(ID, described(), OPEN)
    assert (ends(found), found.whole) == ([End.ENDED], False)


def test_readers_must_be_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker that is not in all in-sync replicas ends a producer's transaction, and no wait."""
    java = Java({}, described("Empty", started=None), stable=120)
    for found in (
        repair(monkeypatch, java).fence(ID, described(), OPEN),
        repair(monkeypatch, java).mark_aborted(hanging(T0)),
    ):
        assert (ends(found), found.whole) == ([End.HELD], False)
        assert "still stand at 120" in (found.partitions[T0].why or "")
    java.stable = 121
    assert repair(monkeypatch, java).mark_aborted(hanging(T0)).whole
    java.stable, java.still_open = 100, {T0: ONE._replace(producer_id=12, start=100)}
    assert repair(monkeypatch, java).mark_aborted(hanging(T0)).whole, "an earlier one holds them"
    java.stable, java.still_open = 120, {T0: ONE._replace(producer_id=12, start=130)}
    assert ends(repair(monkeypatch, java).mark_aborted(hanging(T0))) == [End.HELD]


def test_readers_go_on_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is waited for."""

    def later(java: Java) -> None:
        java.stable += 1

    made = repair(monkeypatch, java := Java({}, stable=117, before=later))
    monkeypatch.setattr(transaction_repair, "_TIMEOUT", 30.0)
    assert made.mark_aborted(hanging(T0)).whole
    assert java.stable == 121


def test_of_several_partitions_each_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the last failure: one ended, one failed, one cannot be asked any more."""
    java = Java({T0: ONE, T1: ONE, T2: ONE}, refused={T1: MOVING})
    calls: list[int] = []

    def before(java: Java) -> None:
        calls.append(1)
        if len(calls) > 3:  # it was looked at before each of three markers
            java.errors = {T2: LOST}

    java.before = before
    found = repair(monkeypatch, java).mark_aborted(hanging(T0, T1, T2))
    assert ends(found) == [End.ENDED, End.OPEN, End.UNKNOWN]
    assert found.partitions[T1].why == "not the leader", "that is known to have had no effect"
    assert java.marked == [T0, T1, T2], "each once"


@pytest.mark.parametrize("partitions", [(T0,), (T0, T1)])
def test_it_is_looked_at_before_each_marker(
    partitions: tuple[TopicPartition, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has changed since is left alone: its program may be alive, and commit."""

    def written(java: Java) -> None:
        java.still_open = dict.fromkeys(java.still_open, ONE._replace(last_sequence=2))

    def named(java: Java) -> None:
        java.named = {4711: "payments"}

    for change, said in ((written, "has written"), (named, "a coordinator has its producer now")):
        java = Java(dict.fromkeys(partitions, ONE), before=change)
        with pytest.raises(InUseError, match=said):
            repair(monkeypatch, java).mark_aborted(hanging(*partitions))
        assert not java.marked

        def second(java: Java, change: Callable[[Java], None] = change) -> None:
            if java.marked:
                change(java)

        java = Java(dict.fromkeys((T0, T1, T2), ONE), before=second)
        found = repair(monkeypatch, java).mark_aborted(hanging(T0, T1, T2))
        assert ends(found) == [End.ENDED, End.LEFT, End.LEFT]
        assert java.marked == [T0]


def test_a_change_in_one_partition_is_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is alive: the partitions behind are left alone, though they are as before."""

    def second(java: Java) -> None:
        if java.marked and T1 in java.still_open:
            java.still_open[T1] = ONE._replace(last_sequence=2)

    java = Java(dict.fromkeys((T0, T1, T2), ONE), before=second)
    found = repair(monkeypatch, java).mark_aborted(hanging(T0, T1, T2))
    assert ends(found) == [End.ENDED, End.LEFT, End.LEFT]
    assert java.marked == [T0]


def test_its_id_has_begun_another_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator's word of it is another: no marker."""
    java = Java({T0: ONE}, described("Ongoing", started=8), named={4711: ID})
    with pytest.raises(InUseError, match="has a transaction at its coordinator that has changed"):
        repair(monkeypatch, java).mark_aborted(hanging(T0, name=ID))
    java.state = described("Empty")
    assert repair(monkeypatch, java).mark_aborted(hanging(T0, name=ID)).whole


def test_a_producer_that_writes_on_where_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not where it has begun another transaction."""

    def written(java: Java) -> None:
        java.still_open = {
            tp: one._replace(last_sequence=one.last_sequence + 1)
            for tp, one in java.still_open.items()
        }

    java = Java({T0: ONE}, before=written)
    assert repair(monkeypatch, java).mark_aborted(hanging(T0), live=True).whole
    other = Java({T0: ONE._replace(start=130)})
    with pytest.raises(InUseError):
        repair(monkeypatch, other).mark_aborted(hanging(T0), live=True)


def test_one_that_cannot_be_looked_at_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are ended; nothing is marked unseen."""
    java = Java({T0: ONE, T1: ONE})

    def before(java: Java) -> None:
        java.errors = {} if java.marked else {T0: LOST}

    java.before = before
    found = repair(monkeypatch, java).mark_aborted(hanging(T0, T1))
    assert {tp: one.end for tp, one in found.partitions.items()} == {T0: End.LEFT, T1: End.ENDED}
    assert java.marked == [T1]


def test_the_next_transaction_of_the_same_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins behind, or later, and is another one: the first is over."""
    later = {T0: ONE._replace(epoch=1, start=130, last_sequence=0)}
    gone = Java({})
    assert repair(monkeypatch, gone).mark_aborted(hanging(T0)).whole
    assert not gone.marked, "it has ended by itself since"
    assert repair(monkeypatch, Java(later, described(started=8))).fence(ID, described(), OPEN).whole


def test_when_kafka_cannot_be_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have ended or not, which is said."""
    away = Java({}, described("Empty"), away=KafkaError("no broker answered", code="_TIMED_OUT"))
    for failed in (None, LOST):
        found = repair(monkeypatch, away, failed).fence(ID, described(), OPEN)
        assert ends(found) == [End.UNKNOWN]
        assert found.partitions[T0].why == "no broker answered"
