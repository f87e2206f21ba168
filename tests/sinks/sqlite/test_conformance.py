"""SqliteSink is a sink as every other, with a write-ahead log and with a rollback journal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import FRAME, Row
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.sqlite.database import script

pytestmark = pytest.mark.spark


class TestSqliteSink(SinkConformance):
    """With the write-ahead log that a new file gets, and DataFrames of Spark."""

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
        """A DataFrame that the JVM makes by itself, in a tenth of the time of createDataFrame."""
        names = [field.split()[0] for field in FRAME.split(", ")]
        given = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
        sql = f"SELECT inline(from_json(:rows, 'array<struct<{FRAME}>>'))"
        return self.spark.sql(sql, args={"rows": given})


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
