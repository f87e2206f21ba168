"""Lag, and Burrow's rules over readings of it instead of commits."""

from __future__ import annotations

import pytest

from eo_listener.model.lag import compare, total
from eo_listener.model.lag_window import COMMITS, LagTrend, LagVerdict, LagWindow, gravest
from eo_listener.offsets import Position, TopicPartition

OK, WARN, STALL, STOP, REWIND = LagVerdict


def window(*readings: tuple[int, int], metadata: str = "") -> LagWindow:
    """Readings of offset and lag, a second apart; with `metadata` each is a commit."""
    made = LagWindow()
    for number, (offset, lag) in enumerate(readings):
        made.add(float(number), offset, f"{metadata}{number}" if metadata else "", lag)
    return made


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        ([(10, 0)], OK),
        ([(10, 5)], None),
        ([(10, 5), (11, 5)], None),
        ([(10, 5), (11, 4), (12, 3)], OK),
        ([(10, 5), (11, 5), (12, 6)], WARN),
        ([(10, 5), (11, 5), (12, 5)], WARN),
        ([(10, 5), (11, 6), (12, 5)], OK),
        ([(10, 0), (11, 5), (12, 6)], OK),
        ([(10, 5), (8, 7)], REWIND),
        ([(10, 5), (8, 7), (15, 0)], OK),
        ([(10, -5), (11, -4)], OK),
        ([(10, 5)] * 10, None),
        ([(10, 5)] * 11, STOP),
        ([(10, 0)] * 20, OK),
        ([(10, 0), (10, 5), *[(10, 5)] * 10], STOP),
    ],
)
def test_each_rule(readings: list[tuple[int, int]], verdict: LagVerdict | None) -> None:
    """No lag is OK, whatever was before; a group that has stopped is known by its silence."""
    assert window(*readings).verdict is verdict


def test_commits_that_do_not_move_are_a_stall() -> None:
    """The metadata shows that commits go on: another batch, the same offset."""
    for readings in ([(10, 5), (10, 6), (10, 7)], [(10, 5)] * 30):
        assert window(*readings, metadata="b").verdict is STALL


def test_a_slow_group_is_not_stopped_before_its_own_pace() -> None:
    """It counts as stopped when it is silent for longer than the window of its commits."""
    made = LagWindow()
    for number in range(5):
        made.add(number * 100.0, number * 10, "", 50 - number)
    for second in range(1, 400):
        made.add(400.0 + second, 40, "", 46)
        assert made.verdict is OK
    made.add(801.0, 40, "", 46)
    assert made.verdict is STOP
    assert made.quiet == 401.0


def test_old_commits_are_forgotten() -> None:
    """A rewind is no longer said once the window is past it."""
    made = LagWindow()
    made.add(0, 10, "", 5)
    for number in range(COMMITS):
        made.add(number + 1.0, number, "", 20 - number)
    assert made.verdict is OK


def test_nothing_is_said_before_a_reading() -> None:
    """Nor of the time since a commit, before one was seen to be made."""
    assert (window().verdict, window().quiet, window((10, 5)).quiet) == (None, None, None)


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        ([], None),
        ([OK, OK], OK),
        ([OK, None], None),
        ([OK, None, STOP], STOP),
        ([WARN, STALL, OK], STALL),
        ([REWIND, STOP], REWIND),
    ],
)
def test_a_group_is_as_its_worst_partition(
    verdicts: list[LagVerdict | None], whole: LagVerdict | None
) -> None:
    """It is OK only where all are known to be."""
    assert gravest(verdicts) is whole


@pytest.mark.parametrize(
    ("readings", "seconds"),
    [
        ([], None),
        ([(0, 10)], None),
        ([(0, 10), (5, 5)], 5.0),
        ([(0, 100), (10, 80), (20, 90)], 180.0),
        ([(0, 10), (5, 10)], None),
        ([(0, 10), (5, 20)], None),
        ([(0, 10), (5, 0)], 0.0),
    ],
)
def test_the_time_to_drain(readings: list[tuple[float, int]], seconds: float | None) -> None:
    """At the rate at which the lag went down; never, where it did not."""
    trend = LagTrend()
    for at, lag in readings:
        trend.add(at, lag)
    assert trend.drained_in == seconds


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_lag_of_each_partition() -> None:
    """Behind, ahead (a recreated topic), never committed, and gone: each is told apart."""
    rows = compare(
        {A0: Position(offset=5), A1: Position(offset=9), B0: Position(offset=1)},
        {A0: 8, A1: 2, TopicPartition("a", 2): 4},
    )
    assert [(row.partition.topic, row.partition.partition, row.lag) for row in rows] == [
        ("a", 0, 3),
        ("a", 1, -7),
        ("a", 2, None),
        ("b", 0, None),
    ]
    assert total(rows) is None
    assert total(rows[:2]) == -4


def test_foreign_metadata_names_nobody() -> None:
    """A commit that is not ours has no writer."""
    (row,) = compare({A0: Position(offset=5, metadata="theirs")}, {A0: 5})
    assert row.writer is None
    assert row.lag == 0
