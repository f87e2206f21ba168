"""Creates, reads and moves the ledger in an SQLite file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from eo_listener.model.ledger import LedgerKey
from eo_listener.sinks.foreign_writer import ledger_changed
from eo_listener.sinks.ledger_sql import HEADS, LedgerSql, moved_heads, read_heads
from eo_listener.sinks.sqlite.catalog import SCHEMA, columns_of
from eo_listener.sinks.target import not_created

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from eo_listener.errors import ForeignWriterError
    from eo_listener.model.ledger import Entry, Head, StoredLedger
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.sqlite.connection import Connection

SQL: Final = LedgerSql(placeholder="?", moment="text", schema=SCHEMA, index_in_schema=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of the sink `key`, in the file `path`."""

    key: str
    label: str
    path: Path
    create: bool

    def make(self, connection: Connection) -> None:
        """Create the ledger if it does not exist; if `create` is False, raise SettingsError."""
        if columns_of(connection, HEADS):
            return
        if not self.create:
            raise not_created(f"{self.path} has no ledger", "; ".join(SQL.create()))
        for statement in SQL.create():
            connection.execute(statement)

    def applied(self, connection: Connection, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`; create a missing ledger, in a separate transaction."""
        if not columns_of(connection, HEADS):
            connection.execute("BEGIN IMMEDIATE")
            self.make(connection)
            connection.execute("COMMIT")
        return self.read(connection, query).heads

    def read(self, connection: Connection, query: str) -> StoredLedger:
        """Read the heads of `query` from the ledger, which must exist."""
        rows = connection.execute(*SQL.heads(self.key, query))
        return read_heads(LedgerKey(self.key, query), rows)

    def moved_by(
        self, connection: Connection, query_id: str
    ) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Read all heads, of any sink and query, whose last move was by the query id `query_id`."""
        return moved_heads(connection.execute(*SQL.moved_by(query_id)))

    def move(self, connection: Connection, entry: Entry, *, rows: int) -> bool:
        """Move the heads by compare-and-set, and write the history.

        Return True if each head was as `entry` expects; if False, the caller must roll back.
        """
        self.make(connection)
        now = datetime.now(timezone.utc)
        for statement in (SQL.insert(self.key, entry, now), SQL.move(self.key, entry, now)):
            changed = connection.executemany(*statement).rowcount if statement.rows else 0
            if changed != len(statement.rows):
                return False
        connection.executemany(*SQL.history(self.key, entry, rows=rows, now=now))
        old = SQL.prune(self.key, entry)
        if old is not None:
            connection.execute(*old)
        return True

    def foreign_writer(self, connection: Connection, entry: Entry) -> ForeignWriterError:
        """Return the error that names the heads of the ledger that `entry` does not expect."""
        stored = self.read(connection, entry.query)
        return ledger_changed(self.label, entry, stored.heads, stored.moved_at)
