"""The ledger on a PostgreSQL connection: made, read, locked, moved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from eo_listener.errors import SettingsError
from eo_listener.fault_points import reached
from eo_listener.sinks.ledger_sql import (
    HEADS,
    HISTORY,
    LedgerSql,
    Standing,
    Statement,
    foreign_writer,
    moved,
    standing,
)
from eo_listener.sinks.postgres.statements import identifier, making, run, run_many

if TYPE_CHECKING:
    from eo_listener.ledger import Entry, Head, LedgerKey
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.postgres.connection import Link

MOMENT: Final = "timestamp with time zone"
PLACE: Final = "%s"
_GRANTS: Final = {HEADS: "SELECT, INSERT, UPDATE", HISTORY: "SELECT, INSERT, DELETE"}
_THERE: Final = """
SELECT c.relname, c.relpersistence = 'p', NOT EXISTS (
    SELECT FROM unnest(string_to_array(w.needs, ', ')) AS one (need)
    WHERE NOT has_table_privilege(c.oid, one.need))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s
JOIN (VALUES (%s::text, %s::text), (%s, %s)) AS w (name, needs) ON w.name = c.relname
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of the sink `key`, in `schema`."""

    key: str
    label: str
    schema: str

    def make(self, link: Link, *, create: bool) -> None:
        """Make the tables where they are missing; without `create` raise SettingsError instead."""
        there = {name: rest for name, *rest in run(link, self._there()).fetchall()}
        if len(there) == len(_GRANTS):
            for name, (kept, granted) in there.items():
                self._check(link, name, kept=kept, granted=granted)
            return
        statements = self._sql().create()
        if not create:
            raise SettingsError(
                f"{self.label} has no ledger, and create=False forbids creating it",
                fix=f"As a role that may create it: {'; '.join(statements).replace('%%', '%')};",
            )
        with making(link):
            for one in statements:
                run(link, Statement(one))

    def _there(self) -> Statement:
        return Statement(
            _THERE, (self.schema, *(text for pair in _GRANTS.items() for text in pair))
        )

    def _check(self, link: Link, name: str, *, kept: bool, granted: bool) -> None:
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

    def read(
        self, link: Link, query: str, only: TopicPartition | None = None
    ) -> dict[TopicPartition, Standing]:
        """Read the heads of `query`, or that of one partition."""
        rows = run(link, self._heads(query, only)).fetchall()
        return {found.partition: found for found in map(standing, rows)}

    def moved_by(self, link: Link, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Read all heads that `query_id` has moved last, of any sink and query."""
        return moved(run(link, self._sql().moved_by(query_id)).fetchall())

    def hold(self, link: Link, entry: Entry) -> None:
        """Lock the heads of `entry`, and compare them with what it has found.

        So a driver that has lost finds out before it writes much. Locks are taken in one order
        everywhere: heads by topic and partition, then rows, then (at the end) new heads. Raises
        ForeignWriterError.
        """
        # A partition's own transaction leaves the others their heads.
        only = next(iter(entry.moves)) if len(entry.moves) == 1 else None
        text, values = self._heads(entry.query, only)
        locked = Statement(f'{text} ORDER BY topic, "partition" FOR UPDATE', values)
        there = {one.partition: one for one in map(standing, run(link, locked).fetchall())}
        for tp, move in entry.moves.items():
            if move.found != (there[tp].head if tp in there else None):
                raise foreign_writer(self.label, entry, there)

    def move(self, link: Link, entry: Entry, *, rows: int) -> None:
        """Move the heads by compare-and-set, and write the history.

        Raises ForeignWriterError where not exactly one row changed for each partition.
        """
        now = datetime.now(timezone.utc)
        ours = self._sql()
        for many in (ours.insert(self.key, entry, now), ours.move(self.key, entry, now)):
            if run_many(link, many) != len(many.rows):
                raise foreign_writer(self.label, entry, self.read(link, entry.query))
        run_many(link, ours.history(self.key, entry, rows=rows, now=now))
        due = ours.prune(self.key, entry)
        if due is not None:
            run(link, due)
        reached("sink.ledger-moved")

    def _heads(self, query: str, only: TopicPartition | None) -> Statement:
        every = self._sql().heads(self.key, query)
        if only is None:
            return every
        return Statement(
            f'{every.text} AND topic = %s AND "partition" = %s', (*every.values, *only)
        )

    def _sql(self) -> LedgerSql:
        return LedgerSql(placeholder=PLACE, moment=MOMENT, schema=self.schema)
