"""A client of Spark Connect that adds the listener on its side; run by the test beside it."""

from __future__ import annotations

import logging
import sys

from pyspark.sql.connect.session import SparkSession

from eo_listener import OffsetCommitListener


def main(remote: str, servers: str, topic: str, group: str, checkpoint: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    spark = SparkSession.builder.remote(remote).getOrCreate()
    listener = OffsetCommitListener({"far": group}, bootstrap_servers=servers)
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.queryName("far")
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.streams.removeListener(listener)
    listener.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
