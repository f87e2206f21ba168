"""Append every event to its raw table, as it came: both tables in each batch.

A field that events begin to have becomes a column with their batch, while the query runs.

python -m examples.lakehouse.stream_write_raw localhost:9092 lake-data [--once]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import IcebergSink
from examples.lakehouse import settings

QUERY = "stream-write-raw"  # the ledger is kept under this name: never change it


def to_raw(records: DataFrame) -> list[DataFrame]:
    """Return the rows of each table: the fields of the event, and its origin."""
    schemas = {
        settings.FLIGHTS: settings.FLIGHT_SCHEMA,
        settings.WEATHER: settings.WEATHER_SCHEMA,
    }
    new = new_fields(records, schemas)
    return [
        raw(records, topic, ", ".join([schema, *new[topic]])) for topic, schema in schemas.items()
    ]


def new_fields(records: DataFrame, schemas: Mapping[str, str]) -> Mapping[str, list[str]]:
    """Return fields that the schemas lack, by topic: those of this batch's events, as text.

    They depend on the records alone: a batch that is repeated has the same columns.
    """
    fields = F.explode(F.json_object_keys(F.col("value").cast("string"))).alias("field")
    fields_now = records.select("topic", fields).distinct().collect()
    new: dict[str, list[str]] = {topic: [] for topic in schemas}
    for topic, field in sorted(tuple(row) for row in fields_now):
        if field not in settings.columns(schemas[topic]):
            name = field.replace("`", "``")
            new[topic].append(f"`{name}` string")
    return new


def raw(records: DataFrame, topic: str, schema: str) -> DataFrame:
    """The events of one topic."""
    event = F.from_json(F.col("value").cast("string"), schema)
    return (
        records.where(F.col("topic") == topic)
        .withColumn("event", event)
        .select("event.*", "topic", "partition", "offset", "timestamp")
    )


def start(servers: str, folder: Path, *, once: bool, per_trigger: int = 20_000) -> StreamingQuery:
    """Start the query."""
    sinks = [
        IcebergSink(
            table,
            partition_by="days(time_hour)",
            properties=settings.TABLE,
            new_columns=True,
        )
        for table in (settings.RAW_FLIGHTS, settings.RAW_WEATHER)
    ]
    return settings.start(servers, folder, QUERY, sinks, to_raw, once=once, per_trigger=per_trigger)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    start(sys.argv[1], Path(sys.argv[2]), once="--once" in sys.argv).awaitTermination()
