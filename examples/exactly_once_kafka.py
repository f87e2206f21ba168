"""Copy each line of a Kafka topic into another topic, with its number of words, exactly once.

    python examples/exactly_once_kafka.py localhost:9092 words words-counted

Kill it at any moment and start it again, or delete its checkpoint: a consumer with
isolation.level=read_committed gets each line once. See README.md in this folder.
"""

from __future__ import annotations

import logging
import os
import sys

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener import KafkaSink, configure, exactly_once, starting_offsets

QUERY = "words-counted"  # the ledger is kept under this name: never change it


def to_records(records: DataFrame) -> DataFrame:
    """Return a record for each record: its origin, its text, and the number of words."""
    line = F.col("value").cast("string")
    return records.select(
        "key",
        F.to_json(
            F.struct(
                "topic",
                "partition",
                "offset",
                line.alias("line"),
                F.size(F.split(line, " ")).alias("words"),
            )
        ).alias("value"),
    )


def require_topic(servers: str, topic: str) -> None:
    """Create the target topic if it does not exist: a sink does not."""
    admin = AdminClient({"bootstrap.servers": servers})
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, num_partitions=4)])[topic].result(30)


def main(servers: str, source: str, target: str, checkpoint: str = "checkpoint-words") -> None:
    """Write what the source holds now into the target."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    require_topic(servers, target)

    spark = configure(SparkSession.builder.appName("words-counted")).getOrCreate()
    sink = KafkaSink(
        {"kafka.bootstrap.servers": servers},  # and whatever else Spark's own sink is given
        target,
        group=f"{source}-to-{target}",  # moved in the same transaction: Kafka's tools see it
        write_method="executors",  # the rows never leave Spark's JVMs
    )
    begin = "earliest"
    if sink.applied(QUERY):  # without a checkpoint the query continues where the ledger ends
        begin = starting_offsets(ledger=sink, query=QUERY, topics=source, bootstrap_servers=servers)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", begin)  # Spark ignores it if there is a checkpoint
        .load()
        .writeStream.queryName(QUERY)
        .foreachBatch(exactly_once(sink, transform=to_records))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    applied = sum(head.range.until for head in sink.applied(QUERY).values())
    sink.close()
    spark.stop()
    print(f"{applied} lines of {source} are in {target}, each once")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
