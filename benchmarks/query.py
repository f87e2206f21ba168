"""The query that is measured, and listeners beside it.

Its batches are one record of each partition, back to back: nothing to do, or a second of work.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

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
from tests.topics import Topics

BATCHES = 20_000  # at most, of one query
PARTITIONS = 3
HASHES = 400_000  # of one record, in a second of work
Load = Literal["nothing", "second"]


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
    """The listener of an arm: ours, or the ancestor's way."""
    match arm:
        case "ours":
            return OffsetCommitListener()
        case "ancestor":
            return Ancestor(servers, group)
        case _:
            raise ValueError(arm)


def fill(servers: str, topic: str) -> None:
    """Write every record before the query starts, so that none of its batches waits for one."""
    Topics(servers).create_as(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for number in range(BATCHES * PARTITIONS):
        producer.produce(topic, b"x", partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


@contextmanager
def running(
    servers: str, topic: str, group: str, load: Load
) -> Iterator[tuple[SparkSession, StreamingQuery]]:
    """A session and its query, of which each batch does the same work as the one before."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(BATCHES))
    )
    spark = configure(builder).getOrCreate()
    try:
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", PARTITIONS)
            .option("kafka.consumer.commit.groupid", group)
            .load()
        )
        if load == "second":
            numbers = records.selectExpr("offset", f"explode(sequence(1, {HASHES})) AS number")
            records = numbers.selectExpr("sha2(concat(offset, number), 256) AS hash")
        yield (
            spark,
            records.writeStream.format("noop")
            .option("checkpointLocation", tempfile.mkdtemp(prefix="bench-"))
            .start(),
        )
    finally:
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
        time.sleep(0.2)


def durations(query: StreamingQuery) -> dict[int, int]:
    """How long each batch took, in ms, as Spark reports it, by its number."""
    progress: list[Any] = list(query.recentProgress)
    return {p["batchId"]: p["durationMs"]["triggerExecution"] for p in progress}
