"""One arm of a comparison, as a process of its own: a query of many small batches.

    python -m benchmarks.arm SERVERS TOPIC {none,ours,dead,ancestor} BATCHES

Prints one JSON document: batch durations in ms, as Spark reports them, and how long Spark's bus
thread was held by streaming listeners, in ms an event, as Spark's own timer saw it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from eo_listener import OffsetCommitListener, configure


class Ancestor(StreamingQueryListener):
    """The way it has been done for years: one consumer an event, committing on the bus thread."""

    def __init__(self, servers: str, group: str) -> None:
        self._settings = {"bootstrap.servers": servers, "group.id": group}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for source in event.progress.sources:
            ends = json.loads(source.endOffset)
            consumer = Consumer(self._settings)
            consumer.commit(
                offsets=[
                    TopicPartition(topic, int(partition), offset)
                    for topic, partitions in ends.items()
                    for partition, offset in partitions.items()
                ],
                asynchronous=False,
            )
            consumer.close()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def feed(servers: str, topic: str, stop: threading.Event) -> None:
    """Write a record every few milliseconds, so that every trigger finds something."""
    producer = Producer({"bootstrap.servers": servers})
    while not stop.wait(0.005):
        producer.produce(topic, b"x")
        producer.poll(0)
    producer.flush(10)


def _bus_class(spark: SparkSession) -> Any:
    """The class under which Spark times its streaming listeners; it moved in 4.1."""
    package = "org.apache.spark.sql.execution.streaming."
    moved = tuple(map(int, spark.version.split(".")[:2])) >= (4, 1)
    jvm: Any = spark._jvm
    name = f"{package}{'runtime.' if moved else ''}StreamingQueryListenerBus"
    return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


def main(servers: str, topic: str, arm: str, batches: str) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
    )
    spark = configure(builder).getOrCreate()
    group = f"bench-{uuid.uuid4()}"
    match arm:
        case "ours":
            spark.streams.addListener(OffsetCommitListener())
        case "dead":
            spark.streams.addListener(OffsetCommitListener(bootstrap_servers="127.0.0.1:1"))
        case "ancestor":
            spark.streams.addListener(Ancestor(servers, group))
        case _:
            pass
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(servers, topic, stop))
    feeder.start()
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("kafka.consumer.commit.groupid", group)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(prefix="bench-"))
        .start()
    )
    warm_up = 30
    # Not by recentProgress: pyspark would fetch hundreds of reports, and burden what is measured.
    wanted = int(batches) + warm_up
    while (last := query.lastProgress) is None or last["batchId"] + 1 < wanted:
        time.sleep(1.0)
    progress: list[Any] = list(query.recentProgress)
    stop.set()
    feeder.join()
    query.stop()
    bus = spark._jsc.sc().listenerBus()
    bus.waitUntilEmpty(30000)
    snapshot = bus.metrics().getTimerForListenerClass(_bus_class(spark)).get().getSnapshot()
    held = {
        "mean": snapshot.getMean() / 1e6,
        "median": snapshot.getMedian() / 1e6,
        "p99": snapshot.get99thPercentile() / 1e6,
    }
    durations = [p["durationMs"]["triggerExecution"] for p in progress[warm_up:]]
    print(json.dumps({"arm": arm, "batches": durations, "bus": held}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
