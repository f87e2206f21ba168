"""Of which offsets the rows of a table of Spark's are, as its own SQL says it too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import SettingsError
from eo_listener.sinks import spark_row_origins
from eo_listener.sinks.spark_row_origins import row_origins

pytestmark = pytest.mark.spark
COLUMNS = ("kafka.topic", "part`ition", "offset")
_SCHEMA = "`kafka.topic` string, `part``ition` int, offset bigint, word string"

Origin = tuple[Any, Any, Any]


def read(spark: SparkSession, rows: list[Origin]) -> Iterator[Origin]:
    frame = spark.createDataFrame([(*row, "w") for row in rows], _SCHEMA)
    return row_origins(frame.repartition(3), "t", COLUMNS)


def test_all_rows_in_the_order_of_offsets(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the ends of buckets, with gaps, and with rows that are there several times."""
    monkeypatch.setattr(spark_row_origins, "BUCKET", 10)
    chosen = random.Random(7)  # not a secret
    rows: list[Origin] = [
        (topic, partition, offset)
        for topic, partition in (("b", 0), ("b", 1), ("a", 0), ("B", 10))
        for offset in range(95, 131)
        for _ in range(chosen.choice((0, 1, 1, 1, 1, 2, 3)))
    ]
    rows += [("huge", 0, 2**62), ("huge", 0, 0)]
    assert list(read(spark, rows)) == sorted(rows)


def test_rows_without_an_origin_come_last(spark: SparkSession) -> None:
    """Each of them once, whichever of the three they lack; a table without rows has none."""
    lacking: list[Origin] = [(None, 0, 3), ("a", None, 3), ("a", 0, None), ("a", 0, None)]
    found = list(read(spark, [*lacking, ("a", 0, 3), ("b", 0, 1)]))
    assert found[:2] == [("a", 0, 3), ("b", 0, 1)]
    assert sorted(map(str, found[2:])) == sorted(map(str, lacking))
    assert list(read(spark, [])) == []


def test_what_is_no_number_is_no_origin(spark: SparkSession) -> None:
    """Columns of text that have numbers are read as such."""
    rows = [("a", "0", "12"), ("a", "0", "x")]
    frame = spark.createDataFrame(rows, "t string, p string, o string")
    assert list(row_origins(frame, "t", ("t", "p", "o"))) == [("a", 0, 12), ("a", 0, None)]


def test_a_column_that_is_not_there(spark: SparkSession) -> None:
    """Is one error, with what to type."""
    frame = spark.range(1).selectExpr("'a' topic", "0 partition")
    with pytest.raises(SettingsError, match=r"table t has no column 'offset'.*--columns"):
        list(row_origins(frame, "t", ("topic", "partition", "offset")))
