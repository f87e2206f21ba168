"""A user's program with a listener, run by test_exits as a process of its own.

    program.py SERVERS TOPIC GROUP FOLDER ENDING [LISTENER_SERVERS]

It processes all that is there, prints END and the time, and ends in the way that ENDING says.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import OffsetCommitListener
from tests.spark_session import new_session
from tests.topics import Topics


def processed(
    spark: SparkSession, servers: str, topic: str, group: str, checkpoint: str
) -> StreamingQuery:
    """Start a query, and return it when it has processed all that is there."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("eo.commit.group", group)
        .load()
    )
    query = source.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    return query


def main(
    servers: str, topic: str, group: str, folder: str, ending: str, listen: str | None = None
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = new_session()
    listener = OffsetCommitListener(bootstrap_servers=listen, flush_timeout=5.0)
    spark.streams.addListener(listener)
    query = processed(spark, servers, topic, group, f"{folder}/first")
    print("END", time.time(), flush=True)  # noqa: T201  # what the test waits for
    match ending:
        case "query-then-spark":
            query.stop()
            spark.stop()
        case "spark-only":
            spark.stop()
        case "query-only":
            query.stop()
        case "close-first":
            listener.close()
            query.stop()
            spark.stop()
        case "close-last":
            query.stop()
            spark.stop()
            listener.close()
        case "another-session":  # as in a notebook, with the same listener
            print("FLUSHED", listener.flush())  # noqa: T201  # what the test reads
            spark.stop()
            spark = new_session()
            spark.streams.addListener(listener)
            Topics(servers).fill(topic, 40)
            processed(spark, servers, topic, group, f"{folder}/second")
            print("FLUSHED", listener.flush())  # noqa: T201  # what the test reads
        case "error":
            raise SystemExit(7)
        case "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        case "nothing":
            pass
        case _:
            raise ValueError(ending)


if __name__ == "__main__":
    main(*sys.argv[1:])
