"""The ledger on a PostgreSQL connection: made, read, locked, moved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from psycopg import errors

from eo_listener.model.errors import SettingsError
from eo_listener.model.fault_points import reached
from eo_listener.sinks.ledger_sql import (
    HEADS,
    HISTORY,
    LedgerRow,
    LedgerSql,
    Statement,
    moved,
    quoted,
    read_ledger_row,
    rows_changed,
)
from eo_listener.sinks.postgres.catalog import identifier, making, run
from eo_listener.sinks.postgres.ledger_arrays import LedgerArrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eo_listener.model.ledger import Entry, Head, LedgerKey
    from eo_listener.model.offsets import TopicPartition
    from eo_listener.sinks.postgres.connection import Connection, Cursor, Row

MOMENT: Final = "timestamp with time zone"
PLACE: Final = "%s"
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
_GRANTS: Final = {HEADS: "SELECT, INSERT, UPDATE", HISTORY: "SELECT, INSERT, DELETE"}
_THERE: Final = """
SELECT c.relname, c.relpersistence = 'p', NOT EXISTS (
    SELECT FROM unnest(string_to_array(w.needs, ', ')) AS one (need)
    WHERE NOT has_table_privilege(c.oid, one.need))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s
JOIN (VALUES (%s::text, %s::text), (%s, %s)) AS w (name, needs) ON w.name = c.relname
"""


def sink_key(schema: str | None, table: str) -> str:
    """Return by what the ledger knows a sink: its table as SQL writes it, quoted where it must."""
    return ".".join(
        name if _PLAIN.fullmatch(name) else quoted(name)
        for name in (schema, table)
        if name is not None
    )


def ledger_sql(schema: str) -> LedgerSql:
    """Return the statements on the ledger of a schema."""
    return LedgerSql(placeholder=PLACE, moment=MOMENT, schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of the sink `key`, in `schema`; `prunes`: its history too, now and then."""

    key: str
    label: str
    schema: str
    prunes: bool = True

    def make(self, link: Connection, *, create: bool) -> None:
        """Make the tables where they are missing; without `create` raise SettingsError instead."""
        if not self._check_all(link, run(link, self._there()).fetchall(), create=create):
            with making(link):
                for one in self._sql().create():
                    run(link, Statement(one))

    def _check_all(self, link: Connection, found: Sequence[Row], *, create: bool) -> bool:
        """Whether both tables exist; raises SettingsError where they cannot be used."""
        if len(found) == len(_GRANTS):
            for name, kept, granted in found:
                self._check(link, name, kept=kept, granted=granted)
            return True
        if not create:
            statements = self._sql().create()
            raise SettingsError(
                f"{self.label} has no ledger, and create=False forbids creating it",
                fix=f"As a role that may create it: {'; '.join(statements).replace('%%', '%')};",
            )
        return False

    def _there(self) -> Statement:
        return Statement(
            _THERE, (self.schema, *(text for pair in _GRANTS.items() for text in pair))
        )

    def _check(self, link: Connection, name: str, *, kept: bool, granted: bool) -> None:
        table = identifier(self.schema, name).as_string(link)
        if not kept:
            raise SettingsError(
                f"the ledger {table} of {self.label} is UNLOGGED",
                cause="a crash of the server would empty it",
                fix=f"ALTER TABLE {table} SET LOGGED",
            )
        if not granted:
            raise SettingsError(
                f"the role of {self.label} lacks rights on the ledger {table}",
                cause="the sink reads and moves the heads, and writes and prunes the history",
                fix=f"GRANT {_GRANTS[name]} ON {table} TO the role of the dsn",
            )

    def applied(self, link: Connection, query: str, *, create: bool) -> dict[TopicPartition, Head]:
        """Read the heads of `query`, in one round trip where the ledger is there.

        Otherwise it is made, or SettingsError is raised, as `make` does.
        """
        try:
            with link.pipeline():
                there = run(link, self._there())
                heads = run(link, self._heads(query))
        except (errors.UndefinedTable, errors.InsufficientPrivilege):
            self.make(link, create=create)
            return {tp: one.head for tp, one in self.read(link, query).items()}
        if not self._check_all(link, there.fetchall(), create=create):
            self.make(link, create=create)
        return {one.partition: one.head for one in map(read_ledger_row, heads.fetchall())}

    def read(
        self, link: Connection, query: str, only: TopicPartition | None = None
    ) -> dict[TopicPartition, LedgerRow]:
        """Read the heads of `query`, or that of one partition."""
        rows = run(link, self._heads(query, only)).fetchall()
        return {found.partition: found for found in map(read_ledger_row, rows)}

    def moved_by(
        self, link: Connection, query_id: str
    ) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Read all heads that `query_id` has moved last, of any sink and query."""
        return moved(run(link, self._sql().moved_by(query_id)).fetchall())

    def hold(self, link: Connection, entry: Entry) -> Cursor:
        """Lock the heads of `entry`, and compare them with what it has found; `held` reads that.

        So a driver that has lost finds out before it writes much. Locks are taken in one order
        everywhere: heads by topic and partition, then rows, then (at the end) new heads. Heads of
        other partitions are left alone: of topics that are read no more there may be any number.
        """
        return run(link, self._arrays().hold(self.key, entry))

    def held(self, link: Connection, entry: Entry, answer: Cursor) -> None:
        """Raise ForeignWriterError where the heads are not what `entry` has found."""
        found = sum(move.found is not None for move in entry.moves.values())
        if answer.fetchone() != (found, found):
            raise rows_changed(self.label, entry, self.read(link, entry.query))

    def move(self, link: Connection, entry: Entry, *, rows: int) -> None:
        """Move the heads by compare-and-set, and write the history, in one round trip.

        Raises ForeignWriterError where not exactly one row changed for each partition.
        """
        now = datetime.now(timezone.utc)
        ours = self._arrays()
        due = self._sql().prune(self.key, entry) if self.prunes else None
        with link.pipeline():
            made = run(link, ours.insert(self.key, entry, now))
            changed = run(link, ours.move(self.key, entry, now))
            run(link, ours.write_down(self.key, entry, rows=rows, now=now))
            if due is not None:
                run(link, due)
        new = sum(move.found is None for move in entry.moves.values())
        if (made.rowcount, changed.rowcount) != (new, len(entry.moves) - new):
            raise rows_changed(self.label, entry, self.read(link, entry.query))
        reached("sink.ledger-moved")

    def _heads(self, query: str, only: TopicPartition | None = None) -> Statement:
        every = self._sql().heads(self.key, query)
        if only is None:
            return every
        return Statement(
            f'{every.text} AND topic = %s AND "partition" = %s', (*every.values, *only)
        )

    def _arrays(self) -> LedgerArrays:
        ours = self._sql()
        return LedgerArrays(heads=ours.table(HEADS), history=ours.table(HISTORY), moment=MOMENT)

    def _sql(self) -> LedgerSql:
        return ledger_sql(self.schema)
