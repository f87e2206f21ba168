"""What another program sees in a database file, batches for it, and the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.ledger import Applied
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite.ledger_repair import SqliteLedgerRepair
from eo_listener.testing.made_up_entries import Row
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.other_writers import SqlStore
from tests.sinks.chapters.target_table import TP, SqlTarget, next_entry, write

__all__ = ["TP", "next_entry", "write"]


def ask(path: Path, sql: str) -> list[Any]:
    """Read with a connection of its own; one column comes without a tuple."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(sql).fetchall()
    return [row[0] for row in found] if found and len(found[0]) == 1 else found


def script(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def put(sink: SqliteSink, rows: pa.RecordBatch) -> Applied:
    return write(sink, ArrowFrame.of(rows))


def numbers(*values: int) -> ArrowFrame:
    """Rows of one column v: these, or as many as the only one says."""
    given = range(values[0]) if len(values) == 1 else values
    return ArrowFrame.rows("v bigint", *((one,) for one in given))


class SqliteTarget(SqlTarget):
    types = MappingProxyType(
        {"integer": "INTEGER", "long": "INTEGER", "string": "TEXT", "double": "REAL"}
    )
    key_rule = "NOT NULL UNIQUE"

    @pytest.fixture
    def _store(self, tmp_path: Path) -> None:
        self.folder, self.files = tmp_path, 0
        self.begin()

    def begin(self) -> None:
        self.files += 1
        self.path = self.folder / f"it's a #{self.files} 100% file?.db"

    def new_sink(self, **arguments: Any) -> SqliteSink:
        return SqliteSink(self.path, "t", **arguments)

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.path)) as link:
            if not link.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [table]).fetchall():
                return []
            found = link.execute(f'SELECT * FROM "{table}"')
            names = [one for one, *_ in found.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def run(self, statement: str) -> None:
        script(self.path, statement.format(table="t"))


class SqliteStore(SqlStore):
    name = "t's"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def make_sink(self) -> SqliteSink:
        return SqliteSink(self.path, "t's")

    def make_repair(self) -> SqliteLedgerRepair:
        return SqliteLedgerRepair(self.path)

    def rows(self) -> list[Row]:
        return ask(self.path, f"SELECT * FROM {self.table}")

    def run(self, statement: str) -> None:
        script(self.path, statement)

    def is_there(self) -> bool:
        return ask(self.path, "SELECT 1 FROM sqlite_schema WHERE name = 't''s'") != []


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(path)
    with made.opened:
        yield made
