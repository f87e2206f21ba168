"""A program whose session is stopped under a query, and that goes on in another one.

    two_sessions.py SERVERS TOPIC GROUP FOLDER

As in a notebook: the same listener is added again, and a query with a new checkpoint takes the
place of the one that nobody ended. It prints what `flush` says of the second.
"""

from __future__ import annotations

import logging
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import OffsetCommitListener
from tests.spark_session import new_session
from tests.topics import Topics


def started(spark: SparkSession, name: str, arguments: tuple[str, ...]) -> StreamingQuery:
    servers, topic, group, folder = arguments
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("eo.commit.group", group)
        .load()
    )
    writer = source.writeStream.format("noop").queryName(name)
    return writer.option("checkpointLocation", f"{folder}/{name}").start()


def main(*arguments: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    topics = Topics(arguments[0])
    listener = OffsetCommitListener()
    spark = new_session()
    spark.streams.addListener(listener)
    topics.fill(arguments[1], 10)
    started(spark, "first", arguments).processAllAvailable()
    print("FLUSHED", listener.flush(), flush=True)  # noqa: T201  # what the test reads
    spark.stop()
    spark = new_session()
    spark.streams.addListener(listener)
    topics.fill(arguments[1], 40)
    started(spark, "second", arguments).processAllAvailable()
    print("FLUSHED", listener.flush(), flush=True)  # noqa: T201  # what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
