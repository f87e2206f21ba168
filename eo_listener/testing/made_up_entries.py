"""Makes entries, rows and names for tests of sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from eo_listener.model.ledger import BatchVerdict, Entry, Head, Move
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

Row: TypeAlias = tuple[str, int, int, str]
"""One row of a test: topic, partition, offset, word."""

Heads: TypeAlias = Mapping[TopicPartition, Head]

FRAME = "topic string, partition int, offset bigint, word string"
HOSTILE = (
    "it's",
    'say "so"',
    "x'); DROP TABLE eo_ledger; --",
    'x"); DROP TABLE eo_ledger; --',
    "two\nlines",
    "100%s ? :a {0} $1",
    "back\\slash",
    "\u017elu\u0165ou\u010dk\u00fd \U0001f40d",
)
"""Names that a sink must treat as data, never as SQL."""

QUERY = "flights"


def entry_of(
    heads: Heads,
    ranges: Mapping[TopicPartition, OffsetRange],
    *,
    batch_id: int = 0,
    query: str = QUERY,
    run_id: str = "run-1",
    topic_id: str | None = "tv9Lg1mUQ5mX5yWk4vcVXA",
    gap: OffsetRange | None = None,
) -> Entry:
    """Return the entry of a batch that moves `heads` by `ranges`, without any check.

    Each move of the entry has the accepted gap `gap`.
    """
    moves = {
        tp: Move(
            source=0,
            range=offset_range,
            topic_id=topic_id,
            verdict=_verdict(offset_range, heads.get(tp)),
            expected=heads.get(tp),
            gap=gap,
        )
        for tp, offset_range in ranges.items()
    }
    return Entry(query=query, query_id="query-1", run_id=run_id, batch_id=batch_id, moves=moves)


def rows_of(entry: Entry, word: str = "") -> list[Row]:
    """Return a row for each offset of `entry`."""
    return [
        (*tp, offset, word or entry.run_id)
        for tp, move in entry.moves.items()
        for offset in range(*move.range)
    ]


def _verdict(offset_range: OffsetRange, head: Head | None) -> BatchVerdict | None:
    if offset_range.start == offset_range.until:
        return None
    return BatchVerdict.FIRST if head is None else BatchVerdict.NEXT


def plan_of(entry: Entry) -> PlannedBatch:
    """Return the planned batch that has the ranges of `entry`."""
    return PlannedBatch(
        query_id=entry.query_id,
        run_id=entry.run_id,
        query=entry.query,
        batch_id=entry.batch_id,
        sources={0: {tp: move.range for tp, move in entry.moves.items()}},
        topic_ids={},
        log_starts={},
        log_ends={},
    )


def heads_of(entry: Entry) -> dict[TopicPartition, Head]:
    """Return the heads that a ledger holds once `entry` is written."""
    return {tp: entry.head(tp) for tp in entry.moves}
