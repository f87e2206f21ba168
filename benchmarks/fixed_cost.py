"""What exactly once costs a batch without rows: plan, guard and ledger (B8).

    python -m benchmarks.fixed_cost [ROUNDS] [SIZES...]

Under 5 minutes with 20 rounds of 1, 100, 1,000 and 5,000 partitions. A query reads a record a
batch; beside a function that does nothing, `exactly_once` is called in turns with a PostgreSQL
beside the driver and one 10 ms away (a proxy that delays each byte by 5 ms). Its sink does all
but read rows, of which there are none. Reported are medians, in ms, of what the function took.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.distance import away
from benchmarks.ratios import Figure, conclude, environment
from eo_listener import configure
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.postgres import PostgresSink
from tests.broker import DEFAULT, Broker
from tests.postgres_server import PostgresServer, with_schema
from tests.topics import Topics

SIZES: Final = (1, 100, 1_000, 5_000)
TARGETS: Final = {1: 15, 100: 25, 1_000: 120, 5_000: 500}  # ms, beside
MORE: Final = 120  # ms, for 10 ms of distance
WARM: Final = 3  # batches that do not count
Took = dict[str, list[float]]


class NoRows(PostgresSink):
    """A sink that does everything for a batch but fetch and copy rows."""

    def apply(self, frame: DataFrame, entry: Entry, plan: PlannedBatch) -> Applied:  # noqa: ARG002  # a sink is given it
        """Read the table, and write the ledger in a transaction."""
        writer = self._writer(entry.query)
        self._kept.ask(writer, lambda link: self._layout(link, frame, writer, direct=True))
        with writer.transaction(self._kept.connection(writer), entry) as counts:
            return counts.applied()


def timed(took: list[float], call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, with the time of each run recorded."""

    def run(*given: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*given)
        finally:
            took.append(1000 * (time.perf_counter() - began))

    return run


def fill(servers: str, topic: str, partitions: int, records: int) -> None:
    """Records of one partition among so many."""
    Topics(servers).create_as(topic, partitions)
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(records):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0


def measure(
    spark: SparkSession, servers: str, partitions: int, rounds: int, sinks: dict[str, NoRows]
) -> Took:
    """How long each function took in each batch, by its name; "plan" is a part of "beside"."""
    topic = f"bench-{partitions}"
    batches = rounds + WARM
    fill(servers, topic, partitions, batches)
    took: Took = defaultdict(list)
    ours = {name: exactly_once(sink, name=topic) for name, sink in sinks.items()}
    plans: Any = ours["beside"]._plans
    plans.plan = timed(took["plan"], plans.plan)
    arms = [(name, timed(took[name], one)) for name, one in ours.items()]
    arms.append(("nothing", timed(took["nothing"], lambda _frame, _number: None)))

    def write(frame: DataFrame, number: int) -> None:
        for _, arm in arms if number % 2 else reversed(arms):
            arm(frame, number)

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1)
        .load()
    )
    query = (
        records.writeStream.foreachBatch(write)
        .option("checkpointLocation", tempfile.mkdtemp(prefix="bench-"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for one in ours.values():
        one.close()
    return {name: times[WARM:] for name, times in took.items()}


def main(rounds: int, sizes: tuple[int, ...]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    console = Console(width=120)
    table = Table("partitions", "nothing", "plan", "beside", "10 ms away", "more")
    figures: list[Figure] = []
    measured: dict[str, Took] = {}
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "2g")
    )
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(java_options=["-Xmx1g"]))
        server = PostgresServer()
        stack.callback(server.close)
        server.start()
        near = with_schema(server.dsn(), "near")
        port = stack.enter_context(away("127.0.0.1", server.port, 0.005))
        far = with_schema(server.dsn(), "far").replace(f":{server.port}/", f":{port}/")
        spark = configure(builder).getOrCreate()
        stack.callback(spark.stop)
        for size in sizes:
            sinks = {"beside": NoRows(near, "t"), "away": NoRows(far, "t")}
            took = measure(spark, broker.bootstrap_servers, size, rounds, sinks)
            ms = {name: statistics.median(times) for name, times in took.items()}
            more = ms["away"] - ms["beside"]
            added = ms["beside"] - ms["nothing"]
            measured[str(size)] = took
            if size in TARGETS:
                name = f"B8: added, {size} partitions"
                figures.append(Figure(name=name, value=added, unit="ms", target=TARGETS[size]))
            name = f"B8: 10 ms away, {size} partitions: more"
            figures.append(Figure(name=name, value=more, unit="ms", target=MORE))
            table.add_row(
                f"{size:,}",
                *(f"{ms[name]:.1f}" for name in ("nothing", "plan", "beside", "away")),
                f"{more:.1f}",
            )
    console.print(f"B8: a batch without rows, in ms: medians of {rounds} batches", table)
    about = {**environment(), "kafka": DEFAULT}
    conclude(console, "fixed-cost", about, (), figures, measured=measured)


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    main(given[0] if given else 20, tuple(given[1:]) or SIZES)
