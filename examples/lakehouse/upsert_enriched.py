"""Keep one row a flight, its newest, with the weather at its departure and its airports' names.

    python -m examples.lakehouse.upsert_enriched localhost:9092 lake-data [--once]

Whatever comes late, twice or corrected, in whatever order, the table ends the same: a row has a
version, and only a newer one replaces it. The weather may come after the flight: then the flight's
row is written again, with the weather, as a newer version.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import IcebergSink
from examples.lakehouse import settings
from examples.lakehouse.events import airports
from examples.lakehouse.stream_write_raw import raw

QUERY = "upsert-enriched"  # the ledger is kept under this name: never change it
KEY = ("time_hour", "carrier", "flight")
HOUR = ("origin", "time_hour")
_MEASURED = ("temp", "wind_speed", "visib")
_FLIGHT = settings.columns(settings.FLIGHT_SCHEMA)


def to_enriched(records: DataFrame) -> list[DataFrame]:
    """The rows of both tables: the weather that is new, and the flights that it or they change."""
    spark = records.sparkSession
    flights = raw(records, settings.FLIGHTS, settings.FLIGHT_SCHEMA).select(*_FLIGHT)
    weather = raw(records, settings.WEATHER, settings.WEATHER_SCHEMA).select(*HOUR, *_MEASURED)
    weather = weather.dropDuplicates([*HOUR])
    changed = flights.unionByName(_waiting(spark, weather))
    return [weather, enriched(changed, _all_weather(spark, weather), _airports(spark))]


def enriched(flights: DataFrame, weather: DataFrame, names: DataFrame) -> DataFrame:
    """Join the weather and the names, and give each row its version."""
    with_marker = weather.withColumn("weather", F.lit(1))
    joined = flights.join(with_marker, list(HOUR), "left")
    for end in ("origin", "dest"):
        of_end = names.select(F.col("faa").alias(end), F.col("name").alias(f"{end}_name"))
        joined = joined.join(F.broadcast(of_end), end, "left")
    version = F.col("revision") * 2 + F.coalesce("weather", F.lit(0))
    columns = [*_FLIGHT, *_MEASURED, "origin_name", "dest_name"]
    return joined.select(*columns, version.alias("version"))


def _waiting(spark: SparkSession, weather: DataFrame) -> DataFrame:
    """The flights in the table whose weather has come only now."""
    none = spark.createDataFrame([], settings.FLIGHT_SCHEMA)
    if not spark.catalog.tableExists(settings.ENRICHED):
        return none
    stored = spark.table(settings.ENRICHED)
    names = [name for name in _FLIGHT if name in stored.columns]  # others are new in the schema
    flights = none.unionByName(stored.select(*names), allowMissingColumns=True)
    return flights.join(weather, list(HOUR), "left_semi")


def _all_weather(spark: SparkSession, new: DataFrame) -> DataFrame:
    """The weather in the table, and the new; a batch that is repeated may find its own there."""
    if not spark.catalog.tableExists(settings.HOURLY_WEATHER):
        return new
    stored = spark.table(settings.HOURLY_WEATHER).select(*new.columns)
    return stored.unionByName(new).dropDuplicates([*HOUR])


def _airports(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(airports(), "faa string, name string")


def start(servers: str, folder: Path, *, once: bool, per_trigger: int = 20_000) -> StreamingQuery:
    """Start the query."""
    sinks = [
        IcebergSink(settings.HOURLY_WEATHER, mode="upsert", keys=HOUR, properties=settings.TABLE),
        IcebergSink(
            settings.ENRICHED,
            mode="upsert",
            keys=KEY,
            version_column="version",
            properties=settings.TABLE,
        ),
    ]
    return settings.start(
        servers, folder, QUERY, sinks, to_enriched, once=once, per_trigger=per_trigger
    )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    start(sys.argv[1], Path(sys.argv[2]), once="--once" in sys.argv).awaitTermination()
