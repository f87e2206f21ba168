"""The guard's judgement: what follows, what does not, and what cannot be told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.commit.tracking.sequence_guard import SequenceGuard, SequenceVerdict, judge
from eo_listener.events import Violation, ViolationKind
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.offsets import Offsets, TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def found(kind: ViolationKind, start: int, until: int, tp: TopicPartition = P0) -> Violation:
    return Violation(kind=kind, partition=tp, start=start, until=until)


@pytest.mark.parametrize(
    ("last", "start", "end"),
    [
        (None, None, {P0: 5}),  # batch 0
        (None, {P0: 3}, {P0: 5}),  # the first event that is seen
        ({P0: 5}, {P0: 5}, {P0: 9}),
        ({P0: 5}, {P0: 5}, {P0: 5}),  # no new data
        ({P0: 5}, None, {P0: 9}),  # batch 0 again, with the start known from the checkpoint
        ({P0: 5}, {P0: 5}, {P0: 9, P1: 4}),  # a new partition is not in the start
        (None, {}, {P1: 4}),
        ({}, {}, {}),
    ],
)
def test_what_follows_is_no_finding(
    last: dict[TopicPartition, int] | None,
    start: dict[TopicPartition, int] | None,
    end: dict[TopicPartition, int],
) -> None:
    """Batches that continue, first batches, idle ones and new partitions are no violation."""
    assert (
        judge(
            None if last is None else Offsets(last),
            None if start is None else Offsets(start),
            Offsets(end),
        )
        == ()
    )


@pytest.mark.parametrize(
    ("last", "start", "end", "violation"),
    [
        (5, 7, 9, found(ViolationKind.GAP, 5, 7)),
        (5, 3, 9, found(ViolationKind.REPEAT, 3, 5)),
        (5, 5, 2, found(ViolationKind.BACKWARD, 5, 2)),
        (None, 5, 2, found(ViolationKind.BACKWARD, 5, 2)),
        (5, 5, None, found(ViolationKind.VANISHED, 5, 5)),
        (None, 5, None, found(ViolationKind.VANISHED, 5, 5)),
        (5, None, None, found(ViolationKind.VANISHED, 5, 5)),
        (5, None, 8, found(ViolationKind.VANISHED, 5, 5)),  # gone in between, and come back as new
    ],
)
def test_each_breach_is_named(
    last: int | None, start: int | None, end: int | None, violation: Violation
) -> None:
    """Gap, repeat, backward move and vanished partition are found, with their offsets."""

    def at(offset: int | None) -> Offsets:
        return Offsets({} if offset is None else {P0: offset})

    assert judge(None if last is None else at(last), at(start), at(end)) == (violation,)


def test_records_gone_before_the_batch_are_lost() -> None:
    """A log that began above the start when the batch was planned means records never read."""
    end = Offsets({P0: 9, P1: 9})
    start = Offsets({P0: 5, P1: 5})
    assert judge(start, start, end, {P0: 7, P1: 5}) == (found(ViolationKind.LOST, 5, 7),)
    assert judge(start, start, end, {P0: 50}) == (found(ViolationKind.LOST, 5, 9),)
    assert judge(end, end, end, {P0: 50}) == ()  # nothing was read, so nothing was skipped


def followed(*batches: tuple[Any, ...]) -> list[SequenceVerdict]:
    """What a sequence says of these events: number, then start and end of each source."""
    sequence = SequenceGuard()
    return [
        sequence.follow(
            Progress(
                query_id="q",
                run_id="r",
                name=None,
                batch_id=number,
                timestamp="",
                sources=tuple(
                    SourceProgress(index=index, description="", start=start, end=end)
                    for index, (start, end) in enumerate(ranges)
                ),
            )
        )
        for number, *ranges in batches
    ]


def test_what_lies_between_batches_that_nobody_reported_of_is_no_gap() -> None:
    """It is unknown where offsets are missing too; all else is as wrong as ever."""
    five, seven, nine = Offsets({P0: 5}), Offsets({P0: 7}), Offsets({P0: 9})
    verdicts = followed((0, (None, five)), (4, (seven, nine)), (6, (nine, nine)), (9, (five, nine)))
    assert [one.missed_after for one in verdicts] == [None, 0, None, None]
    assert [list(one.violations) for one in verdicts] == [[], [], [], [0]]


MAPS = st.dictionaries(
    st.sampled_from([P0, P1, TopicPartition("u", 0)]), st.integers(0, 4), max_size=3
).map(Offsets)


@given(last=MAPS, start=MAPS, end=MAPS)
def test_silence_means_that_every_known_partition_continues(
    last: Offsets, start: Offsets, end: Offsets
) -> None:
    """No violation exactly when each partition of the past starts where it ended and moves on."""
    continues = all(start.get(tp) == last[tp] and tp in end for tp in last)
    forward = all(tp in end and end[tp] >= start[tp] for tp in start)
    assert (judge(last, start, end) == ()) == (continues and forward)
