"""Which stages count as run twice, by what Spark's status store has, and which plans shuffle."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions

from eo_listener.errors import RetriableSinkError
from eo_listener.spark.jvm import stage_attempts
from eo_listener.spark.jvm.stage_attempts import has_shuffle


def answer(value: Any) -> Any:
    """Return a function without arguments, as py4j has them, that returns `value`."""
    return lambda *_: value


def stage(rdds: str, *, status: str = "COMPLETE", attempt: int = 0, written: int = 9) -> Any:
    """Return a stage as the store has it."""
    return SimpleNamespace(
        status=answer(SimpleNamespace(name=answer(status))),
        attemptId=answer(attempt),
        shuffleWriteRecords=answer(written),
        rddIds=answer(SimpleNamespace(mkString=answer(rdds))),
    )


SKIPPED = stage("1", status="SKIPPED", written=0)


@dataclass
class Store:
    """Spark's status store: the stages of each job, and what is left of the stages."""

    jobs: dict[int, tuple[int, ...]]
    stages: dict[int, Any] = field(default_factory=dict)
    skipped: int = 0

    def job(self, number: int) -> Any:
        stages = SimpleNamespace(mkString=lambda end: end.join(map(str, self.jobs[number])))
        return SimpleNamespace(stageIds=answer(stages), numSkippedStages=answer(self.skipped))


@pytest.fixture(autouse=True)
def _stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_attempts, "_stage", lambda store, number: store.stages.get(number))


@pytest.mark.parametrize(
    ("store", "repeated"),
    [
        (Store({1: (0, 1)}, {0: stage("1"), 1: stage("2", written=0)}), False),
        (Store({1: (0, 1)}, {0: stage("1"), 1: stage("2", written=0, attempt=1)}), True),
        (Store({1: (0,), 2: (0, 1)}, {0: stage("1"), 1: stage("2")}), False),  # one stage, two jobs
        (Store({1: (0,), 2: (1,)}, {0: stage("1"), 1: stage("1")}), True),
        (Store({1: (0,), 2: (1,)}, {0: stage("1"), 1: SKIPPED}), False),
        (Store({1: (0, 1)}, {0: stage("1")}, skipped=1), False),  # the store has removed it
        (Store({1: (0, 1, 2)}, {0: stage("1"), 2: SKIPPED}, skipped=1), False),
    ],
)
def test_a_map_stage_that_ran_twice_is_seen(store: Store, repeated: bool) -> None:
    """By its attempt, or by a second stage over the same RDDs; a skipped stage has not run."""
    assert stage_attempts._has_repeated(store, set(store.jobs), {}) is repeated


def test_computations_of_one_batch_count_together() -> None:
    """The second one may run what is missing of a shuffle that the first one has written."""
    written: dict[str, int] = {}
    assert not stage_attempts._has_repeated(Store({1: (0,)}, {0: stage("1")}), {1}, written)
    assert stage_attempts._has_repeated(Store({2: (3,)}, {3: stage("1")}), {2}, written)


def test_stages_that_the_store_no_longer_has_are_not_taken_for_skipped() -> None:
    """A stage that has run is missing too: nobody knows if it ran twice."""
    with pytest.raises(RetriableSinkError, match="retainedStages"):
        stage_attempts._has_repeated(Store({1: (0, 1)}, {0: stage("1")}), {1}, {})


@pytest.mark.spark
def test_a_shuffle_is_found_where_it_moves_the_rows(spark: SparkSession) -> None:
    """In the plan, or in the RDD behind it; a broadcast, or a column of that name, is none."""
    ids = spark.range(0, 9, 1, 2)
    counted = ids.selectExpr("id % 3 AS id").groupBy("id").count()

    assert has_shuffle(counted)
    assert has_shuffle(counted.localCheckpoint().repartition(3))
    assert has_shuffle(spark.createDataFrame(counted.rdd, counted.schema))
    assert not has_shuffle(ids.selectExpr("id AS Exchange"))
    assert not has_shuffle(ids.join(functions.broadcast(counted), "id"))
    assert not has_shuffle(counted.localCheckpoint())
