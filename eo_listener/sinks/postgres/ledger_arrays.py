"""The ledger's moves on PostgreSQL: one statement for all partitions, with an array a column.

One statement a partition would cost a round trip each, or as many messages. `LedgerSql` has the
tables, and reads and prunes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from eo_listener.model.ledger import FORMAT
from eo_listener.sinks.ledger_sql import Statement, now_text, verdict

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry, Head, Move
    from eo_listener.model.offsets import TopicPartition

_OURS: Final = "l.sink = %s AND l.query = %s"
_SAME: Final = (
    "l.next_offset = m.was_next AND l.batch_id = m.was_batch AND l.query_id = m.was_query "
    "AND l.run_id = m.was_run"
)
"""Each batch of each run leaves another head, so this is what compare-and-set goes by."""

_PLACE: Final = 'l.topic = m.topic AND l."partition" = m.part'
_HOLD: Final = """
WITH m (topic, part, was_next, was_batch, was_query, was_run) AS (
    SELECT * FROM unnest(%s::text[], %s::int[], %s::bigint[], %s::bigint[], %s::text[], %s::text[])
), held AS MATERIALIZED (
    SELECT l.* FROM {heads} l
    WHERE {ours} AND (l.topic, l."partition") IN (SELECT topic, part FROM m)
    ORDER BY l.topic, l."partition" FOR UPDATE
)
SELECT count(*), count(*) FILTER (WHERE {same}) FROM held l JOIN m ON {place}
"""
_INSERT: Final = """
INSERT INTO {heads} (format, sink, query, topic, "partition", topic_id, start_offset, next_offset,
                     batch_id, query_id, run_id, moved_at)
SELECT %s, %s, %s, m.*, %s, %s, %s, %s::{moment}
FROM unnest(%s::text[], %s::int[], %s::text[], %s::bigint[], %s::bigint[]) AS m (topic, part)
ORDER BY m.topic, m.part
ON CONFLICT DO NOTHING
"""
_MOVE: Final = """
UPDATE {heads} l SET topic_id = m.topic_id, start_offset = m.start, next_offset = m.next,
                     batch_id = %s, query_id = %s, run_id = %s, moved_at = %s::{moment}
FROM unnest(%s::text[], %s::int[], %s::text[], %s::bigint[], %s::bigint[],
            %s::bigint[], %s::bigint[], %s::text[], %s::text[])
     AS m (topic, part, topic_id, start, next, was_next, was_batch, was_query, was_run)
WHERE {ours} AND {place} AND {same}
"""
_HISTORY: Final = """
INSERT INTO {history} (format, sink, query, batch_id, query_id, run_id, "rows", applied_at, topic,
                       "partition", topic_id, start_offset, next_offset, source, verdict,
                       gap_start, gap_until)
SELECT %s, %s, %s, %s, %s, %s, %s, %s::{moment}, m.*
FROM unnest(%s::text[], %s::int[], %s::text[], %s::bigint[], %s::bigint[], %s::int[], %s::text[],
            %s::bigint[], %s::bigint[]) AS m
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerArrays:
    """Statements on the two tables, whose names are quoted and qualified."""

    heads: str
    history: str
    moment: str

    def hold(self, sink: str, entry: Entry) -> Statement:
        """Lock the heads that are there of the partitions of `entry`, by topic and partition.

        Answers how many there are, and how many of them are as `entry` has found them.
        """
        found = [(tp, move.found) for tp, move in entry.moves.items()]
        arrays = _columns(6, ((*tp, *_was(head)) for tp, head in found))
        return Statement(self._text(_HOLD), (*arrays, sink, entry.query))

    def insert(self, sink: str, entry: Entry, now: datetime) -> Statement:
        """Make the heads that `entry` has found missing, in the order in which all are locked."""
        new = _columns(
            5, (_place(tp, move) for tp, move in entry.moves.items() if move.found is None)
        )
        writer = (entry.batch_id, entry.query_id, entry.run_id, now_text(now))
        return Statement(self._text(_INSERT), (FORMAT, sink, entry.query, *writer, *new))

    def move(self, sink: str, entry: Entry, now: datetime) -> Statement:
        """Move the heads that `entry` has found, each only if it is still as it was found."""
        moved = _columns(
            9,
            (
                (*_place(tp, move), *_was(move.found))
                for tp, move in entry.moves.items()
                if move.found is not None
            ),
        )
        writer = (entry.batch_id, entry.query_id, entry.run_id, now_text(now))
        return Statement(self._text(_MOVE), (*writer, *moved, sink, entry.query))

    def write_down(self, sink: str, entry: Entry, *, rows: int, now: datetime) -> Statement:
        """Write each move that has a `verdict` into the history."""
        ranges = _columns(
            9,
            (
                (*_place(tp, move), move.source, word, *(move.gap or (None, None)))
                for tp, move in entry.moves.items()
                if (word := verdict(move)) is not None
            ),
        )
        writer = (entry.batch_id, entry.query_id, entry.run_id, rows, now_text(now))
        return Statement(self._text(_HISTORY), (FORMAT, sink, entry.query, *writer, *ranges))

    def _text(self, text: str) -> str:
        return text.format(
            heads=self.heads,
            history=self.history,
            moment=self.moment,
            ours=_OURS,
            same=_SAME,
            place=_PLACE,
        )


def _place(tp: TopicPartition, move: Move) -> tuple[Any, ...]:
    return (*tp, move.topic_id, *move.range)


def _was(head: Head | None) -> tuple[Any, ...]:
    if head is None:
        return None, None, None, None
    return head.range.until, head.batch_id, head.query_id, head.run_id


def _columns(count: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as columns; of no rows, as many empty ones."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
