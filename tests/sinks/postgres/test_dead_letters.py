"""Rows that the transform marks, or the server refuses for their values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import PoisonRowError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.course import STAGES, TP, WRITE_METHODS, ask, script, write

pytestmark = [pytest.mark.spark]

TRACED = "topic string, partition int, offset bigint, id string, n int, eo_poison string"
LETTERS = 'SELECT topic, "partition", "offset", reason, "row" FROM dead ORDER BY "offset"'
TABLE = "CREATE TABLE t (id text PRIMARY KEY, n smallint CHECK (n <> 13))"


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


@WRITE_METHODS
def test_without_a_table_the_batch_fails(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """The first bad row is named with its offset, and neither rows nor ledger are written."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t", write_method=write_method)
    rows = traced(("a", 1, None), ("b", 40_000, None), ("c", 2, None), ("d", 13, None))
    with pytest.raises(PoisonRowError, match=r"offset 1 of flights-0.*smallint") as caught:
        write(sink, spark.createDataFrame(rows, TRACED).coalesce(1))
    assert caught.value.partition == TP
    assert caught.value.offset == 1
    assert ask(dsn, "SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}


@WRITE_METHODS
def test_too_many_bad_rows_fail(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """They are counted over the whole batch: nothing is written, and the error says why without a
    value.
    """
    script(dsn, TABLE)
    sink = PostgresSink(
        dsn, "t", write_method=write_method, dead_letters="dead", max_dead_letters=0.5
    )
    good = [(f"good {number}", number, None) for number in range(20, 34)]
    bad = [("huge", 40_007, None), *((f"bad {number}", 13, None) for number in range(15))]
    frame = spark.createDataFrame(traced(*good, *bad), TRACED).repartition(3)
    with pytest.raises(PoisonRowError, match=r"16 rows of 30 .*\(15 times\): .*check") as failed:
        write(sink, frame)
    assert failed.value.partition == TP
    assert "40007" not in str(failed.value)
    assert ask(dsn, "SELECT * FROM t") == ask(dsn, "SELECT * FROM dead") == []
    assert sink.applied(QUERY) == {}
    assert ask(dsn, STAGES) == []
    more = spark.createDataFrame(traced(*good, *bad, ("more", 1, None), ("again", 2, None)), TRACED)
    assert write(sink, more.repartition(3)).dead_letters == 16
    assert ask(dsn, "SELECT count(*) FROM dead") == [16]


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


def test_dead_letters_go_with_the_transaction(spark: SparkSession, dsn: str) -> None:
    """A batch that fails later leaves no dead letter behind."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t", dead_letters="dead", apply=["SELECT 1 / 0"])
    rows = traced(("a", 1, "marked"))
    with pytest.raises(Exception, match="division"):
        write(sink, spark.createDataFrame(rows, TRACED))
    assert ask(dsn, "SELECT * FROM dead") == []
