"""What each batch has moved, by the heads before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from eo_listener.audit.history import read_history
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_steps import LedgerStep, applied_batches, moved_at

T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
Heads = Mapping[TopicPartition, Head]


def head(start: int, until: int, batch: int, topic: str | None = "a", query: str = "q") -> Head:
    return Head(
        range=OffsetRange(start, until), topic_id=topic, query_id=query, run_id="r", batch_id=batch
    )


def of(*ledgers: Heads | None) -> list[tuple[TopicPartition, str, OffsetRange, OffsetRange | None]]:
    """What is applied where the ledger was each of these, the oldest first."""
    steps = [
        LedgerStep(after, before, 5, 1764000000000)
        for before, after in pairwise(ledgers)
        if after is not None
    ]
    found = applied_batches(reversed(steps))
    return [(one.partition, one.verdict, one.head.range, one.gap) for one in found]


def test_each_partition_by_itself() -> None:
    """In the order of offsets; one that a batch had nothing of is not there."""
    first = {T0: head(0, 5, 0), T1: head(3, 4, 0)}
    second = {T0: head(5, 9, 1), T1: head(4, 4, 1)}
    third = {T0: head(9, 10, 2), T1: head(4, 6, 2)}
    assert of({}, first, second, third) == [
        (T0, "first", OffsetRange(0, 5), None),
        (T0, "next", OffsetRange(5, 9), None),
        (T0, "next", OffsetRange(9, 10), None),
        (T1, "first", OffsetRange(3, 4), None),
        (T1, "next", OffsetRange(4, 6), None),
    ]
    moments = applied_batches([LedgerStep(first, {}, None, 1764000000123)])
    assert {one.applied_at for one in moments} == {"2025-11-24T16:00:00.123+00:00"}


def test_offsets_left_out_are_an_accepted_gap() -> None:
    """Sinks write no other one; and the audit finds nothing missing."""
    steps = [LedgerStep({T0: head(8, 9, 1)}, {T0: head(0, 5, 0)}, 1, 1)]
    (found,) = applied_batches(steps)
    assert (found.verdict, found.gap) == ("gap accepted", OffsetRange(5, 8))
    facts = read_history([found], {T0: found.head})
    assert (facts.missing, facts.gaps) == ({}, {T0: [OffsetRange(5, 8)]})


def test_another_topic_of_the_name_begins() -> None:
    """Wherever it does; of unknown ones nothing is concluded."""
    old = {T0: head(0, 5, 0)}
    assert of(old, {T0: head(7, 9, 1, "b")}) == [(T0, "first", OffsetRange(7, 9), None)]
    assert of(old, {T0: head(5, 9, 1, None)}) == [(T0, "next", OffsetRange(5, 9), None)]


def test_counted_batches() -> None:
    """Their ids are of plans; what counts is the checkpoint."""
    old = {BATCHES: head(0, 1, 0, "plan-0")}
    assert of(old, {BATCHES: head(1, 2, 1, "plan-1")})[0][1:] == ("next", OffsetRange(1, 2), None)
    other = head(0, 1, 0, "plan-0", query="other")
    assert of(old, {BATCHES: other})[0][1] == "first"


def test_what_is_not_known_is_not_concluded() -> None:
    """The oldest commit that is left may have moved any of its heads."""
    assert of(None, {T0: head(5, 9, 1)}, {T0: head(9, 10, 2)}) == [
        (T0, "next", OffsetRange(9, 10), None)
    ]


def test_when_each_head_was_moved() -> None:
    """By the batch that has moved it last, which need not be the newest."""
    first = {T0: head(0, 5, 0), T1: head(3, 4, 0)}
    second = {T0: head(5, 9, 1), T1: first[T1]}
    newest, oldest = LedgerStep(second, first, 1, 1764000060000), LedgerStep(first, {}, 1, 0)
    assert moved_at([newest, oldest]) == {
        T0: "2025-11-24T16:01:00.000+00:00",
        T1: "1970-01-01T00:00:00.000+00:00",
    }
    assert moved_at([newest]).keys() == {T0}
    assert moved_at([LedgerStep({}, None, 1, 0)]) == moved_at([]) == {}


def test_when_a_head_was_moved_is_known_without_the_batch_before() -> None:
    """Its batch is named by the head; of two checkpoints nothing tells which is newer."""
    known = {T0: head(5, 9, 8), T1: head(3, 4, 7)}
    assert moved_at([LedgerStep(known, None, 1, 0)]).keys() == {T0}
    unknown = {T0: head(5, 9, 0, query="new"), T1: head(3, 4, 7)}
    assert moved_at([LedgerStep(unknown, None, 1, 0)]) == {}


def test_no_more_batches_are_read_than_are_needed() -> None:
    """Each may be a file: the newest alone, where all heads are of it; never more than 100."""
    taken = 0

    def steps(batches: int) -> Iterator[LedgerStep]:
        nonlocal taken
        for number in range(1000, 1000 - batches, -1):
            taken += 1
            after = {T0: head(number, number + 1, number), T1: head(0, 1, 0)}
            yield LedgerStep(after, {**after, T0: head(number - 1, number, number - 1)}, 1, 0)

    assert moved_at(steps(500)).keys() == {T0}
    assert taken == 100
    taken = 0
    assert moved_at(LedgerStep({T0: one.heads[T0]}, None, 1, 0) for one in steps(5)).keys() == {T0}
    assert taken == 1
