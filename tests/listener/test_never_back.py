"""A group is never taken back unnoticed: older checkpoints, other writers, recreated topics."""

from __future__ import annotations

import shutil
import time

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame

from eo_listener import OffsetCommitListener
from eo_listener.events import (
    CommitRefused,
    Committed,
    ForeignCommit,
    GroupOffsetsMissing,
    Refusal,
    TopicRecreated,
)
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from tests.attack.offsets_topic import OffsetsTopic, audit
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def put(queries: Queries, group: str, at: dict[TopicPartition, Position]) -> None:
    """Commit as somebody else does."""
    groups = SimpleGroups({"bootstrap.servers": queries.broker.bootstrap_servers})
    assert set(groups.commit(group, at, timeout=20).values()) == {None}
    groups.close()


@pytest.mark.parametrize("on_rewind", ["refuse", "allow"])
def test_a_restart_from_an_older_checkpoint(
    recording: Recording, queries: Queries, topics: Topics, on_rewind: str
) -> None:
    """By default the group stays, and the refusal names who is ahead; allowed, it is recorded.

    Every commit is read back from the log of the broker, not only where it all ended. The second
    batch waits until the first was answered for: a busy committer would be offered the last alone.
    """
    topic, group = topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    data = queries.read(subscribe=topic, eo__commit__group=group, maxOffsetsPerTrigger="50")
    settings = {"on_rewind": on_rewind, "observers": [recording.events.append]}
    listener = recording.add(OffsetCommitListener(**settings))  # type: ignore[arg-type]  # of two kinds
    topics.fill(topic, 50)
    queries.drain(data, "first")
    shutil.copytree(queries.folder / "c", queries.folder / "older")
    topics.fill(topic, 100)
    queries.drain(data, "first")
    assert listener.flush()
    recording.end()
    again = recording.add(OffsetCommitListener(**settings))  # type: ignore[arg-type]  # of two kinds
    topics.fill(topic, 50)
    before = len(recording.events)

    def answered() -> bool:
        since = recording.events[before:]
        return any(isinstance(event, CommitRefused | Committed) for event in since)

    def held(_: DataFrame, batch_id: int) -> None:
        if batch_id == 2:  # the older checkpoint has batch 0
            until(answered, 60)

    query = queries.start(data, "first", checkpoint="older", each=held)
    assert query.awaitTermination(90)
    assert again.flush()
    queries.assert_drained(group, topic, partitions=1)
    history = OffsetsTopic(queries.broker).effects(group)
    assert audit(history) == ()
    refused = recording.of(CommitRefused)
    rewound = [one.rewound_from for one in history if one.rewound_from is not None]
    if on_rewind == "refuse":
        assert rewound == []
        assert refused[0].refusal is Refusal.BELOW_GROUP
        assert refused[0].obstacles[tp] == 150
        assert refused[0].writer is not None
        assert refused[0].writer.name == "first"
    else:
        assert rewound == [150]
        assert not refused


def test_a_second_writer_is_named(recording: Recording, queries: Queries, topics: Topics) -> None:
    """Another run of the query, and a tool, are told apart; what they put back is healed."""
    topic, group = topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 30)
    listener = recording.observed(recommit_interval=1.0)
    data = queries.read(subscribe=topic, eo__commit__group=group, failOnDataLoss="false")
    query = queries.start(data, "mine", drain=False)
    query.processAllAvailable()
    assert listener.flush()
    ours = CommitMetadata.parse(queries.positions(group)[tp].metadata)
    assert ours is not None
    zombie = CommitMetadata.for_batch(
        name="mine", query_id=ours.query_id, run_id="deadbeef", batch_id=0
    )
    for text in (zombie.text(), ""):
        put(queries, group, {tp: Position(offset=10, metadata=text)})
        topics.fill(topic, 1)
        query.processAllAvailable()
        listener.flush()
    query.stop()
    assert listener.flush()
    told = recording.of(ForeignCommit)
    assert [(event.zombie, event.writer) for event in told] == [(True, zombie), (False, None)]
    assert all(event.group_offsets[tp] == 10 for event in told)
    queries.assert_drained(group, topic, partitions=1)


def delete(queries: Queries, group: str) -> None:
    """Delete a group as `kafka-consumer-groups --delete` does."""
    admin = AdminClient({"bootstrap.servers": queries.broker.bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(timeout=30)


def vanished(recording: Recording, group: str) -> list[GroupOffsetsMissing]:
    """What was told of this group."""
    return [event for event in recording.of(GroupOffsetsMissing) if event.group == group]


def test_a_deleted_group_is_reported_and_filled_again_by_a_recommit(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Its query idles, and recommits come more often than the group is otherwise looked at."""
    topic, group = topics.create(partitions=2), unique("g")
    topics.fill(topic, 30)
    listener = recording.observed(recommit_interval=1.0)
    query = queries.start(queries.read(subscribe=topic, eo__commit__group=group), drain=False)
    query.processAllAvailable()
    assert listener.flush()
    offsets = {tp: position.offset for tp, position in queries.positions(group).items()}

    def told() -> bool:
        if queries.positions(group):  # again: it may have gone between a look and its commit
            delete(queries, group)
        time.sleep(2.0)
        return bool(vanished(recording, group))

    until(told, 60)
    until(lambda: len(queries.positions(group)) == 2, 60)
    query.stop()
    assert listener.flush()
    assert all(event.offsets == offsets for event in vanished(recording, group))
    queries.assert_drained(group, topic, partitions=2)


def test_a_recreated_topic_gets_nothing_of_the_old_one(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Deleted and made anew under a running query: one clear event, and no old offset lands."""
    topic, other, group = topics.create(partitions=1), topics.create(partitions=1), unique("g")
    topics.fill(topic, 100)
    topics.fill(other, 10)
    listener = recording.observed(recommit_interval=1.0)
    data = queries.read(
        subscribe=f"{topic},{other}", eo__commit__group=group, failOnDataLoss="false"
    )
    query = queries.start(data, drain=False)
    query.processAllAvailable()
    assert listener.flush()
    topics.delete(topic)
    topics.create_as(topic, 1)
    topics.fill(topic, 300)
    until(lambda: recording.of(TopicRecreated))
    query.stop()
    assert not listener.flush()  # the query is further than its group: that is no success
    (told,) = recording.of(TopicRecreated)
    assert (told.topic, told.was == told.now) == (topic, False)
    held = queries.positions(group)
    assert TopicPartition(topic, 0) not in held
    assert held[TopicPartition(other, 0)].offset == 10
