"""Reads the source offset of each row of a Spark table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from eo_listener.sinks.newest_row import require_origin_columns
from eo_listener.spark.jvm.calls import asking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKET: Final = 100_000
"""The number of offsets of a partition that one task sorts at a time."""


def row_origins(
    frame: DataFrame, table: str, columns: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and offset of each row, sorted; rows that lack one of them come last.

    Spark sorts the rows, in temporary files if there are many, and sends each series of consecutive
    offsets as one row. So the size of the result depends on the gaps, not on the number of rows.
    `columns` are the names of the three columns, `table` is for display. A partition or offset that
    is not a number counts as missing. Raises SettingsError if the table lacks one of the columns,
    and JvmError.
    """
    require_origin_columns(table, frame.columns, columns)
    with asking("count the rows of a table"):
        for topic, partition, first, last in _runs(frame, columns).toLocalIterator():
            for offset in (None,) if first is None else range(first, last + 1):
                yield topic, partition, offset  # type: ignore[misc]  # None if the row lacks it


def _runs(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return one row for each series of consecutive offsets; a repeated offset begins a new series.

    The series, sorted by start and end, then give all offsets in order.
    """
    from pyspark.sql import Window  # noqa: PLC0415  # no other ledger needs it
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # its usual name; as above

    topic, partition, offset = (f"`{name.replace('`', '``')}`" for name in columns)
    bucket = ["topic", "partition", "bucket"]
    rows = (
        frame.selectExpr(
            f"CAST({topic} AS STRING) AS topic",
            f"try_cast({partition} AS INT) AS partition",
            f"try_cast({offset} AS BIGINT) AS offset",
        )
        .withColumn("bucket", F.expr(f"offset DIV {BUCKET}"))
        .repartition(*bucket)  # Spark sorts once: the next steps need no other order
    )
    before = Window.partitionBy(*bucket).orderBy("offset")
    until_here = before.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    step = F.col("offset") - F.lag("offset").over(before)
    runs = (
        rows.withColumn("begins", F.when(step == 1, 0).otherwise(1))
        .withColumn("run", F.sum("begins").over(until_here))
        .groupBy(*bucket, "run")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    )
    lacking = F.expr("topic IS NULL OR partition IS NULL OR first IS NULL")
    return runs.orderBy(lacking, "topic", "partition", "first", "last").select(
        "topic", "partition", "first", "last"
    )
