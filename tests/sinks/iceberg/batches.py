"""Batches of one offset each, and what happens in the middle of one."""

from __future__ import annotations

from collections.abc import Callable

from eo_listener.model.ledger import Entry
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of

TP = TopicPartition("flights", 0)


def entry(number: int, query: str = QUERY, *, run_id: str = "run-1") -> Entry:
    """Batch `number` of a query, after those before it."""
    heads = heads_of(entry(number - 1, query)) if number else {}
    ranges = {TP: OffsetRange(number, number + 1)}
    return entry_of(heads, ranges, batch_id=number, query=query, run_id=run_id)


def at(point: str, act: Callable[[], object], times: int = 1) -> Callable[[str], None]:
    """A hook that acts when a fault point is reached, so many times."""
    left = [act] * times

    def hook(name: str) -> None:
        if name == point and left:
            left.pop()()

    return hook
