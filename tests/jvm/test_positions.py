"""How far a query has come, by the shim and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener.jvm import RunningQuery, find
from eo_listener.jvm.positions import by_reflection, by_shim, live_position
from eo_listener.protocols import LivePosition
from tests.jvm.test_sources import Plans
from tests.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Begin = Callable[..., StreamingQuery]


@pytest.fixture(scope="module")
def plans(spark: SparkSession, topics: Topics) -> Plans:
    return Plans(spark, topics)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start a query on the checkpoint of this test; it is stopped when the test ends."""
    queries: list[StreamingQuery] = []

    def one(data: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = data.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(**(trigger or {"processingTime": "200 milliseconds"})).start()
        queries.append(query)
        return query

    yield one
    for query in queries:
        query.stop()


def running(spark: SparkSession, query: StreamingQuery) -> RunningQuery:
    found = find(spark, str(query.id), str(query.runId))
    assert found is not None
    return found


def both_roads(query: RunningQuery) -> LivePosition | None:
    """What the shim says, after checking that py4j alone says the same."""
    found = by_shim(query)
    assert by_reflection(query) == found
    assert live_position(query) == found
    return found


def plain(position: LivePosition | None) -> dict[int, Any]:
    """A position in the form of a progress event."""
    assert position is not None
    return {
        index: {
            topic: {str(tp.partition): o for tp, o in offsets.items() if tp.topic == topic}
            for topic in offsets.topics()
        }
        for index, offsets in position.committed.items()
    }


SHAPES = [
    (Plans.one, "a"),
    (Plans.two_joined, "ab"),
    (Plans.union, "ba"),
    (Plans.self_union, "a"),
    (Plans.self_join, "ab"),
    (Plans.same_topic_twice, "aa"),
    (Plans.static_join, "a"),
    (Plans.rate_between, "b-a"),
]


@pytest.mark.parametrize(("plan", "sources"), SHAPES, ids=[plan.__name__ for plan, _ in SHAPES])
def test_sources_by_index(
    spark: SparkSession,
    plans: Plans,
    begin: Begin,
    plan: Callable[[Plans], DataFrame],
    sources: str,
) -> None:
    """Source i of a position is source i of the progress event; other kinds are left out."""
    query = begin(plan(plans))
    found = running(spark, query)
    query.processAllAvailable()
    expected = {
        index: {getattr(plans, letter): {"0": 5}}
        for index, letter in enumerate(sources)
        if letter != "-"
    }
    assert plain(live_position(found)) == expected
    query.stop()
    assert plain(both_roads(found)) == expected


def test_old_reader_interface(spark: SparkSession, plans: Plans, begin: Begin) -> None:
    """Where Spark is told to read Kafka through the old interface, the position is the same."""
    key = "spark.sql.streaming.disabledV2MicroBatchReaders"
    spark.conf.set(key, "org.apache.spark.sql.kafka010.KafkaSourceProvider")
    try:
        query = begin(plans.union())
        found = running(spark, query)
        query.processAllAvailable()
    finally:
        spark.conf.unset(key)
    assert plain(both_roads(found)) == {0: {plans.b: {"0": 5}}, 1: {plans.a: {"0": 5}}}
