"""Repairs the ledger in an SQLite file, in one transaction that compares the heads first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from eo_listener.errors import InUseError
from eo_listener.sinks.ledger_repair import Rename, refuse_changed, refuse_other_table
from eo_listener.sinks.ledger_sql import HEADS, HISTORY
from eo_listener.sinks.sqlite.catalog import columns_of
from eo_listener.sinks.sqlite.connection import Connection, DatabaseFile, absolute
from eo_listener.sinks.sqlite.ledger import SQL, Ledger
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.sinks.sqlite.sink import folded

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry, Head, LedgerKey
    from eo_listener.offsets import TopicPartition


class SqliteLedgerRepair:
    """The `LedgerRepair` of an SQLite file. `busy_timeout` is in seconds.

    SQLite does not show which processes have a file open, so a repair notices a sink only while the
    sink writes.
    """

    remarks: tuple[str, ...] = ()

    def __init__(self, path: str | Path, *, busy_timeout: float = 10.0) -> None:
        self._path = absolute(path)
        self.reader = SqliteLedgerReader(self._path, busy_timeout=busy_timeout)
        self._file = DatabaseFile(
            self._path, create=False, busy_timeout=busy_timeout, foreign_keys=False
        )

    def key_of(self, table: str) -> str:
        """Return the key of a sink that writes to `table`."""
        return folded(table)

    def users(self, key: LedgerKey) -> tuple[str, ...]:  # noqa: ARG002  # SQLite shows none
        """Return an empty tuple: SQLite does not show who uses a file."""
        return ()

    def check_rename(self, rename: Rename) -> None:
        """Raise SettingsError if the sink's name changes, but its table was not renamed."""
        refuse_other_table(rename, self._has_table)

    def rename(self, rename: Rename) -> None:
        """Change the sink or query of a ledger, in its heads and its history."""

        def change(connection: Connection) -> None:
            old, new = (self._heads(connection, key) for key in (rename.old, rename.new))
            refuse_changed(self.reader.label, rename, old=old, new=new)
            connection.execute(*SQL.rename(HISTORY, rename.old, rename.new))
            connection.execute(*SQL.rename(HEADS, rename.old, rename.new))
            now = datetime.now(timezone.utc)
            connection.executemany(*SQL.add_rename(rename.new, rename.heads, rename.verdict, now))

        self._transact(change)

    def accept(self, sink: str, entry: Entry) -> None:
        """Move the head in `entry` past a gap."""
        ledger = self._ledger(sink)

        def change(connection: Connection) -> None:
            if not ledger.move(connection, entry, rows=0):
                error = ledger.foreign_writer(connection, entry)
                raise error.as_kind(InUseError, fix="Stop the query first")

        self._transact(change)

    def close(self) -> None:
        """Close the file."""
        self.reader.close()
        self._file.close()

    def _has_table(self, sink: str) -> bool:
        with self._file.translated():
            return bool(columns_of(self._file.connection(), sink))

    def _transact(self, change: Callable[[Connection], None]) -> None:
        with self._file.translated():
            connection = self._file.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                change(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _heads(self, connection: Connection, key: LedgerKey) -> Mapping[TopicPartition, Head]:
        return self._ledger(key.sink).read(connection, key.query).heads

    def _ledger(self, sink: str) -> Ledger:
        return Ledger(key=sink, label=self.reader.label, path=self._path, create=False)
