"""Read a topic to its end: a job that does not mention eo_listener.

    spark-submit ... examples/plain_job.py localhost:9092 words

See README.md in this folder for the whole command.
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession


def main(servers: str, topic: str) -> None:
    """Process what the topic holds now."""
    spark = SparkSession.builder.appName("plain").getOrCreate()
    words = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        words.writeStream.queryName("plain")
        .format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="plain-"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
