"""From producer to consumer through a query: `KafkaSink` beside Spark's own sink (B11).

    python -m benchmarks.kafka_latency [ROUNDS] [SECONDS] [RECORDS A SECOND] [WARM-UP]

A producer sends at a steady rate; two queries that copy the same records take turns (A B B A),
each for so many seconds after a warm-up of 15, with batches back to back. A consumer under
read_committed takes the time of each record that comes out. Reported are the medians, over all
turns, of p50 and p99 in ms, and what exactly once adds to them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Figure, conclude, environment
from benchmarks.sinks import session
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.kafka import KafkaSink
from tests.broker import DEFAULT, Broker
from tests.topics import Topics

PARTITIONS: Final = 4
TARGET: Final = 60.0  # ms
LATEST: Final = 120.0  # seconds more to wait for a first record, on a busy machine
SOURCE: Final = "source"
OURS = "KafkaSink, executors"
SPARK = "Spark's sink, at least once"
TOPICS = {OURS: "exactly-once", SPARK: "at-least-once"}
ORDER = (SPARK, OURS, OURS, SPARK)


@contextmanager
def producing(servers: str, rate: int) -> Iterator[None]:
    """Send so many records a second, each with the time at which it was sent."""
    ended = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
        begun, sent = time.monotonic(), 0
        while not ended.is_set():
            while sent < (time.monotonic() - begun) * rate:
                producer.produce(SOURCE, str(time.time()), partition=sent % PARTITIONS)
                sent += 1
            producer.poll(0.002)
        producer.flush(30)

    thread = threading.Thread(target=send, name="producer")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def latencies(servers: str, topic: str, seconds: float) -> list[float]:
    """How old each record is that comes out within so many seconds, in ms; one at least."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest",
        "fetch.wait.max.ms": 10,
    }
    found: list[float] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([Wire(topic, number) for number in range(PARTITIONS)])
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end or (not found and now < end + LATEST):
            found += [
                1000 * (time.time() - float(message.value() or b""))
                for message in consumer.consume(1000, timeout=0.01)
                if message.error() is None
            ]
    assert found, f"nothing came out of {topic}"
    return found


def start(spark: SparkSession, servers: str, arm: str) -> StreamingQuery:
    """Start the query of an arm, at the end of the source."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "latest")
        .load()
        .select("key", "value")
        .writeStream.option("checkpointLocation", tempfile.mkdtemp(prefix="bench-"))
    )
    if arm == OURS:
        sink = KafkaSink(
            {"kafka.bootstrap.servers": servers}, TOPICS[arm], write_method="executors"
        )
        name = f"{TOPICS[arm]}-{time.monotonic_ns()}"  # of a query that has never run
        return records.foreachBatch(exactly_once(sink, name=name)).start()
    return (
        records.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", TOPICS[arm])
        .start()
    )


def turn(
    spark: SparkSession, servers: str, arm: str, seconds: float, warm_up: float
) -> tuple[float, float]:
    """Run the query of an arm; return p50 and p99."""
    query = start(spark, servers, arm)
    try:
        time.sleep(warm_up)
        found = sorted(latencies(servers, TOPICS[arm], seconds))
        error = query.exception()
        assert error is None, error
    finally:
        query.stop()
    return found[len(found) // 2], found[len(found) * 99 // 100]


def main(rounds: int = 2, seconds: int = 20, rate: int = 1000, warm_up: int = 15) -> None:
    console = Console(width=120)
    turns: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as broker:
        servers = broker.bootstrap_servers
        for topic in (SOURCE, *TOPICS.values()):
            Topics(servers).create_as(topic, PARTITIONS)
        spark = session()
        try:
            with producing(servers, rate):
                for arm in (OURS, SPARK):  # a warm-up of the whole
                    turn(spark, servers, arm, min(5, seconds), warm_up)
                for round_ in range(rounds):
                    console.print(f"round {round_ + 1} of {rounds}")
                    for arm in ORDER:
                        turns[arm].append(turn(spark, servers, arm, seconds, warm_up))
        finally:
            spark.stop()
    report(turns, rate, console)


def report(turns: dict[str, list[tuple[float, float]]], rate: int, console: Console) -> None:
    """Print the table, and write the document."""
    table = Table("arm", "p50, ms", "p99, ms", title="from producer to consumer (B11)")
    medians = {}
    for arm, found in turns.items():
        medians[arm] = tuple(statistics.median(part) for part in zip(*found, strict=True))
        table.add_row(arm, *(f"{value:.0f}" for value in medians[arm]))
    added = [ours - spark for ours, spark in zip(medians[OURS], medians[SPARK], strict=True)]
    table.add_row(f"added (target <= {TARGET:.0f})", *(f"{value:.0f}" for value in added))
    console.print(table)
    about = {**environment(), "kafka": DEFAULT, "records a second": rate}
    figures = [
        Figure(name=f"B11: added to {name}", value=value, unit="ms", target=TARGET)
        for name, value in zip(("p50", "p99"), added, strict=True)
    ]
    conclude(console, "kafka-latency", about, (), figures, measured={"turns": turns})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
