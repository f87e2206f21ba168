"""A driver of its own: a query with a listener, until it is ended.

driver.py SERVERS TOPIC GROUP CHECKPOINT
"""

from __future__ import annotations

import sys

from eo_listener import OffsetCommitListener
from tests.spark_session import new_session


def main(servers: str, topic: str, group: str, checkpoint: str) -> None:
    """Run it."""
    spark = new_session()
    spark.streams.addListener(OffsetCommitListener())
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("eo.commit.group", group)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
