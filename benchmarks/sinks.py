"""What exactly once costs: the sinks beside the same rows written bare (B5a, B6).

    python -m benchmarks.sinks [ROUNDS] [ROWS]

Real flights are read from Kafka as one batch, which is cached. Within that batch each sink, through
`exactly_once` with guard and ledger, and each way to write the same rows without them take turns
(A B B A), into emptied tables. Reported are the medians of the paired ratios of rows a second,
with a bootstrap 95 % interval; the two runs of a bare arm in a round are a pair as well (A/A), and
show how far the machine can be trusted. JDBC is run in every other round only: it is slow.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Ratio, conclude, environment, print_table
from benchmarks.sink_arms import TABLE, Arm, Batch, Postgres, Sqlite
from eo_listener import configure
from eo_listener.foreach_batch.exactly_once import ExactlyOnce, exactly_once
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.sqlite import SqliteSink
from examples.demo.flights import load
from examples.demo.job import flights
from tests.artifacts import Artifact, cache_folder, fetch
from tests.broker import DEFAULT, Broker
from tests.postgres_server import PostgresServer
from tests.topics import Topics

TOPIC = "flights"
PARTITIONS = 4
QUERY = "bench"
DRIVER = Artifact(
    organisation="org.postgresql", name="postgresql", revision="42.7.4", transitive=False
)

OURS = "PostgreSQL sink"
OURS_STAGED = "PostgreSQL sink, staging"
BARE = "bare COPY, the same iterator"
BARE_STAGED = "bare COPY by tasks, and move"
READY = "bare COPY of ready bytes"
JDBC = "df.write.jdbc"
JDBC_REWRITE = "df.write.jdbc, reWriteBatchedInserts"
SQLITE = "SQLite sink"
MANY = "one executemany"

# name, ours, the other, target, whether it is run in each round
PAIRS = (
    ("B5a: PostgreSQL sink / bare COPY", OURS, BARE, 0.95, True),
    ("B5a: staging / bare COPY to staging, moved", OURS_STAGED, BARE_STAGED, 0.95, True),
    ("B5a: PostgreSQL sink / COPY of ready bytes", OURS, READY, None, True),
    ("PostgreSQL sink / JDBC", OURS, JDBC, None, False),
    ("PostgreSQL sink / JDBC, rewritten", OURS, JDBC_REWRITE, None, False),
    ("B6: SQLite sink / one executemany", SQLITE, MANY, 0.95, True),
)


def fill(servers: str, rows: int, partitions: int = PARTITIONS, topic: str = TOPIC) -> None:
    """Send so many flights to the topic, evenly; all that there are, and then once more."""
    Topics(servers).create_as(topic, partitions)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for number, flight in enumerate(islice(cycle(load()), rows)):
        producer.produce(topic, flight.to_json(), key=flight.tailnum, partition=number % partitions)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def through(applied: ExactlyOnce) -> Callable[[Batch], None]:
    """A run of a sink: all of `exactly_once`, as Spark calls it."""

    def run(batch: Batch) -> None:
        applied._batches._returned = None  # the same batch once more, into an emptied table
        applied(batch.frame, batch.number)

    return run


def jdbc(url: str) -> Callable[[Batch], None]:
    """A run of Spark's own writer."""
    properties = {"driver": "org.postgresql.Driver"}

    def run(batch: Batch) -> None:
        batch.frame.write.jdbc(url, TABLE, mode="append", properties=properties)

    return run


class Server(PostgresServer):
    """The tests' server, but one that syncs, as it does by default."""

    def __init__(self) -> None:
        super().__init__()
        self.start()
        with psycopg.connect(self.dsn(), autocommit=True) as link:
            link.execute("ALTER SYSTEM SET fsync = on")
            link.execute("SELECT pg_reload_conf()")

    @property
    def jdbc_url(self) -> str:
        """Where Spark's own writer finds it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=postgres"


class Bench:
    """Runs the rounds, inside the one batch of a query."""

    def __init__(
        self, rounds: int, rows: int, server: Server, folder: Path, console: Console
    ) -> None:
        self._rounds = rounds
        self._rows = rows
        self._console = console
        self._postgres = Postgres(server.dsn())
        file = folder / "bench.sqlite"
        self._sqlite = Sqlite(file)
        direct = exactly_once(PostgresSink(server.dsn(), TABLE, write_method="driver"))
        staged = exactly_once(PostgresSink(server.dsn(), TABLE, write_method="staging"))
        embedded = exactly_once(SqliteSink(file, TABLE))
        self._plans = direct._plans  # for the bare arms, which read as many rows at a time
        in_postgres = {
            OURS: through(direct),
            OURS_STAGED: through(staged),
            BARE: self._postgres.copy,
            BARE_STAGED: self._postgres.copy_by_executors,
            READY: self._postgres.copy_ready,
            JDBC: jdbc(server.jdbc_url),
            JDBC_REWRITE: jdbc(server.jdbc_url + "&reWriteBatchedInserts=true"),
        }
        in_sqlite = {SQLITE: through(embedded), MANY: self._sqlite.executemany}
        self.arms = {
            **{n: Arm(name=n, prepare=self._postgres.empty, run=r) for n, r in in_postgres.items()},
            **{n: Arm(name=n, prepare=self._sqlite.empty, run=r) for n, r in in_sqlite.items()},
        }
        self.turns: dict[str, tuple[list[float], list[float]]] = {
            name: ([], []) for name, *_ in PAIRS
        }
        self.again: list[tuple[float, float]] = []
        self.error: Exception | None = None

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls; there is one batch."""
        plan = self._plans.plan(frame, number)
        cached = flights(frame).persist()
        assert cached.count() == self._rows
        batch = Batch(frame=cached, number=number, plan=plan)
        for name in (OURS, SQLITE, OURS_STAGED):  # these make the tables
            self.arms[name].measure(batch, count=False)
        self._postgres.keep_lines(batch)
        self._check(batch)
        for round_ in range(self._rounds):
            self._console.print(f"round {round_ + 1} of {self._rounds}")
            for pair in PAIRS:
                self._turn(batch, *pair[:3], each=pair[4], round_=round_)
        cached.unpersist()

    def _check(self, batch: Batch) -> None:
        """Warm every arm up, and see that it writes all rows."""
        for arm in self.arms.values():
            self._console.print(f"warming up: {arm.name}")
            arm.measure(batch, count=False)
            store: Any = self._sqlite if arm.name in (SQLITE, MANY) else self._postgres
            assert store.count() == self._rows, (arm.name, store.count())

    def _turn(
        self, batch: Batch, name: str, ours: str, other: str, *, each: bool, round_: int
    ) -> None:
        """One turn, A B B A."""
        if not each and round_ % 2:
            return
        a, b = self.arms[ours], self.arms[other]
        first, second, third, fourth = (arm.measure(batch) for arm in (b, a, a, b))
        mine, theirs = self.turns[name]
        mine += [second, third]
        theirs += [first, fourth]
        if other in (BARE, MANY):
            self.again.append((first, fourth))

    def ratios(self) -> list[Ratio]:
        """Of rows a second: the other's time over ours."""
        pairs = [
            Ratio.of(name, theirs, mine, target)
            for name, _, _, target, _ in PAIRS
            for mine, theirs in [self.turns[name]]
        ]
        first, second = zip(*self.again, strict=True)
        return [Ratio.of("A/A: a bare arm twice", first, second, same=True), *pairs]

    def close(self) -> None:
        self._postgres.close()
        self._sqlite.close()


def session(
    jar: Path | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Memory enough for the cached rows; executors of their own find this package."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(master)
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[1]))
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "4")
    )
    if jar is not None:
        builder = builder.config("spark.jars", str(jar))
    for key, value in conf.items():
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()


def run(
    each: Callable[[DataFrame, int], None],
    spark: SparkSession,
    servers: str,
    checkpoint: Path,
    topic: str = TOPIC,
    **options: int,
) -> None:
    """Run the query, whose batches `each` is given: one, unless the reader's `options` say less."""
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
        .writeStream.queryName(QUERY)
        .foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def report(bench: Bench, rows: int, console: Console) -> None:
    """Print tables, and write the document."""
    speeds = {name: rows / min(arm.times) for name, arm in bench.arms.items() if arm.times}
    best = Table(title="rows a second, the best run of each")
    best.add_column("arm")
    best.add_column("rows/s", justify="right")
    for name, speed in speeds.items():
        best.add_row(name, f"{speed:,.0f}")
    ratios = bench.ratios()
    print_table(console, "rows a second, ours / theirs: medians of paired ratios", ratios)
    console.print(best)
    about = {**environment(), "kafka": DEFAULT, "rows": rows}
    conclude(
        console,
        f"sinks-{rows}",
        about,
        ratios,
        measured={"seconds": {name: arm.times for name, arm in bench.arms.items()}},
    )


def main(rounds: int = 3, rows: int = 100_000) -> None:
    console = Console()
    (jar,) = fetch([DRIVER], cache_folder() / "benchmarks" / "jdbc")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"]) as broker,
        closing(Server()) as server,
    ):
        fill(broker.bootstrap_servers, rows)
        bench = Bench(rounds, rows, server, Path(folder), console)
        spark = session(jar)
        try:
            run(bench.batch, spark, broker.bootstrap_servers, Path(folder, "checkpoint"))
        finally:
            spark.stop()
            bench.close()
    report(bench, rows, console)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
