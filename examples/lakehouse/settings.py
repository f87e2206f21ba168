"""The shared parts of the lakehouse: names, properties, the session, the start of a query."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import IcebergSink, configure, exactly_once

FLIGHTS: Final = "flights"  # topics
WEATHER: Final = "weather"
RAW_FLIGHTS: Final = "lake.raw.flights"  # tables
RAW_WEATHER: Final = "lake.raw.weather"
HOURLY_WEATHER: Final = "lake.air.weather"
ENRICHED: Final = "lake.air.flights"

FLIGHT_SCHEMA: Final = (
    "time_hour timestamp, carrier string, flight int, revision int, tailnum string,"
    " origin string, dest string, distance int, dep_delay int, arr_delay int"
)
WEATHER_SCHEMA: Final = (
    "origin string, time_hour timestamp, temp double, wind_speed double, visib double"
)

TABLE: Final = {
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "snappy",
    "commit.manifest.target-size-bytes": "134217728",
}
SPARK: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.shuffle.partitions": "8",  # a stateful query could never change it
    "spark.sql.streaming.minBatchesToRetain": "10",  # of the checkpoint; what is older is deleted
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "jdbc",
    "spark.sql.catalog.lake.jdbc.schema-version": "V1",  # without views Spark asks for them in vain
    "spark.sql.catalog.lake.cache-enabled": "false",  # else other sessions read what was before
}
TRIGGER: Final = "30 seconds"

DATABASE: Final = "org.xerial:sqlite-jdbc:3.50.3.0"


def columns(schema: str) -> tuple[str, ...]:
    """The names in a schema."""
    return tuple(column.split()[0] for column in schema.split(", "))


def session(folder: Path, name: str) -> SparkSession:
    """Start Spark with the catalog `lake`: its tables in `folder`, its list of them in SQLite."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = folder.resolve()  # the catalog keeps the places of files as they are given
    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name).config("spark.jars.packages", DATABASE)
    for key, value in SPARK.items():
        builder = builder.config(key, value)
    builder = builder.config(
        "spark.sql.catalog.lake.uri", f"jdbc:sqlite:{folder / 'catalog.db'}"
    ).config("spark.sql.catalog.lake.warehouse", str(folder / "warehouse"))
    return configure(builder, iceberg=True).getOrCreate()  # last: it adds to the packages


def start(
    servers: str,
    folder: Path,
    name: str,
    sinks: Sequence[IcebergSink],
    transform: Callable[[DataFrame], list[DataFrame]],
    *,
    once: bool,
    per_trigger: int,
) -> StreamingQuery:
    """Start the query of this name, from the start of both topics, with a table for each sink.

    A batch has at most `per_trigger` records. With `once` the query ends when it has read all.
    """
    records = (
        session(folder, name)
        .readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", f"{FLIGHTS},{WEATHER}")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(per_trigger))
        .load()
    )
    writer = (
        records.writeStream.queryName(name)
        .foreachBatch(exactly_once(*sinks, transform=transform))
        .option("checkpointLocation", str(folder / "checkpoints" / name))
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=TRIGGER).start()
