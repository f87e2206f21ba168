"""Count the records of a topic on a Spark Connect server, and commit from this client.

    python examples/connect_client.py sc://localhost:15002 localhost:9092 words

No JVM can be asked here for a query's options, so servers and groups are named. If you can
configure the server, give it the listener instead (spark-defaults.conf): it sees all queries.
"""

from __future__ import annotations

import logging
import sys
import tempfile

from pyspark.sql.connect.session import SparkSession

from eo_listener import OffsetCommitListener


def main(remote: str, servers: str, topic: str) -> None:
    """Process what the topic holds now."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    spark = SparkSession.builder.remote(remote).getOrCreate()
    listener = OffsetCommitListener({"far": f"{topic}-far"}, bootstrap_servers=servers)
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.queryName("far")
        .format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="far-"))  # a folder of the server's
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    listener.close()  # not removeListener: it can wait forever (SPARK-59623)
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
