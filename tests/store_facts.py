"""Facts about a `GroupStore` of the simple mode, for modules with fixtures `store` and `reader`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from eo_listener.errors import KafkaError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.model.kafka_errors import NO_TOPIC
from eo_listener.model.protocols import GroupSnapshot, GroupStore
from eo_listener.offsets import Position, TopicPartition
from tests.broker import Broker
from tests.groups import insist
from tests.topics import Topics, unique
from tests.waiting import until

T = TopicPartition


def at(offset: int, *partitions: TopicPartition) -> Mapping[TopicPartition, Position]:
    return {tp: Position(offset=offset, metadata=f"m{offset}") for tp in partitions}


def test_what_is_committed_is_read_back(
    store: GroupStore, reader: ClusterReader, topics: Topics
) -> None:
    """Offsets and metadata come back as they were sent, without a NUL; other groups stay empty."""
    topic, group = topics.create(), unique("g")
    positions = at(5, T(topic, 0), T(topic, 2))
    insist(store, group, positions)
    assert reader.group(group) == positions
    assert reader.group(unique("other")) == {}


def test_one_deleted_topic_does_not_hide_that_the_others_landed(
    store: GroupStore, reader: ClusterReader, topics: Topics
) -> None:
    """The answer is told for each partition: librdkafka itself gives all the error of one."""
    kept, deleted, group = topics.create(), topics.create(), unique("g")
    insist(store, group, at(1, T(kept, 0), T(deleted, 0)))
    topics.delete(deleted)
    answer = dict(store.commit(group, at(7, T(kept, 0), T(kept, 1), T(deleted, 0)), timeout=8))
    assert answer.pop(T(deleted, 0)) in NO_TOPIC
    assert answer == {T(kept, 0): None, T(kept, 1): None}
    assert reader.group(group) == at(7, T(kept, 0), T(kept, 1))


def test_a_snapshot_shows_where_group_and_logs_stand(
    store: GroupStore, topics: Topics, broker: Broker
) -> None:
    """Held offsets, both ends of each log and the topic's id, as Kafka's own files spell it."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 300)
    insist(store, group, at(5, T(topic, 0), T(topic, 2)))
    partitions = [T(topic, number) for number in range(3)]
    before = store.snapshot(group, partitions, timeout=8)
    topics.forget_before(topic, {0: 7})
    found = store.snapshot(group, partitions, timeout=8)
    assert found.positions == at(5, T(topic, 0), T(topic, 2))
    assert found.starts == {T(topic, 0): 7, T(topic, 1): 0, T(topic, 2): 0}
    assert found.ends == before.ends
    assert sum(found.ends.values()) == 300
    stored = next(broker.data.rglob(f"{topic}-0/partition.metadata")).read_text()
    assert stored.split("topic_id: ")[1].strip() == found.topic_ids[topic]


def test_a_snapshot_leaves_out_what_does_not_exist(store: GroupStore, topics: Topics) -> None:
    """An unknown topic, partition or group is no error, and is in none of the answers."""
    topic = topics.create(partitions=1)
    found = store.snapshot(unique("g"), [T(topic, 0), T(topic, 9), T("nosuch", 0)], timeout=8)
    assert found.positions == {}
    assert found.starts == found.ends == {T(topic, 0): 0}
    assert list(found.topic_ids) == [topic]


def test_a_snapshot_shows_a_topic_change(store: GroupStore, topics: Topics) -> None:
    """A client that is kept sees partitions that were added, and a topic that was recreated."""
    topic, group = topics.create(partitions=1), unique("g")
    both = [T(topic, 0), T(topic, 1)]
    first = store.snapshot(group, both, timeout=8)
    assert list(first.ends) == both[:1]
    topics.widen(topic, 2)
    look_until(store, group, both, lambda snapshot: list(snapshot.ends) == both)
    topics.delete(topic)
    look_until(store, group, both, lambda snapshot: not snapshot.topic_ids and not snapshot.ends)
    topics.create_as(topic, partitions=2)
    topics.fill(topic, 50)
    last = look_until(store, group, both, lambda snapshot: sum(snapshot.ends.values()) == 50)
    assert last.topic_ids != first.topic_ids


def look_until(
    store: GroupStore,
    group: str,
    partitions: Collection[TopicPartition],
    enough: Callable[[GroupSnapshot], bool],
) -> GroupSnapshot:
    """Look until the answer will do; a broker that still opens its new logs says so."""

    def look() -> GroupSnapshot | None:
        found = store.snapshot(group, partitions, timeout=8)
        return found if enough(found) else None

    return until(look, 30, despite=KafkaError)
