"""Creates, reads, locks and moves the ledger on a PostgreSQL connection."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors

from eo_listener.errors import SettingsError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import FORMAT, LedgerKey
from eo_listener.sinks.foreign_writer import ledger_changed
from eo_listener.sinks.ledger_sql import (
    HEADS,
    HISTORY,
    LedgerSql,
    Statement,
    moved_heads,
    now_text,
    quoted,
    read_heads,
    verdict,
)
from eo_listener.sinks.postgres.catalog import identifier, making, run
from eo_listener.sinks.postgres.errors import lost, translated
from eo_listener.sinks.target import not_created

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eo_listener.errors import ForeignWriterError
    from eo_listener.model.ledger import Entry, Head, Move, StoredLedger
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.postgres.connection import Connection, Cursor, Row


logger = logging.getLogger("eo_listener")

_OURS: Final = "l.sink = %s AND l.query = %s"
_SAME: Final = (
    "l.next_offset = m.was_next AND l.batch_id = m.was_batch AND l.query_id = m.was_query "
    "AND l.run_id = m.was_run"
)
"""The condition of the compare-and-set. It is exact: each batch of each run leaves a new head."""

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
MOMENT: Final = "timestamp with time zone"
PLACE: Final = "%s"
_KEY: Final = ", id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
"""A column without which the history could not be pruned in a publication FOR ALL TABLES."""
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
_GRANTS: Final = {HEADS: "SELECT, INSERT, UPDATE", HISTORY: "SELECT, INSERT, DELETE"}
_TABLES: Final = """
SELECT c.relname, c.relpersistence = 'p', NOT EXISTS (
    SELECT FROM unnest(string_to_array(w.needs, ', ')) AS one (need)
    WHERE NOT has_table_privilege(c.oid, one.need))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s
JOIN (VALUES (%s::text, %s::text), (%s, %s)) AS w (name, needs) ON w.name = c.relname
"""
_LEDGERS: Final = """
SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.relkind IN ('r', 'p') AND n.nspname <> %s
AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'query_id')
"""


def _place(tp: TopicPartition, move: Move) -> tuple[Any, ...]:
    return (*tp, move.topic_id, *move.range)


def _was(head: Head | None) -> tuple[Any, ...]:
    if head is None:
        return None, None, None, None
    return head.range.until, head.batch_id, head.query_id, head.run_id


def _columns(count: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Return `rows` as columns; if there are no rows, return `count` empty columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]


def sink_key(schema: str | None, table: str) -> str:
    """Return a sink's key in the ledger: its table as SQL writes it, quoted if necessary."""
    return ".".join(
        name if _PLAIN.fullmatch(name) else quoted(name)
        for name in (schema, table)
        if name is not None
    )


def ledger_sql(schema: str) -> LedgerSql:
    """Return the statements for the ledger in `schema`."""
    return LedgerSql(placeholder=PLACE, moment=MOMENT, schema=schema, history_key=_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of the sink `key`, in `schema`; with `prunes`, `move` may delete old history."""

    key: str
    label: str
    schema: str
    prunes: bool = True

    def make(self, link: Connection, *, create: bool) -> None:
        """Create the ledger if it does not exist; if `create` is False, raise SettingsError."""
        if not self._check_all(link, run(link, self._tables()).fetchall(), create=create):
            with making(link):
                for text in self._sql().create():
                    run(link, Statement(text))

    def _check_all(self, link: Connection, tables: Sequence[Row], *, create: bool) -> bool:
        """Return True if both tables exist, False if they must be created. Raises SettingsError."""
        if len(tables) == len(_GRANTS):
            for name, permanent, granted in tables:
                self._check(link, name, permanent=permanent, granted=granted)
            return True
        if not create:
            statements = "; ".join(self._sql().create()).replace("%%", "%")
            raise not_created(f"{self.label} has no ledger", statements)
        return False

    def _tables(self) -> Statement:
        return Statement(_TABLES, (self.schema, *chain.from_iterable(_GRANTS.items())))

    def _check(self, link: Connection, name: str, *, permanent: bool, granted: bool) -> None:
        table = identifier(self.schema, name).as_string(link)
        if not permanent:
            raise SettingsError(
                f"the ledger {table} of {self.label} is UNLOGGED",
                cause="a crash of the server would empty it",
                fix=f"ALTER TABLE {table} SET LOGGED",
            )
        if not granted:
            raise SettingsError(
                f"the role of {self.label} lacks privileges on the ledger {table}",
                cause="the sink reads and moves the heads, and writes and prunes the history",
                fix=f"GRANT {_GRANTS[name]} ON {table} TO the role of the dsn",
            )

    def applied(
        self, link: Connection, query: str, *, create: bool
    ) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`, in one round trip if the ledger exists.

        If the ledger does not exist, creates it or raises SettingsError, as `make` does.
        """
        try:
            with link.pipeline():
                tables = run(link, self._tables())
                heads = run(link, self._heads(query))
        except (errors.UndefinedTable, errors.InsufficientPrivilege):
            self.make(link, create=create)
            return self.read(link, query).heads
        if not self._check_all(link, tables.fetchall(), create=create):
            self.make(link, create=create)
        return read_heads(LedgerKey(self.key, query), heads.fetchall()).heads

    def read(
        self, link: Connection, query: str, only: TopicPartition | None = None
    ) -> StoredLedger:
        """Read the heads of `query`, or only the head of the partition `only`."""
        rows = run(link, self._heads(query, only)).fetchall()
        return read_heads(LedgerKey(self.key, query), rows)

    def _changed(self, link: Connection, entry: Entry) -> ForeignWriterError:
        """Return the error that names the heads of the ledger that `entry` did not expect."""
        stored = self.read(link, entry.query)
        return ledger_changed(self.label, entry, stored.heads, stored.moved_at)

    def moved_by(
        self, link: Connection, query_id: str
    ) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Read all heads, of any sink and query, whose last move was by the query id `query_id`.

        Reads the ledgers in all schemas that the role may read: a table, and with it its ledger,
        may have moved to another schema.
        """
        schemas = [
            row[0] for row in run(link, Statement(_LEDGERS, (HEADS, self.schema))).fetchall()
        ]
        heads: dict[LedgerKey, dict[TopicPartition, Head]] = {}
        for schema in (*schemas, self.schema):  # of two ledgers with one key, ours counts
            heads |= moved_heads(run(link, ledger_sql(schema).moved_by(query_id)).fetchall())
        return heads

    def hold(self, link: Connection, entry: Entry) -> Cursor:
        """Lock the heads of `entry` and compare them; `check_held` reads the answer.

        A driver that was replaced therefore fails before it writes much. All code takes locks in
        one order: heads by topic and partition, then rows, then (at the end) new heads. This method
        does not lock the heads of partitions that the entry does not move: topics that the query no
        longer reads may have left any number of such heads.
        """
        arrays = _columns(6, ((*tp, *_was(move.expected)) for tp, move in entry.moves.items()))
        return run(link, self._statement(_HOLD, *arrays, self.key, entry.query))

    def check_held(self, link: Connection, entry: Entry, answer: Cursor) -> None:
        """Raise ForeignWriterError if the heads that `hold` locked differ from those in `entry`."""
        expected = sum(move.expected is not None for move in entry.moves.values())
        if answer.fetchone() != (expected, expected):
            raise self._changed(link, entry)

    def move(self, link: Connection, entry: Entry, *, rows: int) -> None:
        """Move the heads by compare-and-set, and write the history, in one round trip.

        Raises ForeignWriterError unless exactly one row changed for each partition.
        """
        now = datetime.now(timezone.utc)
        due = self._sql().prune(self.key, entry) if self.prunes else None
        with link.pipeline():
            inserted = run(link, self._insert(entry, now))
            changed = run(link, self._change(entry, now))
            run(link, self._write_down(entry, rows, now))
        new = sum(move.expected is None for move in entry.moves.values())
        if (inserted.rowcount, changed.rowcount) != (new, len(entry.moves) - new):
            raise self._changed(link, entry)
        if due is not None:
            self._prune(link, due)
        fault_point("sink.ledger-moved")

    def _prune(self, link: Connection, due: Statement) -> None:
        """Delete old history. If the server refuses that, log a warning: no batch depends on it."""
        try:
            with link.transaction():
                run(link, due)
        except psycopg.Error as error:
            if lost(error):
                raise
            logger.warning("%s", translated(error, self.label, "pruning the history of the ledger"))

    def _heads(self, query: str, only: TopicPartition | None = None) -> Statement:
        every = self._sql().heads(self.key, query)
        if only is None:
            return every
        return Statement(
            f'{every.text} AND topic = %s AND "partition" = %s', (*every.values, *only)
        )

    def _insert(self, entry: Entry, now: datetime) -> Statement:
        """Return the INSERT of heads that `entry` expects to be missing, in the order of locks."""
        missing = (_place(tp, move) for tp, move in entry.moves.items() if move.expected is None)
        writer = (entry.batch_id, entry.query_id, entry.run_id, now_text(now))
        key = (FORMAT, self.key, entry.query)
        return self._statement(_INSERT, *key, *writer, *_columns(5, missing))

    def _change(self, entry: Entry, now: datetime) -> Statement:
        """Return the UPDATE of the existing heads of `entry`, each only if it is as expected."""
        existing = (
            (*_place(tp, move), *_was(move.expected))
            for tp, move in entry.moves.items()
            if move.expected is not None
        )
        writer = (entry.batch_id, entry.query_id, entry.run_id, now_text(now))
        return self._statement(_MOVE, *writer, *_columns(9, existing), self.key, entry.query)

    def _write_down(self, entry: Entry, rows: int, now: datetime) -> Statement:
        """Return the INSERT of a history row for each move that has a `verdict`."""
        ranges = (
            (*_place(tp, move), move.source, word, *(move.gap or (None, None)))
            for tp, move in entry.moves.items()
            if (word := verdict(move)) is not None
        )
        writer = (entry.batch_id, entry.query_id, entry.run_id, rows, now_text(now))
        key = (FORMAT, self.key, entry.query)
        return self._statement(_HISTORY, *key, *writer, *_columns(9, ranges))

    def _statement(self, text: str, *values: Any) -> Statement:
        """Return one statement for all partitions, with an array for each column.

        A statement for each partition would cost a round trip each.
        """
        names = {"heads": self._sql().table(HEADS), "history": self._sql().table(HISTORY)}
        return Statement(
            text.format(**names, moment=MOMENT, ours=_OURS, same=_SAME, place=_PLACE), values
        )

    def _sql(self) -> LedgerSql:
        return ledger_sql(self.schema)
