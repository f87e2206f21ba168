"""The options of a running query's sources, by the shim and without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm import running_query
from eo_listener.spark.jvm.running_query import RunningQuery, find, source_options
from eo_listener.spark.jvm.running_query import options_by_reflection as by_reflection
from eo_listener.spark.shim import SourceOptions
from tests.spark.jvm.conftest import Start
from tests.spark.jvm.recorder import Recorder, listening
from tests.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SECRET = "hunter2"  # noqa: S105 - a decoy


class Plans:
    """Streaming DataFrames over three topics, as users write them."""

    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self.spark = spark
        self.servers = topics.servers
        self.a, self.b, self.c = (topics.create(name, partitions=1) for name in "abc")
        for topic in (self.a, self.b, self.c):
            topics.fill(topic, 5)

    def kafka(self, how: str, value: str, group: str, *, stream: bool = True) -> DataFrame:
        reader: Any = self.spark.readStream if stream else self.spark.read
        data: DataFrame = (
            reader.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("startingOffsets", "earliest")
            .option("KAFKA.Consumer.Commit.GroupId", group)
            .option("kafka.ssl.key.password", SECRET)
            .option(how, value)
            .load()
            .selectExpr("cast(value as string) v", "timestamp t")
        )
        return data

    def topic_a(self) -> DataFrame:
        return self.kafka("subscribe", self.a, "g-a")

    def topic_b(self) -> DataFrame:
        return self.kafka("subscribe", self.b, "g-b")

    def two_joined(self) -> DataFrame:
        left, right = (d.withWatermark("t", "1 hour") for d in (self.topic_a(), self.topic_b()))
        return left.join(right, "v")

    def union(self) -> DataFrame:
        return self.topic_b().union(self.topic_a())

    def self_union(self) -> DataFrame:
        data = self.topic_a()
        return data.union(data)

    def self_join(self) -> DataFrame:
        data = self.topic_a().withWatermark("t", "1 hour")
        return data.join(data.withColumnRenamed("t", "u"), "v").union(
            self.topic_b().selectExpr("v", "t", "t u")
        )

    def same_topic_twice(self) -> DataFrame:
        return self.kafka("subscribe", self.a, "g-1").union(self.kafka("subscribe", self.a, "g-2"))

    def pattern(self) -> DataFrame:
        return self.kafka("subscribePattern", f"{self.a}|{self.b}", "g-p")

    def static_join(self) -> DataFrame:
        static = self.kafka("subscribe", self.c, "g-static", stream=False)
        rows = self.spark.createDataFrame([("1",)], ["v"])
        return static.selectExpr("v").join(self.topic_a(), "v").join(rows, "v")

    def rate_between(self) -> DataFrame:
        rate = self.spark.readStream.format("rate").option("rowsPerSecond", "1").load()
        rows = rate.selectExpr("cast(value as string) v", "timestamp t")
        return self.topic_b().union(rows).union(self.topic_a())


@pytest.fixture(scope="module")
def plans(spark: SparkSession, topics: Topics) -> Plans:
    return Plans(spark, topics)


def by_shim(query: RunningQuery) -> tuple[SourceOptions, ...]:
    return running_query.options_by_shim(query, query.shim("SourceInspector"))


def both_ways(query: RunningQuery) -> tuple[SourceOptions, ...]:
    """What the shim says, after checking that py4j alone says the same."""
    found = by_shim(query)
    assert by_reflection(query) == found
    assert source_options(query) == found
    return found


def test_all_options_and_no_secret_shown(spark: SparkSession, plans: Plans, start: Start) -> None:
    """Every reader option is there under a key in lower case, and repr shows no value."""
    query = start(plans.topic_a())
    running = find(spark, str(query.id), str(query.runId))
    assert running is not None
    query.processAllAvailable()
    (source,) = both_ways(running)
    assert dict(source.options) == {
        "kafka.bootstrap.servers": plans.servers,
        "startingoffsets": "earliest",
        "kafka.consumer.commit.groupid": "g-a",
        "kafka.ssl.key.password": SECRET,
        "subscribe": plans.a,
    }
    for shown in (repr(source), str(source), repr(running)):
        assert SECRET not in shown
        assert plans.servers not in shown


@pytest.mark.parametrize("way", [by_shim, by_reflection])
def test_unplanned(
    spark: SparkSession, start: Start, way: Callable[[RunningQuery], tuple[SourceOptions, ...]]
) -> None:
    """At its start, before the sources are planned, the answer is an error; the query goes on."""
    caught: list[str] = []

    class Early(Recorder):
        def hold(self, query: RunningQuery) -> None:
            super().hold(query)
            with pytest.raises(JvmError) as error:
                way(query)
            caught.append(str(error.value))

    with listening(Early(), spark):
        query = start(spark.readStream.format("rate").load())
        query.processAllAvailable()
    assert ["not planned its sources" in text for text in caught] == [True]
    running = find(spark, str(query.id), str(query.runId))
    assert running is not None
    assert [source.kafka for source in way(running)] == [False]
