"""Reads the ledger of an SQLite file without a sink; opens the file for reading only."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from eo_listener.errors import SettingsError, SinkError
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.sinks.ledger_sql import HEADS, quoted, read_applied_batch, stored_ledgers
from eo_listener.sinks.newest_row import require_origin_columns
from eo_listener.sinks.sqlite.catalog import columns_of, in_file
from eo_listener.sinks.sqlite.connection import absolute
from eo_listener.sinks.sqlite.errors import translated
from eo_listener.sinks.sqlite.ledger import SQL

_AT_ONCE: Final = 10_000


def row_origins(
    connection: sqlite3.Connection, table: str, columns: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and offset of each row, sorted; rows that lack one of them come last.

    SQLite sorts the rows, in temporary files if there are many. `columns` are the names of the
    three columns. Raises SettingsError if the table or a column does not exist, and sqlite3.Error.
    """
    existing = columns_of(connection, table)
    require_origin_columns(repr(table), existing, columns)
    topic, partition, offset = map(quoted, columns)
    names = f"{topic}, {partition}, {offset}"
    empty = " OR ".join(f"{name} IS NULL" for name in (topic, partition, offset))
    # Texts in the order of their bytes, whatever the column's collation is.
    order = f"{empty}, {topic} COLLATE BINARY, {partition}, {offset}"
    cursor = connection.execute(f"SELECT {names} FROM {in_file(table)} ORDER BY {order}")
    cursor.arraysize = _AT_ONCE
    while rows := cursor.fetchmany():
        yield from rows


class SqliteLedgerReader:
    """The `LedgerReader` of an SQLite file, which it opens at first use.

    `busy_timeout` is in seconds.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 10.0) -> None:
        self._path = absolute(path)
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None

    @property
    def label(self) -> str:
        """The file, for display."""
        return f"SQLite file {self._path}"

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read the heads of all ledgers."""
        with self.translated():
            connection = self.connection()
            if not columns_of(connection, HEADS):
                raise SettingsError(
                    f"{self.label} has no ledger: table {HEADS} does not exist",
                    cause="no sink has written to it yet, or it is the wrong file",
                    fix="Name the file that was passed to SqliteSink",
                )
            return stored_ledgers(connection.execute(*SQL.all_heads()))

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Yield the applied batches of the ledger `key`."""
        with self.translated():
            rows = self.connection().execute(*SQL.applied_batches(*key))
            yield from map(read_applied_batch, rows)

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield the source offset of each row of a sink's table."""
        with self.translated():
            yield from row_origins(self.connection(), sink, columns)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connection(self) -> sqlite3.Connection:
        """Return a connection that cannot write.

        Raises SettingsError if the file does not exist, SinkError if it is unknown whether the file
        exists, and sqlite3.Error.
        """
        if self._connection is None:
            self._require_file()
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro",
                uri=True,
                timeout=self._busy_timeout,
                isolation_level=None,
            )
        return self._connection

    def translated(self) -> AbstractContextManager[None]:
        """Raise SinkError for an error of SQLite in the block."""
        return translated(self._path, waited=self._busy_timeout, reads=True)

    def _require_file(self) -> None:
        try:
            mode = self._path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise SettingsError(
                f"file {self._path} does not exist", fix="Name the file of the SqliteSink"
            ) from None
        except OSError as error:
            raise SinkError(
                f"cannot read {self._path}: {error.strerror}",
                cause="this user may not read one of its folders"
                if isinstance(error, PermissionError)
                else None,
                fix="Run the command as the user that runs the query, or check the path",
            ) from error
        if stat.S_ISDIR(mode):
            raise SettingsError(f"{self._path} is a folder", fix="Name the file of the SqliteSink")
