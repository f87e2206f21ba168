"""Appends and MERGEs into Iceberg and Delta tables, guarded and bare (B7a, B7b).

    python -m benchmarks.lake {iceberg,delta} {append,merge,upsert} [BATCHES] [ROWS OF A TABLE]

The sink, through `exactly_once` with guard and ledger, and the same DataFrame calls or the same
MERGE without them write each batch in turns, each into a table of its own; every other batch in the
opposite order. A bare batch takes about 10 s where no rows are given. A MERGE reads its rows twice,
so that the bare one caches them first; the sink keeps them by itself. Reported is the median of the
paired ratios of the seconds, with a bootstrap 95 % interval. The bare way writes each batch first
and last: both are a pair as well (A/A), which tells how far the machine can be trusted, and their
mean is what the sink is compared with. The CPU seconds of driver and JVM are compared too: they do
not depend on what else the machine does. Then come batches without rows, in ms, and where their
time goes.

append   all rows are new
merge    a quarter of the table's rows are updated by one MERGE, for the sink by `apply=`
upsert   the same by keys and a version; bare: a MERGE of each key's newest row, if it is newer
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.ratios import Ratio, conclude, environment, print_table
from benchmarks.sinks import run, session
from benchmarks.steps import Write, timed, timed_steps
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.delta import DeltaSink
from eo_listener.sinks.iceberg import IcebergSink
from tests import delta_lake, iceberg_jars
from tests.broker import DEFAULT, Broker
from tests.sinks.iceberg.lake import catalog_conf
from tests.topics import Topics

PARTITIONS: Final = 4
WARM: Final = 2  # batches that do not count
EMPTY: Final = 10  # batches without rows, after one that does not count
SECONDS: Final = 10.0  # of a bare batch
SAMPLE: Final = 400_000  # rows, to find out how many take so long

OURS, BARE, AGAIN = "the sink", "bare", "bare, once more"
TARGETS: Final = {"append": ("B7b", 1.05), "merge": ("B7a", 1.02), "upsert": ("B7a, by keys", None)}
COLUMNS: Final = (
    "id",
    "id % 1000 AS flight",
    "md5(string(id)) AS word",
    "id / 7 AS delay",
    "date_add(DATE'2013-01-01', int(id % 365)) AS day",
)
MERGE: Final = (
    "MERGE INTO {table} t USING {rows} b ON t.id = b.id "
    "WHEN MATCHED{newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
NEWEST: Final = (
    "(SELECT * EXCEPT (place) FROM (SELECT *, "
    "row_number() OVER (PARTITION BY id ORDER BY version DESC) AS place FROM bare) WHERE place = 1)"
)
STEPS: Final = {  # what has been done when a fault point is reached
    "batch.planned": "Spark and Kafka asked for the plan",
    "batch.judged": "ledger read, batch judged",
    "sink.staged": "rows computed and kept",
    "sink.begun": "Iceberg: branch made; Delta: ledger compared, MERGE prepared",
    "sink.rows-written": "rows written on the branch",
    "sink.commit-sent": "branch and ledger compared once more",
    "sink.committed": "published; Delta: Spark's job and its commit",
    "batch.applied": "Delta: the commit found in the log",
}


class Lake:
    """The tables of one store: their names, the sinks, and how they are written without these."""

    def __init__(self, store: str, spark: SparkSession, folder: Path) -> None:
        self._store = store
        self._spark = spark
        self._folder = folder
        if store == "iceberg":
            spark.sql("CREATE NAMESPACE lake.db")

    def table(self, name: str) -> str:
        """As SQL names it."""
        return f"lake.db.{name}" if self._store == "iceberg" else f"delta.`{self._folder}/{name}`"

    def sink(self, name: str, kind: str) -> Any:
        """The sink for it."""
        upsert: dict[str, Any] = {"mode": "upsert", "keys": ("id",), "version_column": "version"}
        if self._store == "delta":
            if kind == "merge":
                raise SystemExit("DeltaSink runs no SQL of the user's: take upsert")
            more = upsert if kind == "upsert" else {}
            return DeltaSink(path=f"{self._folder}/{name}", **more)
        if kind == "merge":
            merge = MERGE.format(table="{table}", rows="eo_batch", newer="")
            return IcebergSink(self.table(name), apply=merge)
        return IcebergSink(self.table(name), **(upsert if kind == "upsert" else {}))

    def append(self, name: str, frame: DataFrame, _: int) -> None:
        """Append as one does in foreachBatch."""
        if self._store == "iceberg":
            frame.writeTo(self.table(name)).append()
        else:
            frame.write.format("delta").mode("append").save(f"{self._folder}/{name}")

    def merge(self, name: str, kind: str, frame: DataFrame, _: int) -> None:
        """Merge as one does in foreachBatch."""
        frame.persist().createOrReplaceTempView("bare")
        newest, newer = (NEWEST, " AND b.version > t.version") if kind == "upsert" else ("bare", "")
        text = MERGE.format(table=self.table(name), rows=newest, newer=newer)
        frame.sparkSession.sql(text).collect()
        frame.unpersist()

    def create(self, name: str, frame: DataFrame) -> None:
        """Make the table with the rows of `frame`."""
        if self._store == "iceberg":
            frame.writeTo(self.table(name)).create()
        else:
            frame.write.format("delta").save(f"{self._folder}/{name}")

    def processes(self) -> list[psutil.Process]:
        """The driver, and Spark's JVM."""
        jvm: Any = self._spark._jvm
        return [psutil.Process(), psutil.Process(jvm.java.lang.ProcessHandle.current().pid())]

    def count(self, name: str) -> int:
        """How many rows it has."""
        ((found,),) = self._spark.sql(f"SELECT count(*) FROM {self.table(name)}").collect()  # noqa: S608  # our own names
        return int(found)


class Bench:
    """Writes each batch of a query by every arm."""

    def __init__(
        self, lake: Lake, kind: str, batches: int, rows: int | None, console: Console
    ) -> None:
        self._lake, self._kind, self._console = lake, kind, console
        self._given = rows
        self.rows = 0
        self._full = WARM + batches
        self.batches = self._full + 1 + EMPTY
        self._tables = {BARE: "bare", OURS: "ours", AGAIN: "again"}
        self._arms: dict[str, Write] = {
            name: exactly_once(lake.sink(table, kind), name=table)
            if name == OURS
            else self._bare(table)
            for name, table in self._tables.items()
        }
        self._driver = lake.processes()
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.cpu: defaultdict[str, list[float]] = defaultdict(list)
        self.empty: defaultdict[str, list[float]] = defaultdict(list)  # ms
        self.steps: defaultdict[str, list[float]] = defaultdict(list)  # ms

    def batch(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls, with a record of each partition."""
        if number == 0:
            self.rows = self._given or self._sized(frame)
            for table in self._tables.values():
                self._create(table, frame, self.rows)
        written = self._written(frame, self.rows, number)
        if number >= self._full:
            self._measure_empty(written.where("false"), number)
            return
        self._measure(written, number)
        if number == self._full - 1:
            self._check()

    @property
    def _appends(self) -> bool:
        return self._kind == "append"

    def _bare(self, table: str) -> Write:
        if self._appends:
            return partial(self._lake.append, table)
        return partial(self._lake.merge, table, self._kind)

    def _sized(self, frame: DataFrame) -> int:
        """How many rows of a table make a bare batch of about so many seconds.

        The first samples are small and slow: they are compiled meanwhile.
        """
        rows = SAMPLE
        for number in range(5):
            table = f"sample{number}"
            self._create(table, frame, rows)
            took = timed(self._bare(table), self._written(frame, rows, number), number)
            self._console.print(f"a sample of {rows:,} rows took {took:.1f} s")
            if number:
                rows = int(rows * min(10.0, SECONDS / took))
        return rows

    def _create(self, table: str, frame: DataFrame, rows: int) -> None:
        there = _table(frame, rows)
        self._lake.create(table, there.where("false") if self._appends else there)

    def _written(self, frame: DataFrame, rows: int, number: int) -> DataFrame:
        return _table(frame, rows) if self._appends else _quarter(frame, rows, number)

    def _measure(self, frame: DataFrame, number: int) -> None:
        self._console.print(f"batch {number + 1} of {self._full}")
        for name in list(self._arms)[:: -1 if number % 2 else 1]:
            before = self._cpu()
            took = timed(self._arms[name], frame, number)
            if number >= WARM:
                self.seconds[name].append(took)
                self.cpu[name].append(self._cpu() - before)

    def _cpu(self) -> float:
        """The CPU seconds of driver and JVM until now."""
        times = [one.cpu_times() for one in self._driver]
        return sum(one.user + one.system for one in times)

    def _measure_empty(self, frame: DataFrame, number: int) -> None:
        for name in (BARE, OURS):
            took, steps = timed_steps(self._arms[name], frame, number)
            if number == self._full:
                continue
            self.empty[name].append(1000 * took)
            for point, seconds in steps:
                self.steps[point].append(1000 * seconds)

    def _check(self) -> None:
        """See that every arm has written the same."""
        there = {table: self._lake.count(table) for table in self._tables.values()}
        expected = self.rows // PARTITIONS * PARTITIONS * (self._full if self._appends else 1)
        assert set(there.values()) == {expected}, (there, expected)

    def ratios(self, store: str) -> list[Ratio]:
        """Of seconds: ours over the other's."""
        name, target = TARGETS[self._kind]
        found = []
        for measure, taken, wanted in (("", self.seconds, target), (", CPU", self.cpu, None)):
            bare, again = taken[BARE], taken[AGAIN]
            means = [statistics.fmean(pair) for pair in zip(bare, again, strict=True)]
            what = f"{name}: {self._kind}, {store}, guarded / bare{measure}"
            found += [
                Ratio.of(f"A/A: bare, twice{measure}", again, bare, same=True),
                Ratio.of(what, taken[OURS], means, wanted, at_most=True),
            ]
        return found


def _table(frame: DataFrame, rows: int) -> DataFrame:
    """All rows of a table, from a record of each partition."""
    each = rows // PARTITIONS
    numbers = f"explode(sequence(1L, {each}L)) AS number"
    ids = f"partition * {each}L + number AS id"
    return (
        frame.selectExpr("partition", numbers).selectExpr(ids).selectExpr(*COLUMNS, "0L AS version")
    )


def _quarter(frame: DataFrame, rows: int, number: int) -> DataFrame:
    """Every fourth of them, in a newer version."""
    each = rows // PARTITIONS
    numbers = f"explode(sequence(1L, {each // 4}L)) AS number"
    ids = f"partition * {each}L + 4 * number - {number % 4} AS id"
    version = f"{number + 1}L AS version"
    return frame.selectExpr("partition", numbers).selectExpr(ids).selectExpr(*COLUMNS, version)


def fill(servers: str, batches: int) -> None:
    """One record of each partition a batch; each becomes many rows."""
    Topics(servers).create_as("source", PARTITIONS)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(batches * PARTITIONS):
        producer.produce("source", b"x", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def report(bench: Bench, store: str, kind: str, console: Console) -> None:
    """Print tables, and write the document."""
    ratios = bench.ratios(store)
    print_table(console, "seconds, guarded / bare: medians of paired ratios", ratios)
    table = Table("arm", "seconds", "of CPU", "without rows, ms", title="medians")
    for name, times in bench.seconds.items():
        empty = f"{statistics.median(bench.empty[name]):.0f}" if name in bench.empty else ""
        cpu = f"{statistics.median(bench.cpu[name]):.2f}"
        table.add_row(name, f"{statistics.median(times):.2f}", cpu, empty)
    console.print(table)
    steps = Table("step", "ms", title="a batch without rows, the sink: medians")
    for point, text in STEPS.items():
        if point in bench.steps:
            steps.add_row(text, f"{statistics.median(bench.steps[point]):.1f}")
    console.print(steps)
    about = {**environment(), "kafka": DEFAULT, "rows": bench.rows}
    about |= {"iceberg": iceberg_jars.VERSION} if store == "iceberg" else {}
    measured = {
        "seconds": bench.seconds,
        "cpu": bench.cpu,
        "empty": bench.empty,
        "steps": bench.steps,
    }
    conclude(console, f"lake-{store}-{kind}", about, ratios, measured=measured)


def main(store: str, kind: str, batches: int = 10, rows: int | None = None) -> None:
    console = Console(width=120)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker(java_options=["-Xmx300m"]) as broker,
    ):
        servers = broker.bootstrap_servers
        jars = ",".join(map(str, iceberg_jars.jars()))
        conf = {"spark.jars": jars, **catalog_conf("lake", folder)}
        spark = session(conf=conf if store == "iceberg" else delta_lake.conf())
        try:
            bench = Bench(Lake(store, spark, Path(folder)), kind, batches, rows, console)
            fill(servers, bench.batches)
            run(
                bench.batch,
                spark,
                servers,
                Path(folder, "checkpoint"),
                "source",
                maxOffsetsPerTrigger=PARTITIONS,
            )
            report(bench, store, kind, console)
        finally:
            spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in TARGETS:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
