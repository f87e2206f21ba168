"""Whose an open transaction is, and whether it ends by itself; no broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.client_config.identities import (
    IdOwner,
    sink_transactional_id,
    transactional_id,
)
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.kafka.open_transactions import (
    CoordinatorAnswers,
    OpenTransaction,
    TransactionVerdict,
    has_moved,
    judge_transactions,
    still_open,
    with_stuck,
)
from eo_listener.kafka.state_partitions import state_partition
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import HOSTILE

T0, T1 = TopicPartition("delays", 0), TopicPartition("delays", 1)
HELD = {T0: OffsetRange(5, 9), T1: OffsetRange(7, 8)}
ID = sink_transactional_id("delays", "flights")


def producer(start: int, *, number: int = 4711, sequence: int = 3) -> OpenProducer:
    return OpenProducer(number, 2, 0, start, sequence, 1_000_000)


def described(state: str, *partitions: TopicPartition) -> DescribedTransaction:
    return DescribedTransaction(
        state=state,
        producer_id=4711,
        epoch=2,
        partitions=frozenset(partitions),
        timeout=60.0,
        started=1_000_000,
    )


def answers(state: str, *partitions: TopicPartition) -> CoordinatorAnswers:
    return CoordinatorAnswers(ids={4711: ID}, described={ID: described(state, *partitions)})


def judged(given: CoordinatorAnswers) -> tuple[OpenTransaction, ...]:
    return judge_transactions({T0: [producer(5)], T1: [producer(7)]}, given, HELD)


def test_one_that_its_coordinator_has() -> None:
    """One transaction, however many partitions it is in; it ends by its time-out."""
    (found,) = judged(answers("Ongoing", T0, T1))
    assert found.verdict is TransactionVerdict.OPEN
    assert found.transactional_id == ID
    assert found.holds == {T0, T1}
    assert (found.since, found.ends_by) == (1_000_000, 1_060_000)
    assert not found.is_overdue(1_060_000 + 60_000)
    assert found.is_overdue(1_060_000 + 60_001), "its coordinator does not end it"


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
def test_one_that_is_being_ended(state: str) -> None:
    """Its markers are being written: nobody else can end it."""
    (found,) = judged(answers(state, T0, T1))
    assert found.verdict is TransactionVerdict.ENDING
    assert found.ends_by is None


def test_an_ending_that_is_stuck() -> None:
    """It was being ended before; the next one of the same producer is not."""
    before = judged(answers("PrepareAbort", T0, T1))
    assert [one.stuck for one in with_stuck(before, before)] == [True]
    assert [one.stuck for one in with_stuck((), before)] == [False]
    later = replace(described("PrepareAbort", T0, T1), started=2_000_000)
    (after,) = judged(CoordinatorAnswers(ids={4711: ID}, described={ID: later}))
    assert [one.stuck for one in with_stuck(before, [after])] == [False]
    still_open_one = judged(answers("Ongoing", T0, T1))
    assert [one.stuck for one in with_stuck(before, still_open_one)] == [False]


def test_one_of_a_two_phase_commit() -> None:
    """No time-out ends it: the coordinator's is the largest number that there is (KIP-939)."""
    state = replace(described("Ongoing", T0, T1), timeout=(2**31 - 1) / 1000)
    (found,) = judged(CoordinatorAnswers(ids={4711: ID}, described={ID: state}))
    assert (found.two_phase, found.ends_by) == (True, None)
    assert not found.is_overdue(10**15)
    (other,) = judged(answers("Ongoing", T0, T1))
    assert not other.two_phase


@pytest.mark.parametrize("state", ["Empty", "CompleteAbort", "CompleteCommit"])
def test_one_that_its_coordinator_has_ended(state: str) -> None:
    """It was open before and after that answer: so it hangs, under an id that is known."""
    (found,) = judged(answers(state))
    assert found.verdict is TransactionVerdict.HANGING
    assert found.transactional_id == ID
    assert found.since is None, "the coordinator's time is that of another transaction"


@pytest.mark.parametrize("partitions", [(), (T0, T1)])
def test_a_state_that_is_not_known(partitions: tuple[TopicPartition, ...]) -> None:
    """Of newer brokers: whether it hangs nobody can say."""
    (found,) = judged(answers("Unknown", *partitions))
    assert found.verdict is TransactionVerdict.UNKNOWN
    assert "Unknown" in (found.why or "")


def test_a_partition_that_the_coordinator_does_not_know_of() -> None:
    """The rest of the transaction is ended in time; that partition hangs, and comes first."""
    hanging, open_one = judged(answers("Ongoing", T0))
    assert (hanging.verdict, set(hanging.producers)) == (TransactionVerdict.HANGING, {T1})
    assert (open_one.verdict, set(open_one.producers)) == (TransactionVerdict.OPEN, {T0})


def test_one_that_no_coordinator_names() -> None:
    """It hangs only where every coordinator would have named it."""
    (found,) = judged(CoordinatorAnswers())
    assert (found.verdict, found.transactional_id) == (TransactionVerdict.HANGING, None)
    (found,) = judged(CoordinatorAnswers(incomplete="no right"))
    assert (found.verdict, found.why) == (TransactionVerdict.UNKNOWN, "no right")


def test_an_id_that_could_not_be_described() -> None:
    """What it has open is not known, and why is said."""
    lost = KafkaError("describing failed", code="COORDINATOR_LOAD_IN_PROGRESS")
    (found,) = judged(CoordinatorAnswers(ids={4711: ID}, errors={ID: lost}))
    assert (found.verdict, found.why) == (TransactionVerdict.UNKNOWN, "describing failed")
    other = replace(described("Ongoing", T0, T1), producer_id=4712)
    (found,) = judged(CoordinatorAnswers(ids={4711: ID}, described={ID: other}))
    assert found.verdict is TransactionVerdict.UNKNOWN
    assert "another producer" in (found.why or "")


def test_only_the_first_of_a_partition_holds_it() -> None:
    """The last stable offset is where the first of two begins."""
    found = judge_transactions(
        {T0: [producer(5), producer(6, number=12)]}, CoordinatorAnswers(), HELD
    )
    assert [(one.producer_id, set(one.holds)) for one in found] == [(4711, {T0}), (12, set())]


def test_what_was_not_open_before_and_after_is_not_judged() -> None:
    """One that ended, and one that has begun since: coordinators were asked in between."""
    before = {T0: [producer(5)], T1: [producer(7)]}
    after = {T0: [producer(6)], T1: [producer(7, sequence=4), producer(8, number=12)]}
    assert still_open(before, after) == {T1: (producer(7, sequence=4),)}


def test_a_producer_at_work() -> None:
    """It shows by its sequence numbers, its partitions and its transaction."""
    (before,) = judged(answers("Ongoing", T0, T1))
    assert not has_moved(before, before)
    later = {T0: producer(5, sequence=4), T1: producer(7)}
    assert has_moved(before, replace(before, producers=later))
    assert has_moved(before, replace(before, described=described("Ongoing", T0)))
    next_one = replace(described("Ongoing", T0, T1), started=2_000_000)
    assert before.is_same(replace(before, producers=later))
    assert not before.is_same(replace(before, described=next_one))


def test_a_hanging_one_is_the_same_while_it_begins_where_it_did() -> None:
    """A later one of the same producer is another."""
    (found,) = judged(CoordinatorAnswers())
    assert found.is_same(replace(found, producers={T1: producer(7, sequence=9)}))
    assert not found.is_same(replace(found, producers={T1: producer(8)}))


@pytest.mark.parametrize("name", ["delays", "a/b", "a b%2F", *HOSTILE])
def test_our_ids_name_their_owner(name: str) -> None:
    """Sink and query of a sink's id, the group of a listener's; another id is not ours."""
    found = IdOwner.of(sink_transactional_id(name, "flights"))
    assert found == IdOwner(sink=name, query="flights")
    assert IdOwner.of(transactional_id(name)) == IdOwner(group=name)
    for foreign in (name, "eo-listener", "eo-listener/", "eo-listener/a", "eo-listener/a/b/c"):
        assert IdOwner.of(foreign) is None or foreign.startswith("eo-listener-")


@pytest.mark.parametrize(
    ("group", "partition"), [("Aa", 12), ("hello", 22), ("polygenelubricants", 0), ("é😀", 12)]
)
def test_the_partition_of_a_group(group: str, partition: int) -> None:
    """By Java's hash of the text, as Kafka takes it: of the least number no absolute is taken."""
    assert state_partition(group, 50) == partition
