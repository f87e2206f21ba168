"""The two tables of the ledger in an SQL store, and every statement on these tables.

The tables have format 1, the same in each store. `eo_ledger` holds the heads; `eo_ledger_history`
holds a row for each range of offsets by which a head has moved. A batch in which all ranges are
empty moves heads, but leaves no history. Values are always parameters; names are quoted, and only
the schema's name comes from the user.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from eo_listener.errors import FormatError
from eo_listener.model.ledger import (
    FORMAT,
    GAP_ACCEPTED,
    AppliedBatch,
    BatchVerdict,
    Entry,
    Head,
    LedgerKey,
    Move,
    StoredLedger,
)
from eo_listener.offsets import OffsetRange, TopicPartition

HEADS: Final = "eo_ledger"
HISTORY: Final = "eo_ledger_history"
KEPT_BATCHES: Final = 1000
"""The least number of batches that the history keeps for a sink and query."""

_PRUNE_EVERY = 100
_HEAD: Final = (
    'format, topic, "partition", topic_id, start_offset, next_offset, batch_id, query_id, run_id'
)
"""The columns that heads and history have in common, in the order in which both are read."""


class Statement(NamedTuple):
    """One statement and its parameters."""

    text: str
    values: tuple[Any, ...] = ()


class Many(NamedTuple):
    """One statement for each row of parameters; together they must change `len(rows)` rows."""

    text: str
    rows: list[tuple[Any, ...]]


def quoted(name: str) -> str:
    """Return `name` as a quoted identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def now_text(now: datetime) -> str:
    """Return `now` as the ledger stores it: as a text of fixed length, so texts sort by time."""
    return now.isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSql:
    """The ledger's statements for one store.

    `placeholder` stands for a parameter (`?` or `%s`), `moment` is the type of a point in time, and
    `schema` the schema of the tables, None for the store's default. `index_in_schema` is True if
    CREATE INDEX takes the schema before the name of the index, as in SQLite, not before the name of
    its table. `history_key` defines one more column of the history, its primary key. If the
    placeholder is `%s`, every statement doubles a percent sign in the schema.
    """

    placeholder: str
    moment: str
    schema: str | None = None
    index_in_schema: bool = False
    history_key: str = ""

    def create(self) -> tuple[str, ...]:
        """Return the statements that create missing tables.

        The table of the heads is the last: if it exists, the history exists too.
        """
        key = "sink text NOT NULL, query text NOT NULL"
        offsets = "start_offset bigint NOT NULL, next_offset bigint NOT NULL"
        writer = "batch_id bigint NOT NULL, query_id text NOT NULL, run_id text NOT NULL"
        heads = (
            f"CREATE TABLE IF NOT EXISTS {self.table(HEADS)} (format integer NOT NULL, {key}, "
            f'topic text NOT NULL, "partition" integer NOT NULL, topic_id text, {offsets}, '
            f"{writer}, moved_at {self.moment} NOT NULL, "
            'PRIMARY KEY (sink, query, topic, "partition"))'
        )
        history = (
            f"CREATE TABLE IF NOT EXISTS {self.table(HISTORY)} (format integer NOT NULL, {key}, "
            f'source integer NOT NULL, topic text NOT NULL, topic_id text, "partition" integer '
            f'NOT NULL, {offsets}, {writer}, "rows" bigint NOT NULL, verdict text NOT NULL, '
            f"gap_start bigint, gap_until bigint, applied_at {self.moment} NOT NULL"
            f"{self.history_key})"
        )
        index, table = quoted(f"{HISTORY}_order"), self.table(HISTORY)
        if self.index_in_schema:
            index, table = self.table(f"{HISTORY}_order"), quoted(HISTORY)
        order = f"CREATE INDEX IF NOT EXISTS {index} ON {table} (sink, query, applied_at)"
        return history, order, heads

    def heads(self, sink: str, query: str) -> Statement:
        """Return the SELECT of a ledger's heads; `read_heads` reads the answer."""
        text = (
            f"SELECT {_HEAD}, CAST(moved_at AS text) FROM {self.table(HEADS)} "
            f"WHERE {self._each(('sink', 'query'), ' AND ')}"
        )
        return Statement(text, (sink, query))

    def moved_by(self, query_id: str) -> Statement:
        """Return the SELECT of heads last moved by `query_id`; `moved_heads` reads the answer."""
        every = self.all_heads().text
        return Statement(f"{every} WHERE query_id = {self.placeholder}", (query_id,))

    def all_heads(self) -> Statement:
        """Return the SELECT of all ledgers' heads; `stored_ledgers` reads the answer."""
        return Statement(
            f"SELECT sink, query, {_HEAD}, CAST(moved_at AS text) FROM {self.table(HEADS)}"
        )

    def applied_batches(self, sink: str, query: str) -> Statement:
        """Return the SELECT of a ledger's history, sorted by partition and offset.

        `read_applied_batch` reads a row of the answer.
        """
        text = (
            f'SELECT {_HEAD}, "rows", verdict, gap_start, gap_until, CAST(applied_at AS text) '
            f"FROM {self.table(HISTORY)} WHERE {self._each(('sink', 'query'), ' AND ')} "
            'ORDER BY topic, "partition", start_offset, next_offset'
        )
        return Statement(text, (sink, query))

    def insert(self, sink: str, entry: Entry, now: datetime) -> Many:
        """Return the INSERT of the heads that `entry` expects to be missing."""
        text = (
            f"INSERT INTO {self.table(HEADS)} (next_offset, start_offset, topic_id, batch_id, "
            'query_id, run_id, moved_at, format, sink, query, topic, "partition") '
            f"VALUES ({self._places(12)}) ON CONFLICT DO NOTHING"
        )
        rows = [
            (*self._moved(entry, tp, now), FORMAT, sink, entry.query, *tp)
            for tp, move in sorted(entry.moves.items())  # all writers take locks in one order
            if move.expected is None
        ]
        return Many(text, rows)

    def move(self, sink: str, entry: Entry, now: datetime) -> Many:
        """Return the UPDATE of the heads that `entry` expects, each only if it has not changed."""
        fields = ("next_offset", "start_offset", "topic_id", "batch_id", "query_id", "run_id")
        key_fields = ("sink", "query", "topic", '"partition"')
        expected_fields = ("next_offset", "batch_id", "query_id", "run_id")
        text = (
            f"UPDATE {self.table(HEADS)} SET {self._each((*fields, 'moved_at'), ', ')} "
            f"WHERE {self._each((*key_fields, *expected_fields), ' AND ')}"
        )
        rows = [
            (
                *self._moved(entry, tp, now),
                *(sink, entry.query, *tp),
                *(old_head.range.until, old_head.batch_id, old_head.query_id, old_head.run_id),
            )
            for tp, move in entry.moves.items()
            if (old_head := move.expected) is not None
        ]
        return Many(text, rows)

    def history(self, sink: str, entry: Entry, *, rows: int, now: datetime) -> Many:
        """Return the INSERT of a history row for each move in `entry` that has a `verdict`.

        `rows` is the number of rows of the batch.
        """
        batch = (entry.batch_id, entry.query_id, entry.run_id, rows)
        history = [
            (
                *(FORMAT, sink, entry.query, move.source, *tp, move.topic_id, *move.range),
                *(*batch, word, *(move.gap or (None, None)), now_text(now)),
            )
            for tp, move in entry.moves.items()
            if (word := verdict(move)) is not None
        ]
        return Many(self._history_insert(), history)

    def prune(self, sink: str, entry: Entry, batches: int = KEPT_BATCHES) -> Statement | None:
        """Return the DELETE of history before the newest `batches`, or None if it is not yet due.

        The DELETE may keep more batches. The beginning of a partition, accepted gaps, and earlier
        names of a ledger stay forever: nothing else records them. The statement orders batches by
        time, since batch ids begin again with each new checkpoint. It counts batches by rows: a
        batch has at most one row per head, whether it is written in one transaction or in one for
        each partition.
        """
        if entry.batch_id % _PRUNE_EVERY:
            return None
        table = self.table(HISTORY)
        has_key = self._each(("sink", "query"), " AND ")
        text = (
            f"DELETE FROM {table} WHERE {has_key} AND verdict <> 'first' AND gap_start IS NULL AND "
            "substr(verdict, 1, 7) <> 'renamed' AND applied_at <= (SELECT applied_at FROM "
            f"{table} WHERE {has_key} ORDER BY applied_at DESC LIMIT 1 OFFSET {self.placeholder} * "
            f"(SELECT count(*) FROM {self.table(HEADS)} WHERE {has_key}))"
        )
        key = (sink, entry.query)
        return Statement(text, (*key, *key, batches, *key))

    def rename(self, table: str, old: LedgerKey, new: LedgerKey) -> Statement:
        """Return the UPDATE that gives a ledger's rows in `table`, HEADS or HISTORY, a new key."""
        keys = ("sink", "query")
        text = (
            f"UPDATE {self.table(table)} SET {self._each(keys, ', ')} "
            f"WHERE {self._each(keys, ' AND ')}"
        )
        return Statement(text, (*new, *old))

    def add_rename(
        self, key: LedgerKey, heads: Mapping[TopicPartition, Head], word: str, now: datetime
    ) -> Many:
        """Return the INSERT of a history row, with an empty range, for each renamed head.

        `word` is the row's verdict, and begins with `renamed`.
        """
        rows = [
            (
                *(FORMAT, *key, 0, *tp, head.topic_id, head.range.until, head.range.until),
                *(head.batch_id, head.query_id, head.run_id, 0),
                *(word, None, None, now_text(now)),
            )
            for tp, head in heads.items()
        ]
        return Many(self._history_insert(), rows)

    def table(self, name: str) -> str:
        """Return the name of one of the ledger's tables for a statement, with its schema."""
        where = f"{quoted(self.schema)}.{quoted(name)}" if self.schema else quoted(name)
        return where.replace("%", "%%") if self.placeholder == "%s" else where

    def _history_insert(self) -> str:
        return (
            f"INSERT INTO {self.table(HISTORY)} (format, sink, query, source, topic, "
            '"partition", topic_id, start_offset, next_offset, batch_id, query_id, run_id, "rows", '
            f"verdict, gap_start, gap_until, applied_at) VALUES ({self._places(17)})"
        )

    def _places(self, count: int) -> str:
        return ", ".join([self.placeholder] * count)

    def _each(self, fields: Iterable[str], joint: str) -> str:
        return joint.join(f"{field} = {self.placeholder}" for field in fields)

    def _moved(self, entry: Entry, tp: TopicPartition, now: datetime) -> tuple[Any, ...]:
        head = entry.head(tp)
        return (
            *(head.range.until, head.range.start, head.topic_id),
            *(head.batch_id, head.query_id, head.run_id, now_text(now)),
        )


def verdict(move: Move) -> str | None:
    """Return the verdict that the history records for a move, or None if it records no row.

    A move with an empty range has a verdict only if it creates the head: the row then shows where
    the partition begins.
    """
    if move.gap is not None:
        return GAP_ACCEPTED
    if move.verdict is not None:
        return move.verdict.value
    return BatchVerdict.FIRST.value if move.expected is None else None


def _read_row(row: Sequence[Any]) -> tuple[TopicPartition, Head, str]:
    """Return a row's partition and head, and the time of the head's last move.

    Raises FormatError for a format other than FORMAT.
    """
    row_format, topic, partition, topic_id, start, until, batch_id, query_id, run_id, moved_at = row
    if row_format != FORMAT:
        raise FormatError(
            f"the ledger holds a row of format {row_format}, but this version reads format "
            f"{FORMAT}",
            cause="a newer eo-listener wrote it",
            fix="Install that version of eo-listener here too",
        )
    head = Head(
        range=OffsetRange(start, until),
        topic_id=topic_id,
        query_id=query_id,
        run_id=run_id,
        batch_id=batch_id,
    )
    return TopicPartition(topic, partition), head, moved_at


def read_heads(key: LedgerKey, rows: Iterable[Sequence[Any]]) -> StoredLedger:
    """Read the rows of `LedgerSql.heads`. Raises FormatError for another format."""
    heads, moved_at = {}, {}
    for row in rows:
        tp, head, time = _read_row(row)
        heads[tp], moved_at[tp] = head, time
    return StoredLedger(key=key, heads=heads, moved_at=moved_at)


def stored_ledgers(rows: Iterable[Sequence[Any]]) -> dict[LedgerKey, StoredLedger]:
    """Read the rows of `LedgerSql.all_heads`. Raises FormatError for another format."""
    ledgers: defaultdict[LedgerKey, list[Sequence[Any]]] = defaultdict(list)
    for sink, query, *head in rows:
        ledgers[LedgerKey(sink, query)].append(head)
    return {key: read_heads(key, ledger) for key, ledger in ledgers.items()}


def read_applied_batch(row: Sequence[Any]) -> AppliedBatch:
    """Read a row of `LedgerSql.applied_batches`. Raises FormatError for another format."""
    *head_columns, rows, word, gap_start, gap_until, applied_at = row
    tp, head, _ = _read_row((*head_columns, applied_at))
    return AppliedBatch(
        partition=tp,
        head=head,
        rows=rows,
        verdict=word,
        gap=None if gap_start is None else OffsetRange(gap_start, gap_until),
        applied_at=applied_at,
    )


def moved_heads(rows: Iterable[Sequence[Any]]) -> dict[LedgerKey, dict[TopicPartition, Head]]:
    """Read the rows of `LedgerSql.moved_by`. Raises FormatError for another format."""
    return {key: dict(ledger.heads) for key, ledger in stored_ledgers(rows).items()}
