"""The query that is measured: small batches back to back, and listeners beside it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener import OffsetCommitListener, configure

WARM_UP = 30  # batches


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


def listener(arm: str, servers: str, group: str) -> StreamingQueryListener:
    """The listener of an arm: ours, ours with Kafka's address dead, or the ancestor's way."""
    match arm:
        case "ours":
            return OffsetCommitListener()
        case "dead":
            return OffsetCommitListener(bootstrap_servers="127.0.0.1:1")
        case "ancestor":
            return Ancestor(servers, group)
        case _:
            raise ValueError(arm)


@contextmanager
def running(servers: str, topic: str, group: str) -> Iterator[tuple[SparkSession, StreamingQuery]]:
    """A session and its query, over a topic that is fed."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
    )
    spark = configure(builder).getOrCreate()
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(servers, topic, stop))
    feeder.start()
    try:
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
        yield spark, query
    finally:
        stop.set()
        feeder.join()
        spark.stop()


def wait_for(query: StreamingQuery, batches: int) -> int:
    """Wait until so many more batches are done, and return the last one's number.

    Not by recentProgress: pyspark would fetch hundreds of reports, and burden what is measured.
    """
    first = None
    while True:
        last = query.lastProgress
        if last is not None:
            first = last["batchId"] if first is None else first
            if last["batchId"] >= first + batches:
                return int(last["batchId"])
        time.sleep(0.5)


def durations(query: StreamingQuery) -> dict[int, int]:
    """How long each batch took, in ms, as Spark reports it, by its number."""
    progress: list[Any] = list(query.recentProgress)
    return {p["batchId"]: p["durationMs"]["triggerExecution"] for p in progress}


def _feed(servers: str, topic: str, stop: threading.Event) -> None:
    """Write a record every few milliseconds, so that every trigger finds something."""
    producer = Producer({"bootstrap.servers": servers})
    while not stop.wait(0.005):
        producer.produce(topic, b"x")
        producer.poll(0)
    producer.flush(10)
