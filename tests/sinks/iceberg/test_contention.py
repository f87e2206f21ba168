"""A MERGE into a table that two others write to and a third one compacts, all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from py4j.protocol import Py4JJavaError

from eo_listener.errors import RetriableSinkError
from eo_listener.spark.jvm.sessions import working_in
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, heads_of, plan_of
from tests.sinks.iceberg.lake import Lake, entry
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS = 4
SECONDS = 120.0
TRIES = 10


class Loop:
    """A program of somebody else's that does the same every `pause` seconds."""

    def __init__(self, act: Callable[[int], object]) -> None:
        self.done = 0
        self.pause = 0.0
        self._act = act
        self._ends = threading.Event()
        self._run: Future[None]

    def _repeat(self) -> None:
        while not self._ends.wait(self.pause):
            self._act(self.done)
            self.done += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as threads:
            self._run = threads.submit(self._repeat)
            try:
                yield
            finally:
                self._ends.set()
        self._run.result()

    def pass_once(self) -> None:
        """Wait until it has done all of it once more."""
        wanted = self.done + 2  # of the first a part may be over
        until(lambda: self.done >= wanted or self._run.done(), SECONDS, "others do nothing")
        assert not self._run.done()


class Others:
    """What the others do to the table."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.name, self.sink = lake, lake.table("t"), lake.sink("t")

    def append(self, number: int) -> None:
        """Rows of the same days, by other keys."""
        values = ", ".join(f"({-1 - number * DAYS - day}, {day}, 'foreign')" for day in range(DAYS))
        self._repeated(lambda: self.lake.other().sql(f"INSERT INTO {self.name} VALUES {values}"))

    def query(self, number: int) -> None:
        one = entry(number, "other")
        row = f"SELECT {10_000 + number}L AS id, 0 AS day, 'other' AS word"
        self._repeated(lambda: self.sink.apply(self.lake.other().sql(row), one, plan_of(one)))

    def _repeated(self, write: Callable[[], object]) -> None:
        """Write again if others came first at each of Iceberg's own retries, as a query does."""
        for _ in range(TRIES):
            try:
                write()
            except (Py4JJavaError, RetriableSinkError) as error:
                if "CommitFailedException" not in str(error):
                    raise
            else:
                return
        raise AssertionError("others always came first")

    def compact(self, _: int) -> None:
        """The days before."""
        table, jvm = self.lake.java("t")._table, self.lake.spark._jvm
        assert jvm is not None
        iceberg = jvm.org.apache.iceberg
        actions = iceberg.spark.actions.SparkActions.get(self.lake.spark._jsparkSession)
        action = actions.rewriteDataFiles(table)
        action = action.filter(iceberg.expressions.Expressions.greaterThan("day", 0))
        action = action.option("rewrite-all", "true").option("partial-progress.enabled", "true")
        with working_in(self.lake.spark):  # a thread has none of its own
            action.execute()


@pytest.mark.parametrize(
    ("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
)
def test_a_merge_gets_on(lake: Lake, mode: str, version: int) -> None:
    """Each batch is computed once, though all three move main while it is merged, or oftener."""
    name = lake.table("t")
    lake.spark.sql(
        f"CREATE TABLE {name} (id bigint, day int, word string) USING iceberg "
        f"PARTITIONED BY (day) TBLPROPERTIES ('write.merge.mode' = '{mode}', "
        f"'format-version' = '{version}')"
    )
    for part in range(2):
        ids = f"SELECT id * 2 + {part} AS id FROM range(100)"
        rows = f"SELECT id, cast(id % {DAYS} AS int), 'first' FROM ({ids})"
        lake.spark.sql(f"INSERT INTO {name} {rows}")
    merged = lake.sink("t", mode="upsert", keys=("id", "day"))
    others = Others(lake)
    loops = [Loop(others.append), Loop(others.query), Loop(others.compact)]
    points: list[str] = []

    def hook(point: str) -> None:
        if threading.current_thread() is threading.main_thread():
            points.append(point)
            for loop in loops if point == "sink.commit-sent" else ():
                loop.pass_once()

    def batch(number: int) -> None:
        one = entry(number)
        changed = f"SELECT id * 4 AS id, 0 AS day, 'batch {number}' AS word FROM range(60)"
        assert merged.apply(lake.spark.sql(changed), one, plan_of(one)).rows == 60

    began = time.monotonic()
    batch(0)
    for loop in loops:
        loop.pause = (time.monotonic() - began) / 2
    with loops[0].running(), loops[1].running(), loops[2].running(), hooked(hook):
        batch(1)
        batch(2)
    assert points.count("sink.rows-written") == 2
    assert dict(merged.applied(QUERY)) == heads_of(entry(2))
    counted = f"SELECT word, count(*), count(DISTINCT id) FROM {name} GROUP BY word"
    found = {word: (rows, ids) for word, rows, ids in lake.other().sql(counted).collect()}
    assert found == {
        "first": (150, 150),
        "batch 2": (60, 60),
        "foreign": (DAYS * loops[0].done,) * 2,
        "other": (loops[1].done,) * 2,
    }
