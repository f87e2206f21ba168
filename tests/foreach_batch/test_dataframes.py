"""DataFrames compared, by a real Spark, classic and Connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.foreach_batch.dataframes import SparkFrames
from tests.connect_server import either_spark
from tests.foreach_batch.conftest import LEFT_SOCKETS

__all__ = ["either_spark"]  # a fixture

pytestmark = [pytest.mark.spark, LEFT_SOCKETS]

Step = Callable[[DataFrame], DataFrame]


def below(count: int) -> Step:
    return lambda frame: frame.filter(f"id < {count}")


def uuids(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("id", "uuid() AS made")


def checkpointed(frame: DataFrame) -> DataFrame:
    return frame.localCheckpoint()


def pairs(names: str) -> Step:
    """Columns of the same data, in the order in which they are named."""
    return lambda frame: frame.selectExpr("id AS a", "-id AS b", "id + 1 AS `c.d`").select(
        *names.split()
    )


def cases() -> dict[str, tuple[Step, Step, bool | None]]:
    maps: Step = lambda frame: frame.selectExpr("map(id, null) AS m")  # noqa: E731  # a row of the table
    return {
        "one plan": (below(5), below(5), True),
        "steps put in another way": (
            lambda frame: frame.filter("id < 5 AND id > 2"),
            lambda frame: frame.filter("id > 2").repartition(3).filter("NOT id >= 5"),
            True,
        ),
        "maps": (maps, lambda frame: maps(frame.repartition(2)), True),
        "other rows": (below(5), lambda frame: frame.filter("id >= 5"), False),
        "as many rows, one of them twice": (
            lambda frame: below(3)(frame).union(below(1)(frame)),
            lambda frame: below(3)(frame).union(frame.filter("id = 1")),
            False,
        ),
        "other columns": (below(5), lambda frame: below(5)(frame).selectExpr("id AS n"), False),
        "other names": (
            lambda frame: frame.selectExpr("id AS a", "-id AS b"),
            lambda frame: frame.selectExpr("id AS b", "-id AS a"),
            False,
        ),
        "columns in another order": (pairs("a b `c.d`"), pairs("`c.d` b a"), True),
        "a name twice": (pairs("a b a"), lambda frame: pairs("a a b")(frame.repartition(2)), True),
        "values made anew": (uuids, uuids, None),
        "fewer rows with values made anew": (uuids, lambda frame: uuids(below(9)(frame)), False),
        "times that differ in microseconds": (
            lambda frame: frame.selectExpr("timestamp_micros(id) AS at"),
            lambda frame: frame.selectExpr("timestamp_micros(id + 10) AS at"),
            False,
        ),
        "times without a zone that differ in microseconds": (
            lambda frame: frame.selectExpr("timestamp_micros(id)::timestamp_ntz AS at"),
            lambda frame: frame.selectExpr("timestamp_micros(id + 10)::timestamp_ntz AS at"),
            False,
        ),
        "rows that cannot be computed any more": (
            lambda frame: frame.selectExpr("raise_error('gone') AS a"),
            lambda frame: frame.selectExpr("raise_error('gone') AS a").repartition(2),
            None,
        ),
        "a checkpoint": (checkpointed, checkpointed, None),
        "fewer rows in a checkpoint": (
            checkpointed,
            lambda frame: checkpointed(below(9)(frame)),
            False,
        ),
        "values made anew in a checkpoint": (
            lambda frame: checkpointed(uuids(frame)),
            lambda frame: checkpointed(uuids(frame)),
            None,
        ),
    }


WITHOUT_PLANS = ("fewer rows with values made anew", "fewer rows in a checkpoint")


@pytest.mark.parametrize("case", list(cases()))
def test_whether_two_frames_have_the_same_rows(either_spark: SparkSession, case: str) -> None:
    """Known of plans alike and of deterministic steps; else only from another number of rows.

    Of the plans of Connect nothing is known.
    """
    first, second, expected = cases()[case]
    far = getattr(either_spark, "_jsparkSession", None) is None
    if far and case not in WITHOUT_PLANS:
        expected = None
    data = either_spark.range(10)
    assert SparkFrames().are_same(first(data), second(data)) is expected


def test_one_frame_is_the_same_as_itself_without_a_question() -> None:
    """Nothing is asked of Spark."""
    frame: Any = object()
    assert SparkFrames().are_same(frame, frame) is True
