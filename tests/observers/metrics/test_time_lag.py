"""Lag as a time: never too small, and exact where the batches are fine enough."""

from __future__ import annotations

import random

import pytest

from eo_listener.observers.metrics.counters import TimeLag
from eo_listener.offsets import Offsets


def at(offset: int) -> Offsets:
    return Offsets.of({"t": {0: offset}})


@pytest.mark.parametrize(
    ("batches", "lags"),
    [
        # Spark reads up to the ends that it saw, without a limit on the batch.
        ([(0, 5, 5), (1, 7, 7), (2, 7, 7)], [0.0, 0.0, 0.0]),
        # How long what lay there at the start had been lying is not known to an event.
        ([(10, 1, 3), (20, 3, 9)], [None, 11.0]),
        # Trigger.AvailableNow reads the log ends once; each of its batches reports these again.
        ([(0, 0, 3), (1, 1, 3), (2, 2, 3), (3, 3, 3)], [None, None, None, 0.0]),
    ],
)
def test_after_each_batch(batches: list[tuple[int, int, int]], lags: list[float | None]) -> None:
    """Of each batch its start, where it ended, and where the log did then."""
    source = TimeLag()
    assert source.lag(9.0) is None
    for (second, end, log_end), lag in zip(batches, lags, strict=True):
        source.progressed(float(second), at(end), at(log_end))
        assert source.lag(second + 1.0) == lag


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
