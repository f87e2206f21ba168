"""Rows that the transform marks, or the server refuses for their values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import PoisonRowError
from eo_listener.sinks.postgres import PostgresSink
from tests.sinks.chapters.dead_letters import RefusedRowsChapter
from tests.sinks.chapters.target_table import SparkRows
from tests.sinks.postgres.course import (
    STAGES,
    TP,
    WRITE_METHODS,
    PostgresTarget,
    ask,
    script,
    write,
)

pytestmark = [pytest.mark.spark]

TRACED = "topic string, partition int, offset bigint, id string, n int, eo_poison string"
LETTERS = 'SELECT topic, "partition", "offset", reason, "row" FROM dead ORDER BY "offset"'
TABLE = "CREATE TABLE t (id text PRIMARY KEY, n smallint CHECK (n <> 13))"


class TestAppended(PostgresTarget, RefusedRowsChapter):
    """Rows that are appended through the driver, without Spark."""


class TestUpserted(PostgresTarget, RefusedRowsChapter):
    """Rows that are upserted through the driver, without Spark."""

    mode = "upsert"


class TestStaged(SparkRows, PostgresTarget, RefusedRowsChapter):
    """Rows that the executors write."""

    @pytest.fixture(autouse=True)
    def _rows(self, spark: SparkSession) -> None:
        self.spark = spark

    def new_sink(self, **arguments: Any) -> PostgresSink:
        """With a staging table."""
        return super().new_sink(write_method="staging", **arguments)

    def test_over_the_limit_nothing_is_staged(self) -> None:
        """Rows are counted over all tasks, and the staging table is gone."""
        self.run("CREATE TABLE {table} (id int CHECK (id <> 13))")
        rows = self.spark.range(12).selectExpr("if(id % 2 = 0, 13, int(id)) id").repartition(3)
        with pytest.raises(PoisonRowError, match=r"6 rows .*check"):
            self.put_frame(self.letter_sink(max_dead_letters=5), rows)
        assert (self.read("id"), self.letters(), ask(self.dsn, STAGES)) == ([], [], [])
        assert self.put_frame(self.letter_sink(max_dead_letters=6), rows).dead_letters == 6


def traced(*rows: tuple[str | None, int | None, str | None]) -> list[tuple[Any, ...]]:
    return [(*TP, offset, *row) for offset, row in enumerate(rows)]


@WRITE_METHODS
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_each_bad_row_becomes_a_dead_letter(
    spark: SparkSession, dsn: str, write_method: Any, mode: Any
) -> None:
    """Marked, out of range, NUL, against a check, without its key: aside; others are written."""
    script(dsn, TABLE)
    keys = "id" if mode == "upsert" else ()
    sink = PostgresSink(
        dsn, "t", write_method=write_method, mode=mode, keys=keys, dead_letters="dead"
    )
    bad: list[tuple[str | None, int | None, str | None]] = [
        ("marked \t\\", 1, "no such\tairport"),
        ("huge", 40_000, None),
        ("nul\x00", 1, None),
        ("thirteen", 13, None),
        (None, 1, None),
    ]
    good = [(f"good {number}", number, None) for number in range(20, 60)]
    frame = spark.createDataFrame(traced(*good[:20], *bad, *good[20:]), TRACED).repartition(2)
    applied = write(sink, frame)
    assert (applied.rows, applied.dead_letters) == (40, 5)
    assert ask(dsn, "SELECT count(*) FROM t") == [40]
    letters = ask(dsn, LETTERS)
    assert [letter[:3] for letter in letters] == [(*TP, offset) for offset in range(20, 25)]
    assert letters[0][3] == "no such\tairport"
    assert json.loads(letters[0][4])["id"] == "marked \t\\"
    assert "smallint" in letters[1][3]
    assert "0x00" in letters[2][3]
    assert "check" in letters[3][3]
    assert "not-null" in letters[4][3]
    assert json.loads(letters[4][4])["id"] is None
    assert ask(dsn, "SELECT next_offset FROM eo_ledger") == [10]


def test_a_double_key_is_a_bad_row(spark: SparkSession, dsn: str) -> None:
    """A row whose key is there already, or twice in the batch, is a dead letter when appended."""
    script(dsn, TABLE, "INSERT INTO t VALUES ('there', 1)")
    sink = PostgresSink(dsn, "t", dead_letters="dead")
    rows = traced(("a", 1, None), ("there", 1, None), ("b", 2, None), ("a", 3, None))
    applied = write(sink, spark.createDataFrame(rows, TRACED).coalesce(1))
    assert (applied.rows, applied.dead_letters) == (2, 2)
    assert ask(dsn, 'SELECT "offset" FROM dead ORDER BY 1') == [1, 3]


def test_bytes_that_are_no_text(spark: SparkSession, dsn: str) -> None:
    """Bytes of a string that are not UTF-8, are dead letters with the bytes shown."""
    sink = PostgresSink(dsn, "t", dead_letters="dead")
    frame = spark.sql("SELECT id, cast(unhex('61FF62') AS string) AS s FROM range(2)")
    assert write(sink, frame).dead_letters == 2
    (row, topic), _ = ask(dsn, 'SELECT "row", topic FROM dead')
    assert "a\\xffb" in json.loads(row)["s"]
    assert topic is None
