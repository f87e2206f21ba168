"""Where a group would go stale: starts without news, ends of all kinds, idle hours."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.events import Committed, QueryModeDetected
from tests.broker import Broker
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def held(queries: Queries, group: str) -> int:
    """The sum of the offsets that a group holds, 0 for none."""
    return sum(position.offset for position in queries.positions(group).values())


@pytest.mark.parametrize("available_now", [False, True])
def test_a_batch_whose_event_was_lost_is_caught_up_without_new_data(
    recording: Recording, queries: Queries, topics: Topics, available_now: bool
) -> None:
    """The driver died between commits/N and the event: a restart that finds no data commits N."""
    topic, group = topics.create(), unique("g")
    data = queries.read(subscribe=topic, eo__commit__group=group)
    topics.fill(topic, 100)
    first = recording.add(OffsetCommitListener())
    queries.drain(data)
    recording.end()
    assert held(queries, group) == 100
    topics.fill(topic, 50)
    queries.drain(data)  # nobody listens: the state that the crash leaves
    assert held(queries, group) == 100
    assert first is not None
    recording.observed()
    query = queries.start(data, drain=available_now)
    try:
        until(lambda: any(isinstance(event, Committed) for event in recording.events), 60)
    finally:
        query.stop()
    queries.assert_drained(group, topic)


def test_a_query_that_fails_leaves_its_last_batch_committed(
    listener: OffsetCommitListener, recording: Recording, queries: Queries, topics: Topics
) -> None:
    """A sink that raises ends the query; what was done before stands in the group, no more."""
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 40)

    data = queries.read(subscribe=topic, eo__commit__group=group)
    full = "if(cast(value as string) = '45', raise_error('the sink is full'), value) as value"
    query = queries.start(data.selectExpr(full), drain=False)
    query.processAllAvailable()
    topics.fill(topic, 50)
    with pytest.raises(Exception, match="the sink is full"):
        query.awaitTermination(60)
    assert listener.flush()
    (row,) = queries.described(group)
    assert (row.current_offset, row.lag) == (40, 50)


@pytest.mark.parametrize("recommit_interval", [2.0, 3600.0])
@pytest.mark.slow
def test_an_idle_query_keeps_its_offsets_by_its_recommit_alone(
    start_broker: Callable[..., Broker],
    spark: SparkSession,
    recording: Recording,
    recommit_interval: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """With a retention of a minute they are still there after two; without it they go."""
    broker = start_broker(
        properties={
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "5000",
        }
    )
    topics = Topics(broker.bootstrap_servers)
    queries = Queries(spark, broker, tmp_path_factory.mktemp("retention"))
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 30)
    listener = recording.add(OffsetCommitListener(recommit_interval=recommit_interval))
    query = queries.start(queries.read(subscribe=topic, eo__commit__group=group), drain=False)
    try:
        query.processAllAvailable()
        assert listener.flush()
        queries.assert_drained(group, topic)
        time.sleep(150)  # the first commit is repeated after a minute; another one until it goes
        assert held(queries, group) == (
            30 if recommit_interval < 60 else 0
        )  # the group itself goes too
    finally:
        query.stop()


def test_new_partitions_join_the_group(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Partitions added while the query runs are committed with the batch that reads them."""
    topic, group = topics.create(partitions=2), unique("g")
    topics.fill(topic, 20)
    data = queries.read(
        subscribe=topic, eo__commit__group=group, kafka__metadata__max__age__ms="500"
    )
    query = queries.start(data, drain=False)
    try:
        query.processAllAvailable()
        topics.widen(topic, 4)
        until(lambda: _read_all(queries, topics, topic, group, listener), 60)
        query.processAllAvailable()
    finally:
        query.stop()
    queries.assert_drained(group, topic, partitions=4)


def _read_all(
    queries: Queries, topics: Topics, topic: str, group: str, listener: OffsetCommitListener
) -> bool:
    topics.fill(topic, 20)
    time.sleep(1.0)
    listener.flush()
    rows = queries.described(group)
    return len(rows) == 4 and all(row.current_offset for row in rows)


def test_asynchronous_progress_follows_the_checkpoint(
    listener: OffsetCommitListener, recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Events that run ahead of the checkpoint are not committed; it is told, and lag ends at 0."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 60)
    data = queries.read(subscribe=topic, eo__commit__group=group).selectExpr("value")
    servers = queries.broker.bootstrap_servers
    query = (
        data.writeStream.format("kafka")  # the only sink that Spark lets it write to, beside noop
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topics.create("out"))
        .option("checkpointLocation", str(queries.folder / "async"))
        .option("asyncProgressTrackingEnabled", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", "1000")
        .start()
    )
    try:
        until(lambda: held(queries, group) == 60, 60)
    finally:
        query.stop()
    queries.assert_drained(group, topic)
    (noticed,) = recording.of(QueryModeDetected)
    assert "asynchronous" in noticed.mode


def test_a_continuous_query_is_committed_without_events(
    listener: OffsetCommitListener, recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Continuous processing sends no progress events: its checkpoint's epochs are committed."""
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 60)
    data = queries.read(subscribe=topic, eo__commit__group=group).selectExpr("value")
    query = (
        data.writeStream.format("noop")
        .option("checkpointLocation", str(queries.folder / "continuous"))
        .trigger(continuous="1 second")
        .start()
    )
    try:
        until(lambda: held(queries, group) == 60, 60)
    finally:
        query.stop()
    queries.assert_drained(group, topic, partitions=1)
    (noticed,) = recording.of(QueryModeDetected)
    assert noticed.mode == "continuous"
