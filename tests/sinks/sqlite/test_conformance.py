"""SqliteSink is a sink as every other, and its ledger from outside: read and repaired."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import FormatError, SettingsError
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import FRAME, Row
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.ledger_repair import LedgerRepairs
from tests.sinks.chapters.other_writers import RowOrigins
from tests.sinks.chapters.store import TP, frame_of
from tests.sinks.sqlite.database import SqliteStore, script


class TestSqliteSink(SinkConformance):
    """With the write-ahead log that a new file gets, and DataFrames of Spark."""

    pytestmark = pytest.mark.spark

    @pytest.fixture(autouse=True)
    def _frames(self, spark: SparkSession) -> None:
        self.spark = spark

    @pytest.fixture(autouse=True)
    def _store(self, path: Path) -> None:
        self.path = path

    def open_sink(self, target: str) -> SqliteSink:
        return SqliteSink(self.path, target)

    def read_rows(self, target: str) -> list[Row]:
        with closing(sqlite3.connect(self.path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema").fetchall()
            if (target,) not in tables:
                return []
            return connection.execute(f"SELECT * FROM {quoted(target)}").fetchall()

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return frame_of(self.spark, rows)


class TestWithRollbackJournal(TestSqliteSink):
    """A file that exists keeps its journal; without Spark."""

    @pytest.fixture(autouse=True)
    def _frames(self) -> None:
        pass

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return ArrowFrame.rows(FRAME, *rows)

    @pytest.fixture(autouse=True)
    def _journal(self, path: Path) -> None:
        script(path, "PRAGMA journal_mode = DELETE; CREATE TABLE mine (x)")

    def test_the_journal_is_kept(self) -> None:
        """What somebody has chosen for the file stays."""
        with self.opened() as sink:
            sink.applied("q")
        with closing(sqlite3.connect(self.path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchall() == [("delete",)]


class TestLedgerRepairs(LedgerRepairs):
    """In one transaction; see also `tests/cli/test_ledger.py`, whose commands repair such files."""


class TestRowOrigins(RowOrigins):
    """Topics that a collation takes for one stay apart."""

    text = "TEXT COLLATE NOCASE"


def test_a_file_is_never_written(store: SqliteStore, tmp_path: Path) -> None:
    """Neither one that is there, nor one that is not."""
    store.write({TP: OffsetRange(0, 5)})
    with closing(SqliteLedgerReader(store.path)) as reader:
        reader.ledgers()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.connection().execute("DELETE FROM eo_ledger")
    with pytest.raises(SettingsError, match="does not exist"):
        SqliteLedgerReader(tmp_path / "none.db").ledgers()
    assert not (tmp_path / "none.db").exists()


def test_a_ledger_of_a_newer_release(store: SqliteStore) -> None:
    """Is not read as if it were known."""
    store.write({TP: OffsetRange(0, 5)})
    store.run("UPDATE eo_ledger SET format = 2; UPDATE eo_ledger_history SET format = 2")
    with closing(SqliteLedgerReader(store.path)) as reader:
        with pytest.raises(FormatError, match="format 2"):
            reader.ledgers()
        with pytest.raises(FormatError, match="format 2"):
            list(reader.history(store.key()))
