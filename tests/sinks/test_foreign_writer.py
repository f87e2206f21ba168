"""A ledger that another driver has written to: when it is refused, and what the error names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.errors import ForeignWriterError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.foreign_writer import ledger_changed, refuse_moved
from eo_listener.testing.made_up_entries import entry_of, heads_of


def test_only_partitions_that_another_driver_has_changed_are_named() -> None:
    """Neither a head that is as it was found, nor one that this entry has moved itself."""
    ours, found, moved_on, gone = (TopicPartition("flights", number) for number in range(4))
    seen = heads_of(entry_of({}, dict.fromkeys((ours, found, moved_on, gone), OffsetRange(0, 3))))
    entry = entry_of(seen, dict.fromkeys(seen, OffsetRange(3, 9)), batch_id=8)
    now = seen | {ours: entry.head(ours), moved_on: replace(seen[moved_on], batch_id=5)}
    del now[gone]
    error = ledger_changed("the table", entry, now, dict.fromkeys(now, "noon"))
    assert error.ranges == {moved_on: OffsetRange(3, 9), gone: OffsetRange(3, 9)}
    assert (
        "(flights-2 is at 3, moved by run run-1 in batch 5 at noon; flights-3 is missing)"
        in str(error)
    )
    assert "in batch 5; flights-3" in str(ledger_changed("the table", entry, now))


def test_all_partitions_are_named_where_no_single_one_differs() -> None:
    """The whole entry is in the ledger already, or every head is missing: at most three by name."""
    tps = [TopicPartition("flights", number) for number in range(4)]
    seen = heads_of(entry_of({}, dict.fromkeys(tps, OffsetRange(0, 3))))
    entry = entry_of(seen, dict.fromkeys(seen, OffsetRange(3, 9)), batch_id=8)
    there = {tp: entry.head(tp) for tp in seen}
    assert ledger_changed("the table", entry, there).ranges.keys() == seen.keys()
    assert "; and 1 more)" in str(ledger_changed("the table", entry, {}))


def test_a_ledger_is_refused_unless_it_is_as_it_was_found() -> None:
    """A head that has moved or has gone, or one where none was; partitions of no move are free."""
    one, other = (TopicPartition("flights", number) for number in range(2))
    seen = heads_of(entry_of({}, {one: OffsetRange(0, 3)}))
    entry = entry_of(seen, {one: OffsetRange(3, 9)}, batch_id=8)
    first = entry_of({}, {other: OffsetRange(0, 1)})
    refuse_moved("the table", entry, seen)
    refuse_moved("the table", entry, seen | heads_of(first))
    refuse_moved("the table", first, seen)
    moved, gone = {one: entry.head(one)}, heads_of(first)
    for mine, heads in ((entry, moved), (entry, gone), (first, heads_of(first))):
        with pytest.raises(ForeignWriterError, match="the ledger of 'flights' has changed"):
            refuse_moved("the table", mine, heads)
