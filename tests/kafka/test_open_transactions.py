"""Whose an open transaction is, and whether it ends by itself; no broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.client_config.identities import IdOwner, sink_transactional_id, transactional_id
from eo_listener.client_config.kafka_options import MAX_TRANSACTION_TIMEOUT_MS
from eo_listener.kafka.java_transactions import DescribedTransaction, OpenProducer
from eo_listener.kafka.open_transactions import (
    CoordinatorAnswers,
    OpenTransaction,
    TransactionVerdict,
    judge_transactions,
    state_partition,
    still_open,
)
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import HOSTILE

T0, T1 = TopicPartition("delays", 0), TopicPartition("delays", 1)
HELD = {T0: OffsetRange(5, 9), T1: OffsetRange(7, 8)}
ID = sink_transactional_id("delays", "flights")
WRITTEN = 1_000_000
OLD = WRITTEN + MAX_TRANSACTION_TIMEOUT_MS
ONGOING = DescribedTransaction(
    state="Ongoing",
    producer_id=4711,
    epoch=2,
    partitions=frozenset({T0, T1}),
    timeout=60.0,
    started=1_000_000,
)
OPEN, ENDING, UNKNOWN, HANGING = TransactionVerdict


def producer(start: int, *, number: int = 4711, sequence: int = 3) -> OpenProducer:
    return OpenProducer(number, 2, start, sequence, WRITTEN)


def judged(
    described: DescribedTransaction | None, now_ms: int = OLD, incomplete: str | None = None
) -> tuple[OpenTransaction, ...]:
    """What is found of a producer's two partitions; None: no coordinator names its id."""
    answers = CoordinatorAnswers(
        ids={} if described is None else {4711: ID},
        described={} if described is None else {ID: described},
        incomplete=incomplete,
    )
    return judge_transactions({T0: [producer(5)], T1: [producer(7)]}, answers, HELD, now_ms)


def test_one_that_its_coordinator_has() -> None:
    """One transaction, however many partitions it is in; it ends by its time-out."""
    (found,) = judged(ONGOING)
    assert (found.verdict, found.transactional_id) == (OPEN, ID)
    assert found.holds == {T0, T1}
    assert (found.since, found.ends_by, found.two_phase) == (1_000_000, 1_060_000, False)
    assert not found.is_overdue(1_060_000 + 60_000)
    assert found.is_overdue(1_060_000 + 60_001), "its coordinator does not end it"


@pytest.mark.parametrize(
    ("state", "now_ms", "verdict"),
    [
        ("PrepareCommit", OLD, ENDING),
        ("PrepareAbort", OLD, ENDING),
        ("PrepareEpochFence", OLD, ENDING),
        ("Empty", OLD, HANGING),
        ("CompleteAbort", OLD, HANGING),
        ("CompleteCommit", OLD, HANGING),
        ("CompleteCommit", OLD - 1, UNKNOWN),
        ("Unknown", OLD, UNKNOWN),  # of newer brokers
    ],
)
def test_each_state(state: str, now_ms: int, verdict: TransactionVerdict) -> None:
    """Only what its coordinator has as ended hangs, and that when its newest record is old."""
    (found,) = judged(replace(ONGOING, state=state), now_ms)
    assert (found.verdict, found.transactional_id, found.ends_by) == (verdict, ID, None)
    assert (found.why is not None) == (verdict is UNKNOWN)
    assert (found.since is not None) == (verdict is ENDING), "else that of another transaction"


def test_one_of_a_two_phase_commit() -> None:
    """No time-out ends it: the coordinator's is the largest number that there is (KIP-939)."""
    (found,) = judged(replace(ONGOING, timeout=(2**31 - 1) / 1000))
    assert (found.two_phase, found.ends_by) == (True, None)
    assert not found.is_overdue(10**15)


def test_a_partition_that_the_coordinator_does_not_know_of() -> None:
    """The rest of the transaction is ended in time; that partition hangs, and comes first."""
    hanging, open_one = judged(replace(ONGOING, partitions=frozenset({T0})))
    assert (hanging.verdict, set(hanging.producers)) == (HANGING, {T1})
    assert (open_one.verdict, set(open_one.producers)) == (OPEN, {T0})


def test_one_that_no_coordinator_names() -> None:
    """It hangs if no right hides it, and its newest record is 15 minutes old."""
    (found,) = judged(None)
    assert (found.verdict, found.transactional_id, found.since) == (HANGING, None, None)
    (found,) = judged(None, OLD - 1)
    assert found.verdict is UNKNOWN
    (found,) = judged(None, incomplete="no right")
    assert (found.verdict, found.why) == (UNKNOWN, "no right")


def test_an_id_that_could_not_be_described() -> None:
    """What it has open is not known, nor is that of an id with another producer."""
    lost = KafkaError("describing failed", code="COORDINATOR_LOAD_IN_PROGRESS")
    answers = CoordinatorAnswers(ids={4711: ID}, errors={ID: lost})
    (found,) = judge_transactions({T0: [producer(5)]}, answers, HELD, OLD)
    assert (found.verdict, found.why) == (UNKNOWN, "describing failed")
    (found,) = judged(replace(ONGOING, producer_id=4712))
    assert found.verdict is UNKNOWN


def test_only_the_first_of_a_partition_holds_it() -> None:
    """The last stable offset is where the first of two begins."""
    opened = {T0: [producer(5), producer(6, number=12)]}
    found = judge_transactions(opened, CoordinatorAnswers(), HELD, OLD)
    assert [(one.producer_id, set(one.holds)) for one in found] == [(4711, {T0}), (12, set())]


def test_what_was_not_open_before_and_after_is_not_judged() -> None:
    """One that ended, and one that has begun since: coordinators were asked in between."""
    before = {T0: [producer(5)], T1: [producer(7)]}
    after = {T0: [producer(6)], T1: [producer(7, sequence=4), producer(8, number=12)]}
    assert still_open(before, after) == {T1: (producer(7, sequence=4),)}


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
