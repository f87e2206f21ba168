"""When the driver is killed."""

from __future__ import annotations

import random

import pytest

from examples.demo.chaos import Chaos, Kill


def due(chaos: Chaos, written: int, batch: int | None = 7, since: float = 10.0) -> bool:
    return chaos.due(written=written, batch=batch, since=since)


def test_the_kills_are_spread_evenly() -> None:
    """Each becomes due when its share of the rows is written, none before, and no further one."""
    chaos = Chaos(4, 1000)
    for number in range(4):
        share = 200 * (number + 1)
        assert not due(chaos, share - 1)
        assert due(chaos, share)
        chaos.killed(Kill(batch=7, caught=True))
    assert not due(chaos, 1000)


def test_between_two_batches_nothing_is_killed() -> None:
    """There is no middle of a batch then."""
    assert not due(Chaos(1, 10), 10, batch=None)


def test_without_kills_it_never_is_due() -> None:
    """A demo without chaos never kills its driver."""
    assert not due(Chaos(0, 10), 10)


@pytest.mark.parametrize("seed", range(20))
def test_batches_that_are_too_short_are_caught_in_the_end(seed: int) -> None:
    """Where batches end before the moment comes, the moment comes sooner and sooner."""
    chaos = Chaos(1, 10, random.Random(seed))
    assert any(due(chaos, 10, batch=number, since=0.01) for number in range(20))
