"""A client of Spark Connect that runs a query with exactly_once, up to what is there now.

python -m tests.foreach_batch.far_query REMOTE SERVERS TOPIC FOLDER MODE [SINK]

SINK is a path for SQLite, a dsn of PostgreSQL, or kafka:TARGET for a topic of SERVERS; without it
the rows go into files. In the mode quiet the query starts at the latest offsets, and its function
returns by itself without rows. In the mode files TOPIC is a folder of text files, which is read in
the place of Kafka, one a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from eo_listener import KafkaSink, PostgresSink, SqliteSink, exactly_once
from eo_listener.model.protocols import Sink
from tests.foreach_batch.file_sink import FileSink


def open_sink(folder: Path, servers: str, where: str) -> Sink:
    """The sink that is meant."""
    if not where:
        return FileSink(folder / "sink")
    if where.startswith("kafka:"):
        options = {"kafka.bootstrap.servers": servers}
        return KafkaSink(options, where.removeprefix("kafka:"), group="far-group")
    return PostgresSink(where, "t") if "://" in where else SqliteSink(where, "t")


def read(spark: SparkSession, servers: str, topic: str, mode: str) -> Any:
    """The stream that is meant."""
    if mode == "files":
        return spark.readStream.option("maxFilesPerTrigger", 1).text(topic)
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "latest" if mode == "quiet" else "earliest")
        .load()
        .selectExpr("partition", "offset", "string(value)")
    )


def main(remote: str, servers: str, topic: str, folder: str, mode: str, where: str = "") -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    checkpoint = f"{folder}/checkpoint"
    given = {} if mode == "bare" else {"name": "far", "checkpoint": checkpoint}
    if mode == "asking":
        given["options"] = {"kafka.bootstrap.servers": servers}  # type: ignore[assignment]  # of another kind
    alone = mode == "files" or where.startswith("kafka:")
    columns = ["value"] if alone else ["partition", "offset", "value"]
    function = exactly_once(open_sink(Path(folder), servers, where), **given)  # type: ignore[arg-type]  # as above

    def with_rows(frame: DataFrame, batch_id: int) -> None:
        if not frame.isEmpty():
            function(frame, batch_id)

    quiet = mode == "quiet"
    query = (
        read(spark, servers, topic, mode)
        .select(*columns)
        .writeStream.foreachBatch(with_rows if quiet else function)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error)  # noqa: T201  # read by the test
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
