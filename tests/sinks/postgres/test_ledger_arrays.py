"""What the ledger's statements are given: one array a column, one place a partition."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from eo_listener.model.ledger import BatchVerdict, Entry, Head, Move
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_sql import Statement
from eo_listener.sinks.postgres.ledger import LedgerArrays

LEDGER = LedgerArrays(heads="s.heads", history="s.history", moment="timestamptz")
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
TEXT = "2026-11-21T12:00:00.000000+00:00"
HEAD = Head(range=OffsetRange(2, 5), topic_id="old", query_id="was-q", run_id="was-r", batch_id=6)
NEW, MOVED, EMPTY, GAP = (TopicPartition("t", number) for number in range(4))
ENTRY = Entry(
    query="flights",
    query_id="q",
    run_id="r",
    batch_id=7,
    moves={
        NEW: Move(0, OffsetRange(0, 3), "id", BatchVerdict.FIRST, None),
        MOVED: Move(1, OffsetRange(5, 9), "id", BatchVerdict.NEXT, HEAD),
        EMPTY: Move(0, OffsetRange(5, 5), "id", None, HEAD),
        GAP: Move(2, OffsetRange(8, 8), "id", None, HEAD, OffsetRange(5, 8)),
    },
)
NONE = Entry(query="flights", query_id="q", run_id="r", batch_id=7, moves={})


def given(statement: Statement) -> tuple[Any, ...]:
    """The parameters, one for each place; names are written into the text."""
    assert statement.text.count("%s") == len(statement.values)
    assert "{" not in statement.text
    return statement.values


def test_heads_are_held_as_they_were_found() -> None:
    """All partitions of the batch, those of them without a head with nothing to compare."""
    assert given(LEDGER.hold("sink", ENTRY)) == (
        ["t"] * 4,
        [0, 1, 2, 3],
        [None, 5, 5, 5],
        [None, 6, 6, 6],
        [None, "was-q", "was-q", "was-q"],
        [None, "was-r", "was-r", "was-r"],
        "sink",
        "flights",
    )
    assert given(LEDGER.hold("sink", NONE)) == (*[[]] * 6, "sink", "flights")


def test_heads_that_were_missing_are_made() -> None:
    """Only those, and of none no column is missing."""
    before = (1, "sink", "flights", 7, "q", "r", TEXT)
    assert given(LEDGER.insert("sink", ENTRY, NOW)) == (*before, ["t"], [0], ["id"], [0], [3])
    assert given(LEDGER.insert("sink", NONE, NOW)) == (*before, *[[]] * 5)


def test_heads_that_were_found_are_moved() -> None:
    """Each to where the batch ends, if it is still as it was found; an empty range too."""
    assert given(LEDGER.move("sink", ENTRY, NOW)) == (
        *(7, "q", "r", TEXT),
        *(["t"] * 3, [1, 2, 3], ["id"] * 3, [5, 5, 8], [9, 5, 8]),
        *([5] * 3, [6] * 3, ["was-q"] * 3, ["was-r"] * 3),
        *("sink", "flights"),
    )
    assert given(LEDGER.move("sink", NONE, NOW)) == (
        *(7, "q", "r", TEXT),
        *[[]] * 9,
        *("sink", "flights"),
    )


def test_ranges_and_gaps_are_written_down() -> None:
    """An empty range leaves nothing in the history, unless offsets before it were given up."""
    before = (1, "sink", "flights", 7, "q", "r", 12, TEXT)
    assert given(LEDGER.write_down("sink", ENTRY, rows=12, now=NOW)) == (
        *before,
        *(["t"] * 3, [0, 1, 3], ["id"] * 3, [0, 5, 8], [3, 9, 8], [0, 1, 2]),
        *(["first", "next", "gap accepted"], [None, None, 5], [None, None, 8]),
    )
    assert given(LEDGER.write_down("sink", NONE, rows=12, now=NOW)) == (*before, *[[]] * 9)
