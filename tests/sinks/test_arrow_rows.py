"""A batch's rows on the driver: all of them, once, in order, and few at a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from eo_listener.errors import RetriableSinkError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks import arrow_rows
from eo_listener.sinks.arrow_rows import stream
from tests.sinks.programs import run_program
from tests.sinks.test_fetch_plan import planned

pytestmark = pytest.mark.spark


def numbers(
    frame: DataFrame, plan: PlannedBatch, meanwhile: Callable[[], object] = bool, **given: Any
) -> list[int]:
    """The numbers of a frame, as they come; something happens after the first of them."""
    found: list[int] = []
    with closing(stream(frame, plan, **given)) as batches:
        for batch in batches:
            if not found:
                meanwhile()
            found += batch.column("id").to_pylist()
    return found


def test_all_rows_come_once_and_in_order(spark: SparkSession) -> None:
    """As one job, and task by task; a cut loses the order, and no row."""
    frame = spark.range(0, 1000, 1, 3)
    for plan, given in (
        (planned(1000), {"at_once": True}),
        (planned(1000), {}),
        (planned(*[100] * 10), {"task_rows": 400}),
    ):
        assert numbers(frame, plan, **given) == list(range(1000))
    assert sorted(numbers(frame, planned(1000), task_rows=100)) == list(range(1000))


def test_a_column_by_the_name_of_ours_is_the_users(spark: SparkSession) -> None:
    """A cut adds a column and drops it: never one that was there, in whatever case."""
    frame = spark.range(0, 1000, 1, 3).selectExpr("id", "-id AS Eo_Ordinal", "7 AS eo_ordinal_")
    with closing(stream(frame, planned(1000), task_rows=100)) as batches:
        told = [row for batch in batches for row in batch.to_pylist()]
    assert sorted(row["id"] for row in told) == list(range(1000))
    assert all(row == {"id": row["id"], "Eo_Ordinal": -row["id"], "eo_ordinal_": 7} for row in told)


def test_rows_that_nobody_planned_come_too(spark: SparkSession) -> None:
    """A batch without offsets can have rows from Spark's state, and one with offsets none."""
    assert numbers(spark.range(5), planned()) == [0, 1, 2, 3, 4]
    assert numbers(spark.range(0), planned(1000), task_rows=10) == []


def test_it_can_be_left_early(spark: SparkSession) -> None:
    """Closed after its first batch, it takes no more tasks, and the session goes on."""
    batches = stream(spark.range(0, 1000, 1, 10), planned(*[100] * 10), task_rows=100)
    assert next(batches).num_rows > 0
    batches.close()
    assert spark.range(3).count() == 3


def test_what_fails_in_a_task_is_spark_s_own_error(spark: SparkSession) -> None:
    """Nothing is hidden of it, with one job and with many."""
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('odd row'), id) AS id")
    for given in ({"at_once": True}, {"task_rows": 60}):
        with pytest.raises(Exception, match="odd row"):
            numbers(frame, planned(50, 50), **given)


def lose_shuffles(spark: SparkSession) -> None:
    """Forget the files of all shuffles, as if their executors were lost."""
    tracker = spark.sparkContext._jsc.sc().env().mapOutputTracker()
    known = tracker.shuffleStatuses().keySet().iterator()
    while known.hasNext():
        tracker.unregisterAllMapAndMergeOutput(known.next())


def lose_kept(spark: SparkSession) -> None:
    """Remove what is kept of all frames, as if their executors were lost."""
    jvm = spark.sparkContext._jsc
    for number in list(jvm.getPersistentRDDs()):
        jvm.sc().env().blockManager().removeRdd(number)


def test_rows_that_changed_before_the_batch_are_computed_once(spark: SparkSession) -> None:
    """What the live query's plan says counts as what the frame's own plan does."""
    for deterministic in (True, False):
        plan = replace(planned(50, 50), deterministic=deterministic)
        with patch.object(arrow_rows, "choose_fetch", wraps=arrow_rows.choose_fetch) as fetch:
            assert len(numbers(spark.range(0, 100, 1, 2), plan)) == 100
        assert fetch.call_args.kwargs["may_change"] is not deterministic


def with_uuid(frame: DataFrame) -> DataFrame:
    """Add a column that is another one each time it is computed, as Spark does not know."""
    return frame.withColumn("row_id", functions.udf(lambda _: str(uuid.uuid4()))("id"))


LOSSES: list[tuple[Callable[[DataFrame], DataFrame], list[int]]] = [
    (with_uuid, [4000]),  # cut by us
    (lambda frame: with_uuid(frame).repartition(16), [250] * 16),
    (lambda frame: with_uuid(frame).repartition(3), [4000]),
]


@pytest.mark.parametrize(("transform", "counts"), LOSSES)
def test_a_shuffle_that_is_lost_loses_no_row(
    spark: SparkSession, transform: Callable[[DataFrame], DataFrame], counts: list[int]
) -> None:
    """All rows come once, or the batch is to begin again, if a part of them is computed twice."""
    frame = transform(spark.range(0, 4000, 1, 2))
    try:
        rows = numbers(frame, planned(*counts), lambda: lose_shuffles(spark), task_rows=250)
    except RetriableSinkError:
        rows = numbers(frame, planned(*counts), task_rows=250)
    assert sorted(rows) == list(range(4000))


def test_a_cut_of_rows_that_chance_chooses_is_refused(spark: SparkSession) -> None:
    """Spark does not know of the chance: a part of the cut is computed again of other rows."""
    chance = functions.udf(lambda _: uuid.uuid4().int % 2 == 0, "boolean")
    frame = spark.range(0, 4000, 1, 2).where(chance("id"))
    with pytest.raises(RetriableSinkError, match="twice"):
        numbers(frame, planned(4000), lambda: lose_shuffles(spark), task_rows=250)


def test_rows_that_chance_chooses_are_chosen_once(spark: SparkSession) -> None:
    """A cut that is lost is not made again of other rows, where Spark is told of the chance."""
    chance = functions.udf(lambda _: uuid.uuid4().int % 2 == 0, "boolean").asNondeterministic()
    frame = spark.range(0, 4000, 1, 2).where(chance("id"))
    found = numbers(frame, planned(4000), lambda: lose_shuffles(spark), task_rows=250)
    assert len(found) == len(set(found))


def test_a_kept_part_that_is_lost_is_no_row_less(spark: SparkSession) -> None:
    """It is not computed anew: the batch is to begin again, and what was kept is let go."""
    frame = with_uuid(spark.range(0, 4000, 1, 2)).repartition(16)
    jvm = spark.sparkContext._jsc
    before = jvm.getPersistentRDDs().size()
    with closing(stream(frame, planned(*[250] * 16), task_rows=250)) as batches:
        next(batches)
        assert jvm.getPersistentRDDs().size() == before + 1
        lose_kept(spark)
        with pytest.raises(RetriableSinkError, match="executor"):
            list(batches)
    assert jvm.getPersistentRDDs().size() == before
    assert sorted(numbers(frame, planned(*[250] * 16), task_rows=250)) == list(range(4000))


def test_tasks_that_are_kept_come_in_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other where they are large, several together where they are small."""
    monkeypatch.setattr(arrow_rows, "_cores", lambda _: None)
    frame = spark.range(0, 1000, 1, 10)
    before = set(spark.sparkContext._jsc.getPersistentRDDs().keySet())  # Delta keeps some
    for most in (1, 1 << 20):
        monkeypatch.setattr(arrow_rows, "TASK_BYTES", most)
        found = numbers(frame, planned(*[100] * 10), task_rows=100)
        assert found == list(range(1000))
    assert set(spark.sparkContext._jsc.getPersistentRDDs().keySet()) <= before


def test_a_kept_part_that_does_not_change_is_computed_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no row can be another one then, an executor that ends costs its own part only."""
    monkeypatch.setattr(arrow_rows, "_cores", lambda _: None)
    monkeypatch.setattr(arrow_rows, "TASK_BYTES", 1)
    found: list[int] = []
    with closing(stream(spark.range(0, 1000, 1, 10), planned(*[100] * 10))) as batches:
        for batch in batches:
            lose_kept(spark)
            found += batch.column("id").to_pylist()
    assert found == list(range(1000))


PROGRAM = """
import sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
from eo_listener.sinks.arrow_rows import TaskSize, stream
from tests.sinks.test_fetch_plan import planned
conf = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
conf = conf.config("spark.driver.maxResultSize", "4m").config("spark.log.level", "OFF")
spark = conf.config("spark.driver.host", "127.0.0.1").getOrCreate()
folder, tasks = Path(sys.argv[2]), 8
"""
TOGETHER = """
def meet(batches):
    for batch in batches:
        Path(folder, str(batch.column("id")[0])).touch()
        ends = time.monotonic() + 60
        while len(list(folder.iterdir())) < 4:
            assert time.monotonic() < ends, "alone"
            time.sleep(0.05)
        yield batch

frame = spark.range(0, 80, 1, tasks).mapInArrow(meet, "id long")
rows = stream(frame, planned(*[10] * tasks), task_rows=10)
assert sorted(one for batch in rows for one in batch.column("id").to_pylist()) == list(range(80))
print("together; kept", spark.sparkContext._jsc.getPersistentRDDs().size())
"""
GREEDY = """
size = TaskSize()
list(size.stream(spark.range(10), planned(10)))
wide = spark.range(0, 1000, 1, 1).selectExpr("explode(sequence(id * 10, id * 10 + 9)) AS id")
wide = wide.selectExpr("id", "concat(id, repeat('x', 2000)) AS v")
print("rows", sum(batch.num_rows for batch in size.stream(wide, planned(1000))))
"""


@pytest.mark.parametrize(
    ("master", "parts"),
    [
        pytest.param("local[4]", [TOGETHER, GREEDY], marks=pytest.mark.slow),
        pytest.param("local-cluster[2,2,1024]", [TOGETHER], marks=pytest.mark.slow),
        pytest.param("local[2]", [GREEDY], marks=pytest.mark.slow),
    ],
)
def test_all_cores_compute_a_batch_in_tasks_that_spark_brings(
    master: str, parts: list[str], tmp_path: Path
) -> None:
    """Eight tasks wait until four run; 20 MB come in smaller tasks where Spark brings 4 at once."""
    answer = run_program("".join([PROGRAM, *parts, "spark.stop()"]), master, tmp_path)
    said = {TOGETHER: "together; kept 0", GREEDY: "rows 10000"}
    assert answer.stdout.splitlines() == [said[part] for part in parts], answer.stderr[-3000:]
