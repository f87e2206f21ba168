"""Kafka to Kafka exactly once, beside Spark's own Kafka sink (B4a, B4b, B4c).

    python -m benchmarks.kafka_sink [BATCHES] [ROWS OF 100 BYTES] [ROWS OF 1,000 BYTES]

With 0 rows a size is left out; others are rounded up to a multiple of the twelve tasks. The rows of
each batch are cached. Then `KafkaSink`, through `exactly_once` with guard and ledger, and Spark's
own sink write them in turns, each to a topic of its own with four partitions; every other batch in
the opposite order. Reported are the medians of the paired ratios of rows a second, with a bootstrap
95 % interval. Spark's sink with the same settings writes each batch first and last: both are a pair
as well (A/A), which tells how far the machine can be trusted, and their mean is what the others are
compared with. B4c are batches without rows, in ms, and where their time goes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import OFFSET_END, Producer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Ratio, conclude, environment, print_table
from benchmarks.sinks import run, session
from benchmarks.steps import Write, timed, timed_steps
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.kafka import KafkaSink
from tests.broker import DEFAULT, Broker
from tests.topics import Topics

PARTITIONS: Final = 4  # of each target
TASKS: Final = 12  # that read a batch, a partition of the source each
WARM: Final = 2  # batches that do not count
EMPTY: Final = 10  # batches without rows
SEGMENT: Final = 256 << 20  # bytes of a target's log that are deleted together
SESSION: Final = {
    # With local[n], see docs/how-to/kafka.md, a task's rows come to the driver's Python directly.
    "spark.task.maxDirectResultSize": "1g",
    "spark.rpc.message.maxSize": "1024",
}
SMALL: Final = 100 << 20  # bytes of a batch for which little memory will do
TUNED: Final = {"kafka.linger.ms": "20", "kafka.batch.size": "1000000"}

OURS = "KafkaSink, executors"
DRIVER = "KafkaSink, driver"
SPARK = "Spark's sink, the same settings"
DEFAULTS = "Spark's sink, its defaults"
AGAIN = "Spark's sink, once more"
# name, ours, the others, of which the mean counts, target
PAIRS = (
    ("A/A: Spark's sink twice", AGAIN, (SPARK,), None),
    ("B4a: executors / Spark's sink, the same settings", OURS, (SPARK, AGAIN), 0.9),
    ("B4a: driver / Spark's sink, the same settings", DRIVER, (SPARK, AGAIN), 0.5),
    ("B4b: executors / Spark's sink, its defaults", OURS, (DEFAULTS,), None),
)
STEPS: Final = {  # what has been done when a fault point is reached
    "batch.planned": "Spark and Kafka asked for the plan",
    "batch.judged": "ledger read, batch judged",
    "sink.fenced": "initTransactions",
    "sink.ledger-read": "ledger read once more",
    "sink.begun": "target topics described, transaction begun",
    "sink.copying": "tasks given the transaction",
    "sink.rows-written": "Spark's job",
    "sink.ledger-moved": "ledger's record sent",
    "sink.commit-sent": "transaction and topics described",
    "sink.committed": "committed",
    "batch.applied": "producer closed",
}
Times = defaultdict[str, list[float]]


class Bench:
    """Writes each batch of a query by every arm."""

    def __init__(self, servers: str, batches: int, rows: int, size: int, console: Console) -> None:
        self._servers, self._rows, self._size = servers, rows, size
        self._full = WARM + batches
        self._console = console
        self._topics, self._targets = Topics(servers), list[str]()
        self.source = f"source-{size}"
        self.batches = self._full + 1 + EMPTY
        arms: dict[str, Write] = {
            SPARK: self._spark(self._topic("spark"), TUNED),
            OURS: self._sink(self._topic("executors"), "executors"),
            DRIVER: self._sink(self._topic("driver"), "driver"),
            DEFAULTS: self._spark(self._topic("defaults"), {}),
        }
        self._arms = {**arms, AGAIN: arms[SPARK]}
        self.seconds: Times = defaultdict(list)
        self.empty: Times = defaultdict(list)  # ms
        self.steps: Times = defaultdict(list)  # ms

    def fill(self) -> None:
        """One record of each partition a batch; each becomes many rows."""
        self._topics.create_as(self.source, TASKS)
        producer = Producer({"bootstrap.servers": self._servers})
        for number in range(self.batches * TASKS):
            producer.produce(self.source, b"x", partition=number % TASKS)
        assert producer.flush(60) == 0

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls."""
        rows = frame.selectExpr(f"explode(sequence(1, {self._rows // TASKS})) AS number")
        value = f"lpad(string(number), {self._size}, '0') AS value"
        cached = rows.selectExpr("string(number % 1000) AS key", value).persist()
        try:
            if number < self._full:
                assert cached.count() == self._rows
                self._measure(cached, number)
            else:
                self._measure_empty(cached.where("false"), number)
        finally:
            cached.unpersist()
        if number == 0:
            self._check(frame.sparkSession)
        self._forget()

    def _measure(self, frame: DataFrame, number: int) -> None:
        self._console.print(f"{self._size} bytes, batch {number + 1} of {self._full}")
        for name in list(self._arms)[:: -1 if number % 2 else 1]:
            took = timed(self._arms[name], frame, number)
            if number >= WARM:
                self.seconds[name].append(took)

    def _measure_empty(self, frame: DataFrame, number: int) -> None:
        for name in (SPARK, OURS, DRIVER):
            took, steps = timed_steps(self._arms[name], frame, number)
            if number == self._full:
                continue
            self.empty[name].append(1000 * took)
            for point, seconds in steps if name == OURS else ():
                self.steps[point].append(1000 * seconds)

    def _check(self, spark: SparkSession) -> None:
        """See that every arm has written all rows."""
        for topic, times in (("spark", 2), ("executors", 1), ("driver", 1), ("defaults", 1)):
            records = (
                spark.read.format("kafka")
                .option("kafka.bootstrap.servers", self._servers)
                .option("kafka.isolation.level", "read_committed")
                .option("subscribe", f"{topic}-{self._size}")
                .load()
            )
            there = records.count()
            assert there == times * self._rows, (topic, there)

    def _topic(self, arm: str) -> str:
        topic = f"{arm}-{self._size}"
        self._topics.create_as(topic, PARTITIONS, segment_bytes=str(SEGMENT))
        self._targets.append(topic)
        return topic

    def _forget(self) -> None:
        """Delete what was written: a batch of every arm may be 6 GB."""
        every = dict.fromkeys(range(PARTITIONS), OFFSET_END)
        for topic in self._targets:
            self._topics.forget_before(topic, every)

    def _sink(self, topic: str, method: Literal["driver", "executors"]) -> Write:
        options = {"kafka.bootstrap.servers": self._servers, **TUNED}
        return exactly_once(KafkaSink(options, topic, write_method=method), name=topic)

    def _spark(self, topic: str, settings: dict[str, str]) -> Write:
        def write(frame: DataFrame, _: int) -> None:
            (
                frame.write.format("kafka")
                .option("kafka.bootstrap.servers", self._servers)
                .options(**settings)
                .option("topic", topic)
                .save()
            )

        return write

    def ratios(self) -> list[Ratio]:
        """Of rows a second: the other's time over ours."""
        return [
            Ratio.of(
                f"{name}, {self._size} bytes",
                [
                    statistics.fmean(times)
                    for times in zip(*(self.seconds[one] for one in others), strict=True)
                ],
                self.seconds[ours],
                target,
                same=ours == AGAIN,
            )
            for name, ours, others, target in PAIRS
        ]


def report(bench: Bench, rows: int, size: int, console: Console) -> None:
    """Print tables, and write the document."""
    ratios = bench.ratios()
    print_table(console, "rows a second, ours / theirs: medians of paired ratios", ratios)
    table = Table(title=f"{size} bytes: medians; and a batch without rows (B4c)")
    for column in ("arm", "rows/s", "seconds", "without rows, ms"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for name, times in bench.seconds.items():
        took = statistics.median(times)
        empty = f"{statistics.median(bench.empty[name]):.0f}" if name in bench.empty else ""
        table.add_row(name, f"{rows / took:,.0f}", f"{took:.1f}", empty)
    console.print(table)
    steps = Table("step", "ms", title=f"a batch without rows, {OURS}: medians")
    for point, text in STEPS.items():
        if point in bench.steps:
            steps.add_row(text, f"{statistics.median(bench.steps[point]):.1f}")
    console.print(steps)
    about = {**environment(), "kafka": DEFAULT, "rows": rows, "bytes": size}
    measured = {"seconds": bench.seconds, "empty": bench.empty, "steps": bench.steps}
    conclude(console, f"kafka-sink-{size}", about, ratios, measured=measured)


def memory(largest: int) -> dict[str, str]:
    """Spark's settings for the cached rows of a batch in memory, as an executor has them.

    All of it from the beginning: memory that is taken from the system meanwhile costs as much as
    the writing.
    """
    size = "1g" if largest < SMALL else "9g"
    return {"spark.driver.memory": size, "spark.driver.extraJavaOptions": f"-Xms{size}"}


def main(batches: int = 4, small: int = 2_400_000, large: int = 480_000) -> None:
    console = Console(width=120)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker(
            java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"],
            properties={"log.retention.check.interval.ms": "5000"},  # deletes what is forgotten
        ) as broker,
    ):
        servers = broker.bootstrap_servers
        sizes = [(size, -(-rows // TASKS) * TASKS) for size, rows in ((100, small), (1000, large))]
        largest = max(size * rows for size, rows in sizes)
        spark = session(conf={**SESSION, **memory(largest)})
        try:
            for size, rows in sizes:
                if not rows:
                    continue
                bench = Bench(servers, batches, rows, size, console)
                bench.fill()
                run(
                    bench.batch,
                    spark,
                    servers,
                    Path(folder, str(size)),
                    bench.source,
                    maxOffsetsPerTrigger=TASKS,  # a record of each
                )
                report(bench, rows, size, console)
        finally:
            spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
