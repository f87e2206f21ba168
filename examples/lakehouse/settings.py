"""What all programs of the lakehouse share: names, table properties, and the Spark session."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from eo_listener import configure

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
    "spark.sql.extensions": ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "jdbc",
    "spark.sql.catalog.lake.jdbc.schema-version": "V1",  # without views Spark asks for them in vain
    "spark.sql.catalog.lake.cache-enabled": "false",  # else other sessions read what was before
}
TRIGGER: Final = "30 seconds"

_LINE: Final = ".".join(pyspark.__version__.split(".")[:2])
_SCALA: Final = "2.12" if _LINE == "3.5" else "2.13"
PACKAGES: Final = (
    f"org.apache.iceberg:iceberg-spark-runtime-{_LINE}_{_SCALA}:1.11.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)


def columns(schema: str) -> tuple[str, ...]:
    """The names in a schema."""
    return tuple(column.split()[0] for column in schema.split(", "))


def session(folder: Path, name: str) -> SparkSession:
    """Start Spark with the catalog `lake`: its tables in `folder`, its list of them in SQLite."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = folder.resolve()  # the catalog keeps the places of files as they are given
    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name).config("spark.jars.packages", ",".join(PACKAGES))
    for key, value in SPARK.items():
        builder = builder.config(key, value)
    builder = builder.config(
        "spark.sql.catalog.lake.uri", f"jdbc:sqlite:{folder / 'catalog.db'}"
    ).config("spark.sql.catalog.lake.warehouse", str(folder / "warehouse"))
    return configure(builder).getOrCreate()  # last: it adds the Kafka connector to the packages


def read_stream(spark: SparkSession, servers: str, per_trigger: int) -> DataFrame:
    """Read both topics from their start, so many records in a batch at most."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", f"{FLIGHTS},{WEATHER}")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(per_trigger))
        .load()
    )
