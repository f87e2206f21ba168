"""DataFrames whose rows nobody could make a second time; `n`, the number of a row, stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.attack.kafka_sink.batches import MakeFrame

_TASKS: Final = 5


def plain(spark: SparkSession, batch: int, rows: int) -> Any:
    """In the order of rows, by a few keys."""
    return spark.range(0, rows, 1, _TASKS).selectExpr(
        "id AS n", "string(id % 7) AS key", f"concat('{batch}.', id) AS value"
    )


def by_chance(spark: SparkSession, batch: int, rows: int) -> Any:
    """With keys of chance, so that each attempt brings a row to another partition."""
    moved = spark.range(0, rows, 1, _TASKS).selectExpr("id", "rand() AS r").repartition(3, "r")
    return moved.selectExpr(
        "id AS n",
        "concat(uuid(), rand(), current_timestamp()) AS key",
        f"concat('{batch}.', id) AS value",
    )


def grouped(spark: SparkSession, batch: int, rows: int) -> Any:
    """Of a shuffle and without keys: which partition a row goes to is a matter of its place."""
    counted = spark.range(0, 2 * rows, 1, _TASKS).selectExpr("id DIV 2 AS n").groupBy("n").count()
    return counted.selectExpr("n", f"concat('{batch}.', n) AS value")


SHAPES: Final[Mapping[str, Any]] = {"plain": plain, "by chance": by_chance, "grouped": grouped}


def shaped(spark: SparkSession, shape: str) -> MakeFrame:
    make = SHAPES[shape]
    return lambda batch, rows: make(spark, batch, rows)
