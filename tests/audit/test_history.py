"""A ledger's history shows where it began and what does not fit; ranges of it, as sets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.history import read_history
from eo_listener.audit.intervals import Intervals, common, of_offsets, union, without
from eo_listener.model.ledger import AppliedBatch, Head
from eo_listener.offsets import OffsetRange, TopicPartition

TP = TopicPartition("t", 0)
Pairs = list[tuple[int, int]]


def batch(
    start: int,
    until: int,
    number: int,
    *,
    verdict: str = "next",
    gap: tuple[int, int] | None = None,
    topic_id: str = "A",
) -> AppliedBatch:
    applied = OffsetRange(start, until)
    head = Head(range=applied, topic_id=topic_id, query_id="q", run_id="r", batch_id=number)
    gave_up = None if gap is None else OffsetRange(*gap)
    return AppliedBatch(
        partition=TP, head=head, rows=1, verdict=verdict, gap=gave_up, applied_at=""
    )


FIRST = batch(0, 9, 0, verdict="first")
GAP = batch(40, 50, 9, verdict="gap accepted", gap=(30, 40))


@pytest.mark.parametrize(
    ("batches", "began", "gaps", "missing", "repeated"),
    [
        # Nothing is found but where it began.
        ([batch(5, 9, 0, verdict="first"), batch(9, 12, 1), batch(12, 20, 7)], 5, [], [], []),
        # After the first batch, one with a gap, or a rename, others may have been deleted.
        ([FIRST, GAP, batch(90, 95, 20)], 0, [(30, 40)], [], []),
        ([FIRST, batch(50, 50, 8, verdict="renamed from delays, query old"), batch(90, 95, 20)],
         0, [], [], []),
        # A batch that would be deleted first is there, and two of one number and the next.
        ([FIRST, batch(12, 20, 1)], 0, [], [(9, 12)], []),
        ([batch(30, 40, 3), batch(45, 50, 9)], None, [], [(40, 45)], []),
        # As far as they are in both.
        ([FIRST, batch(5, 12, 1)], 0, [], [], [(5, 9)]),
        ([FIRST, batch(2, 4, 1), batch(9, 12, 2)], 0, [], [], [(2, 4)]),
        # What a ledger that began in mid-stream has skipped is a gap.
        ([batch(40, 50, 9, verdict="gap accepted", gap=(0, 40))], 0, [(0, 40)], [], []),
    ],
)  # fmt: skip  # one case a line
def test_what_a_history_shows(
    batches: list[AppliedBatch], began: int | None, gaps: Pairs, missing: Pairs, repeated: Pairs
) -> None:
    """What was pruned counts as applied, what was not as missing, and what is twice as repeated."""
    found = read_history(batches, {})
    assert found.began == ({} if began is None else {TP: began})
    for ranges, expected in ((found.gaps, gaps), (found.missing, missing)):
        assert ranges == ({TP: [OffsetRange(*one) for one in expected]} if expected else {})
    assert found.repeated == ({TP: [OffsetRange(*one) for one in repeated]} if repeated else {})


@pytest.mark.parametrize(
    ("last", "head", "missing"),
    [
        (batch(9, 30, 1), 60, [OffsetRange(30, 60)]),  # the head was edited
        (batch(9, 30, 1), 20, []),  # a batch was applied after the heads were read
        (FIRST, 60, []),  # later batches of a partition that rests were pruned
        (batch(30, 30, 1, verdict="gap accepted", gap=(20, 30)), 60, []),  # repairs of a topic
    ],
)
def test_the_end_of_a_history(last: AppliedBatch, head: int, missing: list[OffsetRange]) -> None:
    """It is at the head, unless entries are pruned or were written after the head was read."""
    facts = read_history([last], {TP: replace(last.head, range=OffsetRange(0, head))})
    assert (facts.missing.get(TP, []), facts.repeated) == (missing, {})


def test_an_older_topic_of_the_name_does_not_count() -> None:
    """By the id in the head; where ids are not known, all batches count."""
    old = batch(0, 90, 0, verdict="first", topic_id="OLD")
    batches = [old, batch(0, 5, 7, verdict="first"), batch(5, 9, 8)]
    found = read_history(batches, {TP: batches[-1].head})
    assert (found.began, found.repeated) == ({TP: 0}, {})
    assert read_history(batches, {}).repeated


def test_what_an_older_topic_had() -> None:
    """From its first batch to its last; without an end where the last may have been pruned."""
    first = batch(3, 9, 0, verdict="first", topic_id="OLD")
    gap = batch(40, 44, 6, verdict="gap accepted", gap=(30, 40), topic_id="OLD")
    newest = batch(60, 70, 7, topic_id="OLD")
    now = batch(0, 5, 8, verdict="first")
    whole = read_history([now, first, gap, newest], {TP: now.head})
    assert whole.older[TP]["OLD"].range == OffsetRange(3, 70)
    pruned = read_history([now, first, gap], {TP: now.head}).older[TP]["OLD"].range
    assert (pruned.start, pruned.until > 10**18) == (3, True)
    assert not whole.gaps
    assert not read_history([now], {TP: now.head}).older


def test_a_history_of_the_newest_batches_begins_anywhere() -> None:
    """A gap in its oldest one is no beginning; only a first batch is."""
    found = read_history([GAP, batch(50, 60, 10)], {}, newest=True)
    assert (found.began, found.oldest) == ({}, {TP: 30})
    assert found.gaps == {TP: [OffsetRange(30, 40)]}
    found = read_history([batch(5, 9, 0, verdict="first")], {}, newest=True)
    assert found.began == found.oldest == {TP: 5}


OFFSETS = st.sets(st.integers(0, 40))


def made(offsets: set[int]) -> Intervals:
    return of_offsets(sorted(offsets))


def members(found: Intervals) -> set[int]:
    return {offset for start, until in found for offset in range(start, until)}


def assert_canonical(found: Intervals) -> None:
    assert all(interval.start < interval.until for interval in found)
    assert all(one.until < two.start for one, two in pairwise(found))


@given(OFFSETS, OFFSETS)
def test_they_are_sets(one: set[int], other: set[int]) -> None:
    """Intersection, difference and union hold the offsets that sets would, in the fewest ranges."""
    left, right = made(one), made(other)
    for found, expected in (
        (common(left, right), one & other),
        (without(left, right), one - other),
        (union([*left, *right]), one | other),
    ):
        assert members(found) == expected
        assert_canonical(found)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_any_ranges_make_intervals(intervals: list[tuple[int, int]]) -> None:
    """Ranges in any order, overlapping, empty or reversed, become intervals."""
    found = union(OffsetRange(*interval) for interval in intervals)
    assert members(found) == {
        offset for start, until in intervals for offset in range(start, until)
    }
    assert_canonical(found)
