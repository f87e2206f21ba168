"""Write each line of a Kafka topic into PostgreSQL, exactly once.

    python examples/exactly_once_postgres.py localhost:9092 words postgresql://localhost/postgres

Kill it at any moment and start it again, or delete its checkpoint: no line is lost or
written twice. See README.md in this folder.
"""

from __future__ import annotations

import logging
import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener import (
    OffsetCommitListener,
    PostgresSink,
    configure,
    exactly_once,
    starting_offsets,
)

QUERY = "lines"  # the ledger is kept under this name: never change it


def to_lines(records: DataFrame) -> DataFrame:
    """Return a row for each record: its origin, its text, and the number of words."""
    line = F.col("value").cast("string")
    return records.select(
        "topic",
        "partition",
        "offset",
        line.alias("line"),
        F.size(F.split(line, " ")).alias("words"),
    )


def main(servers: str, topic: str, dsn: str, checkpoint: str = "checkpoint-lines") -> None:
    """Write what the topic holds now into the table `lines`."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    spark = configure(SparkSession.builder.appName("lines")).getOrCreate()
    spark.streams.addListener(OffsetCommitListener())  # Kafka's tools see how far it is

    sink = PostgresSink(dsn, table="lines")  # or SqliteSink("lines.db", table="lines")
    begin = "earliest"
    if sink.applied(QUERY):  # without a checkpoint the query continues where the table ends
        begin = starting_offsets(ledger=sink, query=QUERY, topics=topic, bootstrap_servers=servers)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", begin)  # Spark ignores it if there is a checkpoint
        .option("kafka.consumer.commit.groupid", f"{topic}-to-postgres")
        .load()
        .writeStream.queryName(QUERY)
        .foreachBatch(exactly_once(sink, transform=to_lines))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    written = sum(head.range.until for head in sink.applied(QUERY).values())
    sink.close()
    print(f"{written} lines of {topic} are in the table, each once")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
