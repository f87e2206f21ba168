"""Count words of a Kafka topic, and let Kafka's tools see how far the query is.

    python examples/commit_offsets.py localhost:9092 words

See README.md in this folder.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile

from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener, configure


def main(servers: str, topic: str) -> None:
    """Process what the topic holds now, and print the ten most frequent words."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    builder = SparkSession.builder.appName("words").config("spark.sql.shuffle.partitions", "2")
    spark = configure(builder).getOrCreate()  # adds the Kafka connector for this Spark
    spark.streams.addListener(OffsetCommitListener())  # this line, and the option below

    words = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.consumer.commit.groupid", f"{topic}-counter")
        .load()
        .selectExpr("explode(split(cast(value as string), ' ')) as word")
    )
    query = (
        words.groupBy("word")
        .count()
        .writeStream.queryName("words")
        .outputMode("complete")
        .format("memory")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="words-"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for row in spark.sql(
        "select word, count from words order by count desc, word limit 10"
    ).collect():
        print(f"{row['count']:6d}  {row['word']}")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
