"""PostgreSQL by as many backends as tasks, beside Spark's own writer with as many tasks (B5b).

    python -m benchmarks.by_partition [ROUNDS] [ROWS] [CORES]

Real flights are read from Kafka as one batch of eight partitions, and parsed again by every arm:
`PostgresSink(atomicity="partition")` of all of `exactly_once`, and df.write.jdbc as it is and with
reWriteBatchedInserts, in turns (A B B A), into an emptied table without and with two indexes.
Reported are the medians of the paired ratios of rows a second with a bootstrap 95 % interval, and
beside them what PostgreSQL's processes have computed for a row. `CORES` are Spark's (2).

Every arm reads and parses all rows, and where Spark and PostgreSQL share the cores that alone may
take most of a batch. So the same frame is also written to Spark's noop format in each turn, and the
ratio is given twice: of whole batches, and of what is left of them without that.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Ratio, conclude, environment, print_table
from benchmarks.sink_arms import TABLE, Arm, Batch, Postgres
from benchmarks.sinks import DRIVER, Server, fill, jdbc, run, session, through
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.postgres import PostgresSink
from examples.demo.job import flights
from tests.artifacts import cache_folder, fetch
from tests.broker import DEFAULT, Broker

PARTITIONS = 8
INDEXED = ("tailnum", "scheduled")

OURS = "tasks, with the ledger"
PLAIN = "df.write.jdbc"
REWRITTEN = "df.write.jdbc, reWriteBatchedInserts"
READING = "read and parse alone"
TARGETS = {  # by the other arm, for writing: without indexes, with two
    PLAIN: (3.0, None),
    REWRITTEN: (1.5, None),
}


def server_seconds(server: Server) -> float:
    """CPU seconds of all of PostgreSQL's processes, those that have ended included."""
    first = psutil.Process(server.pid)
    own = first.cpu_times()
    total: float = own.user + own.system + own.children_user + own.children_system
    for child in first.children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it counts as ended next time
        total += times.user + times.system
    return total


class Bench:
    """Runs the rounds, inside the one batch of a query."""

    def __init__(self, rounds: int, rows: int, server: Server, console: Console) -> None:
        self._rounds, self._rows, self._server, self._console = rounds, rows, server, console
        self._postgres = Postgres(server.dsn())
        self._link = psycopg.connect(server.dsn(), autocommit=True)
        ours = exactly_once(
            PostgresSink(server.dsn(), TABLE, atomicity="partition", executor_rows=0),
            transform=flights,
        )
        self._plans = ours._plans
        url = server.jdbc_url
        runs: dict[str, Callable[[Batch], None]] = {
            OURS: through(ours),
            PLAIN: self._parsed(jdbc(url)),
            REWRITTEN: self._parsed(jdbc(url + "&reWriteBatchedInserts=true")),
            READING: self._parsed(read),
        }
        self.arms = {
            name: Arm(name=name, prepare=self._postgres.empty, run=run)
            for name, run in runs.items()
        }
        self.turns: dict[tuple[str, int], tuple[list[float], list[float]]] = {}
        self.reading: dict[tuple[str, int], list[float]] = {}
        self.cpu: dict[tuple[str, int], list[float]] = {}
        self.seconds: dict[tuple[str, int], list[float]] = {}
        self.again: list[tuple[float, float]] = []

    @staticmethod
    def _parsed(run: Callable[[Batch], None]) -> Callable[[Batch], None]:
        def parsed(batch: Batch) -> None:
            frame = flights(batch.frame)
            run(Batch(frame=frame, number=batch.number, plan=batch.plan))

        return parsed

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls; there is one batch."""
        batch = Batch(frame=frame, number=number, plan=self._plans.plan(frame, number))
        for arm in self.arms.values():  # ours makes the tables
            arm.measure(batch, count=False)
            there = 0 if arm.name == READING else self._rows
            assert self._postgres.count() == there, arm.name
        for indexes in (0, len(INDEXED)):
            for column in INDEXED[:indexes]:
                self._link.execute(f"CREATE INDEX ON {TABLE} ({column})".encode())
            for round_ in range(self._rounds):
                self._console.print(f"{indexes} indexes, round {round_ + 1} of {self._rounds}")
                for other in TARGETS:
                    self._turn(batch, other, indexes)

    def _turn(self, batch: Batch, other: str, indexes: int) -> None:
        """One turn, A B B A, with the reading before and after."""
        begun = self._measured(READING, batch, indexes)
        first, second, third, fourth = (
            self._measured(name, batch, indexes) for name in (other, OURS, OURS, other)
        )
        reading = (begun + self._measured(READING, batch, indexes)) / 2
        self.reading.setdefault((other, indexes), []).extend([reading, reading])
        mine, theirs = self.turns.setdefault((other, indexes), ([], []))
        mine += [second, third]
        theirs += [first, fourth]
        self.again.append((second, third))

    def _measured(self, name: str, batch: Batch, indexes: int) -> float:
        arm = self.arms[name]
        arm.prepare()
        before = server_seconds(self._server)
        took = arm.measure(batch, prepared=True)
        used = server_seconds(self._server) - before
        self.cpu.setdefault((name, indexes), []).append(used / self._rows * 1e6)
        self.seconds.setdefault((name, indexes), []).append(took)
        return took

    def ratios(self) -> list[Ratio]:
        """Of rows a second: the other's time over ours."""
        first, second = zip(*self.again, strict=True)
        found = [Ratio.of("A/A: our arm twice", first, second, same=True)]
        for (other, indexes), (mine, theirs) in self.turns.items():
            target = TARGETS[other][0 if indexes == 0 else 1]
            name = f"B5b: {indexes} indexes, tasks / {other}"
            found.append(Ratio.of(f"{name}: whole batches", theirs, mine))
            reading = self.reading[other, indexes]
            found.append(
                Ratio.of(f"{name}: writing", less(theirs, reading), less(mine, reading), target)
            )
        return found

    def close(self) -> None:
        self._link.close()
        self._postgres.close()


def read(batch: Batch) -> None:
    """Compute all rows and write none."""
    batch.frame.write.format("noop").mode("overwrite").save()


def less(times: list[float], reading: list[float]) -> list[float]:
    """Seconds that a batch takes beyond the reading, a hundredth at least."""
    return [max(0.01, time - beside) for time, beside in zip(times, reading, strict=True)]


def report(bench: Bench, rows: int, cores: int, console: Console) -> None:
    """Print tables, and write the document."""
    ratios = bench.ratios()
    print_table(console, "rows a second, ours / theirs: medians of paired ratios", ratios)
    table = Table(title="medians: seconds a batch, and CPU of all of PostgreSQL a row")
    for column in ("arm", "indexes", "seconds", "us a row"):
        table.add_column(column)
    for (name, indexes), used in bench.cpu.items():
        median = statistics.median(bench.seconds[name, indexes])
        table.add_row(name, str(indexes), f"{median:.2f}", f"{statistics.median(used):.2f}")
    console.print(table)
    about = {**environment(), "kafka": DEFAULT, "rows": rows, "spark cores": cores}
    cpu = {f"{name}, {indexes} indexes": used for (name, indexes), used in bench.cpu.items()}
    took = {f"{name}, {indexes} indexes": of for (name, indexes), of in bench.seconds.items()}
    name = f"by-partition-{rows}-{cores}"
    conclude(console, name, about, ratios, measured={"microseconds": cpu, "seconds": took})


def main(rounds: int = 1, rows: int = 400_000, cores: int = 2) -> None:
    console = Console()
    (jar,) = fetch([DRIVER], cache_folder() / "benchmarks" / "jdbc")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as broker,
        closing(Server()) as server,
    ):
        fill(broker.bootstrap_servers, rows, PARTITIONS)
        bench = Bench(rounds, rows, server, console)
        spark = session(jar, f"local[{cores}]")
        try:
            run(bench.batch, spark, broker.bootstrap_servers, Path(folder, "checkpoint"))
        finally:
            spark.stop()
            bench.close()
    report(bench, rows, cores, console)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
