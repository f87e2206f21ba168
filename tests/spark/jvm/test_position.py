"""How far a query has come, by the shim and without it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.spark.jvm import running_query
from eo_listener.spark.jvm.driver import LiveQueries, drain
from eo_listener.spark.jvm.event_listener import wrap
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    by_reflection,
    find,
    live_position,
    query_mode,
)
from tests.spark.jvm.recorder import Forwarding, Recorder, listening
from tests.spark.jvm.test_source_options import Plans
from tests.spark.jvm.test_source_options import both_ways as options_both_ways
from tests.topics import Topics
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


@pytest.fixture(scope="module")
def plans(spark: SparkSession, topics: Topics) -> Plans:
    return Plans(spark, topics)


class Queries:
    """Starts queries on one checkpoint, one at a time."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark = spark
        self._query: StreamingQuery | None = None
        self.checkpoint = checkpoint

    def start(
        self,
        data: DataFrame,
        trigger: dict[str, Any],
        *,
        sink: str = "noop",
        mode: str = "append",
        **options: Any,
    ) -> RunningQuery:
        writer = data.writeStream.format(sink).outputMode(mode).options(**options)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self._query = writer.trigger(**trigger).start()
        found = find(self._spark, str(self._query.id), str(self._query.runId))
        assert found is not None
        return found

    def run(self, data: DataFrame, **options: Any) -> RunningQuery:
        """Start a query, and wait until it has read all there is."""
        found = self.start(data, OFTEN, **options)
        self.finish()
        return found

    def finish(self) -> None:
        assert self._query is not None
        self._query.processAllAvailable()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def fails(self) -> None:
        """Wait for the end of a query that must fail."""
        assert self._query is not None
        with pytest.raises(StreamingQueryException):
            self._query.awaitTermination(60)

    def commits(self) -> list[int]:
        """The batches whose commit is in the file system, in order."""
        return sorted(int(f.name) for f in self.checkpoint.glob("commits/*") if f.name.isdigit())


OFTEN = {"processingTime": "200 milliseconds"}


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Iterator[Queries]:
    made = Queries(spark, tmp_path / "checkpoint")
    yield made
    made.stop()


def by_shim(query: RunningQuery) -> LivePosition | None:
    return running_query.by_shim(query, query.shim("PositionInspector"))


def both_ways(query: RunningQuery) -> LivePosition | None:
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


def at_newest(queries: Queries, query: RunningQuery) -> dict[int, Any]:
    """Where it stands by both ways, if that is the newest batch of the commit log."""
    position = both_ways(query)
    assert position is not None
    assert position.batch_id == queries.commits()[-1]
    return plain(position)


CASES: list[tuple[Callable[[Plans], DataFrame], list[str | None]]] = [
    (Plans.two_joined, ["g-a", "g-b"]),
    (Plans.union, ["g-b", "g-a"]),
    (Plans.self_union, ["g-a"]),
    (Plans.self_join, ["g-a", "g-b"]),
    (Plans.same_topic_twice, ["g-1", "g-2"]),
    (Plans.pattern, ["g-p"]),
    (Plans.static_join, ["g-a"]),
    (Plans.rate_between, ["g-b", None, "g-a"]),
]


@pytest.mark.parametrize(("plan", "groups"), CASES, ids=[plan.__name__ for plan, _ in CASES])
def test_sources_by_index(
    plans: Plans, queries: Queries, plan: Callable[[Plans], DataFrame], groups: list[str | None]
) -> None:
    """Source i is that of the progress event; a position leaves out sources of other kinds."""
    found = queries.run(plan(plans))
    progress = json.loads(found.execution.lastProgress().json())["sources"]
    options = options_both_ways(found)
    assert [source.options.get("kafka.consumer.commit.groupid") for source in options] == groups
    assert [source.kafka for source in options] == [group is not None for group in groups]
    assert [source.index for source in options] == list(range(len(progress)))
    for source, reported in zip(options, progress, strict=True):
        assert source.options.get("subscribe", "") in reported["description"]
    read = {i: one["endOffset"] for i, one in enumerate(progress) if groups[i] is not None}
    assert {
        offset for ends in read.values() for topic in ends.values() for offset in topic.values()
    } == {5}
    assert plain(live_position(found)) == read
    queries.stop()
    assert plain(both_ways(found)) == read
    assert options_both_ways(found) == options


def test_old_reader_interface(spark: SparkSession, plans: Plans, queries: Queries) -> None:
    """Where Spark is told to read Kafka through the old interface, both are the same."""
    key = "spark.sql.streaming.disabledV2MicroBatchReaders"
    spark.conf.set(key, "org.apache.spark.sql.kafka010.KafkaSourceProvider")
    try:
        found = queries.run(plans.union())
    finally:
        spark.conf.unset(key)
    assert plain(both_ways(found)) == {0: {plans.b: {"0": 5}}, 1: {plans.a: {"0": 5}}}
    groups = [one.options["kafka.consumer.commit.groupid"] for one in options_both_ways(found)]
    assert groups == ["g-b", "g-a"]


def test_batch_between_triggers(plans: Plans, queries: Queries) -> None:
    """After a batch the position names it at once, not only when the next trigger comes."""
    found = queries.start(plans.topic_a(), {"processingTime": "1 hour"})
    until(lambda: (position := live_position(found)) is not None and position.committed)
    until(lambda: (position := both_ways(found)) is not None and position.batch_id == 0)
    assert plain(both_ways(found)) == {0: {plans.a: {"0": 5}}}


def test_commit_log_first(topics: Topics, plans: Plans, queries: Queries) -> None:
    """A batch that ran but could not be written to the commit log does not count."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 2)
    found = queries.run(plans.kafka("subscribe", topic, "g"))
    before = both_ways(found)
    last = queries.commits()[-1]
    (queries.checkpoint / "commits" / str(last + 1)).write_text("of another")
    topics.fill(topic, 3)
    queries.fails()
    assert both_ways(found) == before
    assert plain(before) == {0: {topic: {"0": 2}}}


@pytest.mark.parametrize("way", [by_shim, by_reflection])
def test_not_planned(
    spark: SparkSession, plans: Plans, queries: Queries, way: Callable[[RunningQuery], Any]
) -> None:
    """At its start, before the checkpoint is read, the answer is None; the query goes on."""
    seen: list[Any] = []

    class Early(Recorder):
        def hold(self, query: RunningQuery) -> None:
            super().hold(query)
            seen.append(way(query))
            seen.append(query_mode(query))

    with listening(Early(), spark):
        queries.run(plans.topic_a())
    assert seen == [None, QueryMode.MICRO_BATCH]


def test_available_now_without_data(
    spark: SparkSession, topics: Topics, plans: Plans, queries: Queries
) -> None:
    """A run that is over in a moment, with no batch at all, can be asked afterwards."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 4)
    data = plans.kafka("subscribe", topic, "g")
    queries.run(data)
    queries.stop()
    live = LiveQueries()
    with listening(Recorder(), spark) as recorder:
        query = data.writeStream.format("noop").trigger(availableNow=True)
        query.option("checkpointLocation", str(queries.checkpoint)).start().awaitTermination(60)
        assert drain(spark, 20)
    assert recorder.texts == []
    (begun,) = recorder.queries
    live.hold(begun)
    assert find(spark, begun.query_id, begun.run_id) is None
    assert live.position(begun.query_id, begun.run_id) == both_ways(begun)
    assert at_newest(queries, begun) == {0: {topic: {"0": 4}}}


SELDOM = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "3600000",
}
OFFSET_LOGS = [
    "1",
    pytest.param(
        "2", marks=pytest.mark.skipif(SPARK < (4, 2), reason="Spark 4.2 brings this offset log")
    ),
]


@pytest.mark.parametrize("offset_log", OFFSET_LOGS)
def test_asynchronous_progress(
    spark: SparkSession, topics: Topics, plans: Plans, queries: Queries, offset_log: str
) -> None:
    """With asynchronous progress tracking the position is what is written, not what has run."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 4)
    data = plans.kafka("subscribe", topic, "g").union(plans.topic_a())
    key = "spark.sql.streaming.offsetLog.formatVersion"
    spark.conf.set(key, offset_log)
    try:
        found = queries.run(data, **SELDOM)
    finally:
        spark.conf.unset(key)
    assert query_mode(found) is QueryMode.ASYNC_PROGRESS
    until(lambda: queries.commits() == [0])
    for _ in range(4):  # more than the logs keep in memory
        topics.fill(topic, 1)
        queries.finish()
    assert ":8}" in found.execution.committedOffsets().toString()
    position = both_ways(found)
    assert queries.commits() == [0]
    assert (queries.checkpoint / "offsets" / "0").read_text().startswith(f"v{offset_log}")
    assert position is not None
    first = {0: {topic: {"0": 4}}, 1: {plans.a: {"0": 5}}}
    assert (position.batch_id, plain(position)) == (0, first)
    queries.stop()
    assert both_ways(found) == position


def test_asynchronous_progress_is_written(topics: Topics, plans: Plans, queries: Queries) -> None:
    """The position of a source used twice follows what asynchronous progress tracking writes."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 4)
    data = plans.kafka("subscribe", topic, "g")
    often = SELDOM | {"asyncProgressTrackingCheckpointIntervalMs": "0"}
    found = queries.run(data.union(data), **often)
    topics.fill(topic, 4)
    queries.finish()
    until(lambda: plain(live_position(found)) == {0: {topic: {"0": 8}}})
    queries.stop()
    at_newest(queries, found)
    position = both_ways(found)
    found = queries.start(data.union(data), OFTEN, **often)
    until(lambda: live_position(found) is not None)
    assert both_ways(found) == position


def test_continuous(topics: Topics, plans: Plans, queries: Queries) -> None:
    """A continuous query moves its position with its epochs, and sends no progress events."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 4)
    data = plans.kafka("subscribe", topic, "g").select("v")
    found = queries.start(data, {"continuous": "300 milliseconds"})
    assert query_mode(found) is QueryMode.CONTINUOUS
    until(lambda: (position := live_position(found)) is not None and position.committed)
    topics.fill(topic, 3)
    until(lambda: plain(live_position(found)) == {0: {topic: {"0": 7}}})
    assert found.execution.lastProgress() is None
    queries.stop()
    at_newest(queries, found)
    found = queries.start(data, {"continuous": "300 milliseconds"})
    until(lambda: (position := live_position(found)) is not None and position.batch_id >= 0)
    assert plain(live_position(found)) == {0: {topic: {"0": 7}}}


@pytest.mark.skipif(SPARK < (4, 1), reason="Spark 4.1 brings this mode")
def test_real_time(spark: SparkSession, topics: Topics, plans: Plans, queries: Queries) -> None:
    """In real-time mode the position moves at the end of each batch, then its event comes."""
    topic, out = topics.create(partitions=1), topics.create(partitions=1)
    topics.fill(topic, 4)
    recorder = Recorder()
    listener = Forwarding(wrap(recorder, recorder.hold, spark))
    spark.streams.addListener(listener)
    key = "spark.sql.streaming.realTimeMode.minBatchDuration"
    spark.conf.set(key, "1000")
    try:
        data = plans.kafka("subscribe", topic, "g").selectExpr("v as value")
        found = queries.start(
            data,
            {"realTime": "1 second"},
            sink="kafka",
            mode="update",
            topic=out,
            **{"kafka.bootstrap.servers": topics.servers},
        )
        assert query_mode(found) is QueryMode.REAL_TIME
        until(lambda: recorder.texts)
        assert plain(both_ways(found)) == {0: {topic: {"0": 4}}}
        topics.fill(topic, 3)
        until(lambda: plain(live_position(found)) == {0: {topic: {"0": 7}}})
        queries.stop()
    finally:
        spark.conf.unset(key)
        spark.streams.removeListener(listener)
    at_newest(queries, found)


def test_no_lock_is_needed(plans: Plans, queries: Queries) -> None:
    """While the lock is taken by which a query makes progress, both ways answer."""
    found = queries.run(plans.topic_a())
    answers: list[LivePosition | None] = []

    def ask() -> None:
        answers.extend(way(found) for way in (by_shim, by_reflection))

    lock = found.execution.awaitProgressLock()
    asking = threading.Thread(target=ask)
    lock.lock()
    try:
        asking.start()
        asking.join(30)
    finally:
        lock.unlock()
    assert [plain(answer) for answer in answers] == [{0: {plans.a: {"0": 5}}}] * 2
