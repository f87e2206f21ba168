"""SQLite as the chapters use it: a table in a file of the test's own; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite.ledger_repair import SqliteLedgerRepair
from eo_listener.testing.made_up_entries import Row
from tests.sinks.chapters.other_writers import SqlStore
from tests.sinks.sqlite.database import ask, script


class SqliteStore(SqlStore):
    """One table."""

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
    """A file that is not there yet."""
    made = SqliteStore(path)
    with made.opened:
        yield made
