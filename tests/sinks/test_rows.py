"""A batch's rows on the driver: all of them, once, in order, and few at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from eo_listener.errors import TryAgainError
from eo_listener.offsets import Span, TopicPartition
from eo_listener.plan import Plan
from eo_listener.sinks import task_size
from eo_listener.sinks.rows import stream, tasks_wanted
from eo_listener.sinks.task_size import TaskSize

EMPTY = Plan(
    query_id="q",
    run_id="r",
    query="flights",
    batch_id=0,
    sources={},
    topic_ids={},
    log_starts={},
    log_ends={},
)


def planned(*counts: int) -> Plan:
    """A batch with so many offsets in each of its partitions."""
    spans = {TopicPartition("flights", at): Span(7, 7 + count) for at, count in enumerate(counts)}
    return replace(EMPTY, sources={0: spans})


@pytest.mark.parametrize(
    ("counts", "partitions", "wanted"),
    [
        ((), 0, None),
        ((100,), 1, None),
        ((101,), 1, 2),
        ((1000,), 1, 10),
        ((1000,), 40, 10),  # whichever of them has the long partition of Kafka
        ((60, 60), 2, None),
        ((60, 60), 1, 2),  # after a coalesce
        ((1, 1, 500), 3, 6),
    ],
)
def test_a_task_that_is_too_large_is_cut(
    counts: tuple[int, ...], partitions: int, wanted: int | None
) -> None:
    """By the longest partition of Kafka, and by all offsets over the tasks there are."""
    assert tasks_wanted(planned(*counts), partitions, 100) == wanted


def numbers(frame: DataFrame, plan: Plan, **given: Any) -> list[int]:
    """The numbers of a frame, as they come."""
    with closing(stream(frame, plan, **given)) as batches:
        return [one for batch in batches for one in batch.column("id").to_pylist()]


@pytest.mark.spark
def test_all_rows_come_once_and_in_order(spark: SparkSession) -> None:
    """As one job, task by task, and cut with the order kept."""
    frame = spark.range(0, 1000, 1, 3)
    for plan, given in (
        (planned(1000), {}),
        (planned(*[100] * 10), {"task_rows": 400}),
        (planned(1000), {"task_rows": 100, "ordered": True}),
    ):
        assert numbers(frame, plan, **given) == list(range(1000))
    assert sorted(numbers(frame, planned(1000), task_rows=100)) == list(range(1000))


@pytest.mark.spark
def test_rows_that_nobody_planned_come_too(spark: SparkSession) -> None:
    """A batch without offsets can have rows from Spark's state, and one with offsets none."""
    assert numbers(spark.range(5), planned()) == [0, 1, 2, 3, 4]
    assert numbers(spark.range(0), planned(1000), task_rows=10) == []


@pytest.mark.spark
def test_it_can_be_left_early(spark: SparkSession) -> None:
    """Closed after its first batch, it takes no more tasks, and the session goes on."""
    batches = stream(spark.range(0, 1000, 1, 10), planned(*[100] * 10), task_rows=100)
    assert next(batches).num_rows > 0
    batches.close()
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_what_fails_in_a_task_is_spark_s_own_error(spark: SparkSession) -> None:
    """Nothing is hidden of it, with one job and with many."""
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('odd row'), id) AS id")
    for given in ({}, {"task_rows": 60}):
        with pytest.raises(Exception, match="odd row"):
            numbers(frame, planned(50, 50), **given)


@pytest.mark.spark
def test_large_rows_make_smaller_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the offsets of a batch have become decides how the next is cut, both ways."""
    monkeypatch.setattr(task_size, "TASK_BYTES", 1 << 20)
    size = TaskSize(5000)
    large = spark.range(1000).selectExpr("id", "repeat('x', 10000) AS v")
    for frame, count, least, most in (
        (large, 1000, 90, 110),
        (spark.range(3), 3, 90, 110),  # too few to tell
        (spark.range(2000), 2000, 20000, 20000),
    ):
        assert sum(batch.num_rows for batch in size.stream(frame, planned(count))) == count
        assert least <= size.rows <= most


def lose_shuffles(spark: SparkSession) -> None:
    """Forget the files of all shuffles, as if their executors were lost."""
    tracker = spark.sparkContext._jsc.sc().env().mapOutputTracker()
    known = tracker.shuffleStatuses().keySet().iterator()
    while known.hasNext():
        tracker.unregisterAllMapAndMergeOutput(known.next())


def with_uuid(frame: DataFrame) -> DataFrame:
    """Add a column that is another one each time it is computed, as Spark does not know."""
    return frame.withColumn("row_id", functions.udf(lambda _: str(uuid.uuid4()))("id"))


LOSSES: list[tuple[Callable[[DataFrame], DataFrame], list[int]]] = [
    (with_uuid, [4000]),  # cut by us
    (lambda frame: with_uuid(frame).repartition(16), [250] * 16),
    (lambda frame: with_uuid(frame).repartition(3), [4000]),
]


@pytest.mark.spark
@pytest.mark.parametrize(("transform", "counts"), LOSSES)
def test_a_shuffle_that_is_lost_loses_no_row(
    spark: SparkSession, transform: Callable[[DataFrame], DataFrame], counts: list[int]
) -> None:
    """All rows come once, though parts of them are computed twice and are others then."""
    frame = transform(spark.range(0, 4000, 1, 2))
    found: list[int] = []
    with closing(stream(frame, planned(*counts), task_rows=250)) as batches:
        for batch in batches:
            if not found:
                lose_shuffles(spark)
            found += batch.column("id").to_pylist()
    assert sorted(found) == list(range(4000))


@pytest.mark.spark
def test_rows_that_chance_chooses_are_chosen_once(spark: SparkSession) -> None:
    """A cut that is lost is not made again of other rows, where Spark is told of the chance."""
    chance = functions.udf(lambda _: uuid.uuid4().int % 2 == 0, "boolean").asNondeterministic()
    frame = spark.range(0, 4000, 1, 2).where(chance("id"))
    found: list[int] = []
    with closing(stream(frame, planned(4000), task_rows=250)) as batches:
        for batch in batches:
            if not found:
                lose_shuffles(spark)
            found += batch.column("id").to_pylist()
    assert len(found) == len(set(found))


@pytest.mark.spark
def test_a_kept_part_that_is_lost_is_no_row_less(spark: SparkSession) -> None:
    """It is not computed anew: the batch is to begin again, and what was kept is let go."""
    frame = with_uuid(spark.range(0, 4000, 1, 2)).repartition(16)
    jvm = spark.sparkContext._jsc
    before = jvm.getPersistentRDDs().size()
    with closing(stream(frame, planned(*[250] * 16), task_rows=250)) as batches:
        next(batches)
        assert jvm.getPersistentRDDs().size() == before + 1
        for number in list(jvm.getPersistentRDDs()):
            jvm.sc().env().blockManager().removeRdd(number)
        with pytest.raises(TryAgainError, match="executor"):
            list(batches)
    assert jvm.getPersistentRDDs().size() == before
    assert sorted(numbers(frame, planned(*[250] * 16), task_rows=250)) == list(range(4000))


HUGE = """
import sys, warnings
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
from tests.sinks.test_rows import planned
from eo_listener.sinks.rows import stream
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
count = int(sys.argv[1])
frame = spark.range(0, count, 1, 1).selectExpr("id", "concat(id, repeat('x', 1000)) AS v")
given = {"task_rows": count} if sys.argv[2] == "whole" else {"ordered": sys.argv[2] == "ordered"}
rows = [batch.num_rows for batch in stream(frame, planned(count, 1), **given)]
print("rows", sum(rows))
"""


def run_small(count: int, how: str) -> subprocess.CompletedProcess[str]:
    """Stream one task of so many rows of 1 KB through a JVM with the smallest heap of Spark's."""
    submit = (
        "--master local[1] --driver-memory 512m --conf spark.driver.maxResultSize=0 "
        "--conf spark.driver.host=127.0.0.1 --conf spark.log.level=ERROR "
        "--conf spark.driver.extraJavaOptions=-XX:+ExitOnOutOfMemoryError pyspark-shell"
    )
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", HUGE, str(count), how]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("how", ["unordered", "ordered"])
def test_a_partition_larger_than_the_heap_passes(how: str) -> None:
    """1.2 GB in one task go through a driver JVM of 512 MB, which the whole task would end."""
    answer = run_small(1_200_000, how)
    assert "rows 1200000" in answer.stdout, answer.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_whole_task_would_not_pass() -> None:
    """The same rows uncut end that JVM: what is shown above is the cut."""
    answer = run_small(1_200_000, "whole")
    assert "rows" not in answer.stdout
    assert "OutOfMemoryError" in answer.stdout + answer.stderr


FAR = """
import sys, warnings
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
from eo_listener.sinks.rows import stream
from tests.sinks.test_rows import planned
builder = SparkSession.builder.remote("local[1]").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate()
frame = spark.range(5000).selectExpr("id", "timestamp'2026-01-01 09:00:00' AS at")
for given in ({}, {"task_rows": 100, "ordered": True}):
    batches = list(stream(frame, planned(5000), **given))
    ids = [one for batch in batches for one in batch.column("id").to_pylist()]
    assert ids == list(range(5000)), len(ids)
    assert str(batches[0].column("at")[0].as_py()) == "2026-01-01 00:00:00+00:00"
print("all there")
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 4 brings its server")
def test_a_frame_of_spark_connect_is_a_frame_too() -> None:
    """Where the JVM is a server's the same rows come, with the same moments."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", FAR]
    answer = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert "all there" in answer.stdout, answer.stderr
