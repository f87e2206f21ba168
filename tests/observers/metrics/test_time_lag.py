"""Lag as a time: never too small, and exact where the batches are fine enough."""

from __future__ import annotations

import random

from eo_listener.model.offsets import Offsets
from eo_listener.observers.metrics.counts import TimeLag


def at(offset: int) -> Offsets:
    return Offsets.of({"t": {0: offset}})


def test_a_query_that_takes_all_there_is_has_no_lag() -> None:
    """Without a limit on the batch, Spark reads up to the ends that it saw."""
    source = TimeLag()
    assert source.lag(9.0) is None
    for second, end in enumerate((5, 7, 7)):
        ends = at(end)
        source.progressed(float(second), ends, ends)
        assert source.lag(second + 1.0) == 0.0


def test_nothing_is_said_before_the_first_ends_are_reached() -> None:
    """How long what lay there at the start had been lying is not known to an event."""
    source = TimeLag()
    source.progressed(10.0, at(1), at(3))
    assert source.lag(11.0) is None
    source.progressed(20.0, at(3), at(9))
    assert source.lag(21.0) == 11.0


def test_the_same_ends_again_are_no_later_reading() -> None:
    """Trigger.AvailableNow reads the log ends once, and each of its batches reports these again."""
    source = TimeLag()
    for second in range(4):
        source.progressed(float(second), at(second), at(3))
    assert source.lag(4.0) == 0.0
    assert source.since == 0.0


def test_a_partition_that_lags_alone_counts() -> None:
    """All partitions of a source must have come so far."""
    source = TimeLag()
    source.progressed(1.0, Offsets.of({"t": {0: 5, 1: 5}}), Offsets.of({"t": {0: 5, 1: 5}}))
    source.progressed(2.0, Offsets.of({"t": {0: 9, 1: 5}}), Offsets.of({"t": {0: 9, 1: 6}}))
    assert source.lag(3.0) == 2.0


def test_it_is_never_too_small_and_bounded() -> None:
    """Against a log whose every record has a known time, over a thousand random batches."""
    dice = random.Random(7)
    source, now, end = TimeLag(), 0.0, 0
    written: list[float] = []  # when the record at each offset was written
    for _ in range(1000):
        seen, started = len(written), now
        end = min(seen, end + dice.randrange(12))
        for _ in range(dice.randrange(12)):
            now += dice.random()
            written.append(now)
        source.progressed(started, at(end), at(seen))
        told = source.lag(now)
        unread = written[end:seen]
        if told is not None and unread:
            assert told >= now - unread[0]
        assert len(source._ahead) <= 65
