"""A batch that takes long to compute, on a cluster of eight cores, beside Spark's own writer (B13).

    python -m benchmarks.cluster [ROUNDS] [ROWS ...]

Sixteen Kafka partitions of one batch, three seconds of work for each. The work is sleep, so the
eight cores of `local-cluster[2,4,1024]` need not be there. Reported is the time of the sink over
that of df.write.jdbc for the same frame, in turns (A B B A): medians of the paired ratios with a
bootstrap 95 % interval.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console

from benchmarks.ratios import Ratio, conclude, environment, print_table
from benchmarks.sink_arms import TABLE, Arm, Batch, Postgres
from benchmarks.sinks import DRIVER, Server, fill, jdbc, run, session, through
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.postgres import PostgresSink
from tests.artifacts import cache_folder, fetch
from tests.broker import DEFAULT, Broker

PARTITIONS = 16
WORK = 3.0
ROWS = (24_000, 48_000, 2_500_000)
COLUMNS = "topic string, partition int, offset bigint, value string"
OURS = "sink"
BY_PARTITION = 'sink, atomicity="partition"'
JDBC = "df.write.jdbc"


def worked(frame: DataFrame) -> DataFrame:
    """The records, after three seconds of work in each task."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        time.sleep(WORK)
        yield from batches

    records = frame.selectExpr("topic", "partition", "offset", "string(value) AS value")
    return records.mapInArrow(work, COLUMNS)


class Bench:
    """Runs the rounds, inside the one batch of a query."""

    def __init__(self, rounds: int, rows: int, server: Server, console: Console) -> None:
        self._rounds, self._rows, self._console = rounds, rows, console
        self._postgres = Postgres(server.dsn())
        dsn = server.dsn()
        ours = exactly_once(PostgresSink(dsn, TABLE), transform=worked)
        tasks = exactly_once(
            PostgresSink(dsn, TABLE, atomicity="partition", executor_rows=0), transform=worked
        )
        self._plans = ours._plans
        write = jdbc(server.jdbc_url)
        runs: dict[str, Callable[[Batch], None]] = {
            OURS: through(ours),
            BY_PARTITION: through(tasks),
            JDBC: lambda batch: write(
                Batch(frame=worked(batch.frame), number=batch.number, plan=batch.plan)
            ),
        }
        self.arms = {
            name: Arm(name=name, prepare=self._postgres.empty, run=run)
            for name, run in runs.items()
        }
        self.turns: dict[str, tuple[list[float], list[float]]] = {}

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls; there is one batch."""
        batch = Batch(frame=frame, number=number, plan=self._plans.plan(frame, number))
        for arm in self.arms.values():  # ours makes the tables
            arm.measure(batch, count=False)
            assert self._postgres.count() == self._rows, arm.name
        for round_ in range(self._rounds):
            self._console.print(f"{self._rows} rows, round {round_ + 1} of {self._rounds}")
            for name in (OURS, BY_PARTITION):
                a, b = self.arms[name], self.arms[JDBC]
                first, second, third, fourth = (arm.measure(batch) for arm in (b, a, a, b))
                mine, theirs = self.turns.setdefault(name, ([], []))
                mine += [second, third]
                theirs += [first, fourth]

    def ratios(self) -> list[Ratio]:
        """Of seconds a batch, ours over theirs."""
        return [
            Ratio.of(f"B13: {self._rows} rows, {name} / JDBC", mine, theirs, 1.15, at_most=True)
            for name, (mine, theirs) in self.turns.items()
        ]

    def close(self) -> None:
        self._postgres.close()


def main(rounds: int = 1, *sizes: int) -> None:
    console = Console()
    (jar,) = fetch([DRIVER], cache_folder() / "benchmarks" / "jdbc")
    ratios: list[Ratio] = []
    seconds: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as broker,
        closing(Server()) as server,
    ):
        spark = session(jar, "local-cluster[2,4,1024]")
        try:
            for rows in sizes or ROWS:
                topic = f"flights-{rows}"
                fill(broker.bootstrap_servers, rows, PARTITIONS, topic)
                with closing(Bench(rounds, rows, server, console)) as bench:
                    checkpoint = Path(folder, topic)
                    run(bench.batch, spark, broker.bootstrap_servers, checkpoint, topic)
                ratios += bench.ratios()
                seconds |= {f"{rows}, {name}": arm.times for name, arm in bench.arms.items()}
        finally:
            spark.stop()
    print_table(console, "seconds a batch, ours / theirs: medians of paired ratios", ratios)
    console.print(seconds)
    about = {**environment(), "kafka": DEFAULT}
    conclude(console, "cluster", about, ratios, measured={"seconds": seconds})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
