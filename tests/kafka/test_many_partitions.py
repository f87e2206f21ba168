"""Groups of more partitions than one request to a real coordinator can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.events import CommitFailed, Committed, Event, Observers
from eo_listener.kafka.group_stores import open_groups
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.kafka.logs import ClusterReader
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Position, TopicPartition
from eo_listener.spark.jvm.calls import JvmShimClient
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.spark_session import spark
from tests.topics import Topics, unique

__all__ = ["spark"]

pytestmark = pytest.mark.kafka

METADATA = "x" * 100
Place = tuple[str, tuple[TopicPartition, ...]]
MODES = ("simple", "member", "transactional")
MANY = 800
MOST_AT_ONCE = 50_000  # bytes of a record batch, where a broker takes fewer than by default


def commit_all(
    servers: str, partitions: tuple[TopicPartition, ...], store: Callable[[], GroupStore]
) -> tuple[list[Event], int]:
    """Commit to all of them; return what was told, and how many the group then holds."""
    group, events = unique("g"), list[Event]()
    positions = {tp: Position(offset=0, metadata=METADATA) for tp in partitions}
    cluster = Cluster.from_properties({"bootstrap.servers": servers})
    committer = Committer(lambda _: store(), observers=Observers(events.append))
    try:
        committer.offer(GroupOffsets(cluster=cluster, group=group, positions=positions))
        assert committer.flush(180), [one for one in events if isinstance(one, CommitFailed)]
    finally:
        committer.close(1)
    with closing(ClusterReader({"bootstrap.servers": servers}, timeout=60)) as reader:
        return events, len(reader.group(group, partitions, stable=True))


def place_of(broker: Broker, *sizes: int) -> Place:
    """Topics of so many partitions each."""
    topics = [Topics(broker.bootstrap_servers).create(partitions=size) for size in sizes]
    with closing(ClusterReader({"bootstrap.servers": broker.bootstrap_servers})) as reader:
        return broker.bootstrap_servers, reader.partitions(topics)


@pytest.fixture(scope="module")
def narrow() -> Iterator[Place]:
    """A broker that takes small record batches, and a topic of many partitions."""
    limit = {"message.max.bytes": str(MOST_AT_ONCE)}
    with Broker(version=kafka_version(), properties=limit) as broker:
        yield place_of(broker, MANY)


@pytest.mark.parametrize("mode", MODES)
def test_a_coordinator_that_takes_less_is_sent_less(narrow: Place, mode: str) -> None:
    """What does not fit into its record batches is sent in smaller parts, until all has landed."""
    servers, partitions = narrow
    events, held = commit_all(
        servers, partitions, lambda: open_groups({"bootstrap.servers": servers}, mode)
    )
    assert held == MANY
    failed = {one.code: one.cause for one in events if isinstance(one, CommitFailed)}
    (told,) = {cause for cause in failed.values() if "max.message.bytes" in cause}
    assert "__consumer_offsets" in told
    assert sum(isinstance(one, Committed) for one in events) > 1


@pytest.mark.spark
@pytest.mark.slow
def test_by_java_too(
    narrow: Place,
    spark: SparkSession,  # its JVM
) -> None:
    """Spark's own client is told the same by its own name, and the parts get smaller."""
    servers, partitions = narrow
    events, held = commit_all(
        servers, partitions, lambda: JavaGroups(JvmShimClient(), {"bootstrap.servers": servers})
    )
    assert held == MANY
    assert any(isinstance(one, CommitFailed) and "max.message" in one.cause for one in events)


@pytest.fixture(scope="module")
def wide() -> Iterator[Place]:
    """A broker of which nothing is changed, and more partitions than fit into one request."""
    with Broker(version=kafka_version()) as broker:
        yield place_of(broker, *[300] * 5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_more_than_one_request_holds(wide: Place, mode: str) -> None:
    """All are read and committed, in parts that a coordinator takes by default."""
    servers, partitions = wide
    events, held = commit_all(
        servers, partitions, lambda: open_groups({"bootstrap.servers": servers}, mode)
    )
    landed = [len(one.offsets) for one in events if isinstance(one, Committed)]
    assert held == 1500
    assert sum(landed) >= 1500  # more if the first answer was lost, while its coordinator was made
    assert max(landed) <= 1000
