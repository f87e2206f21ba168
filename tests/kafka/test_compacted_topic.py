"""The newest value of each key of a topic, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Producer

from eo_listener.errors import KafkaError
from eo_listener.kafka.compacted_topic import CompactedTopic
from eo_listener.kafka.range_reader import RangeReader
from tests.topics import Topics, in_transaction, unique

pytestmark = pytest.mark.kafka

Topic = tuple[CompactedTopic, Topics]


@pytest.fixture
def made(topics: Topics) -> Iterator[Topic]:
    """A topic of two partitions, from which records can be deleted."""
    properties = {"bootstrap.servers": topics.servers}
    with closing(CompactedTopic(properties, unique("c"), timeout=20)) as topic:
        assert topic.policy() is None
        topic.create(2, {"cleanup.policy": "compact,delete"})
        yield topic, topics


def append(
    made: Topic, *records: tuple[str, str | None], partition: int = 0, commit: bool | None = None
) -> None:
    """Send records; in a transaction that is committed, aborted, or (None) in none."""
    topic, topics = made
    plain = Producer({"bootstrap.servers": topics.servers, "log_level": "0"})
    producer = plain if commit is None else in_transaction(topics.servers)
    for key, value in records:
        producer.produce(topic.topic, value, key, partition)
    assert producer.flush(30) == 0
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


def values(made: Topic) -> dict[str, str]:
    """All that there is."""
    reading = made[0].read(lambda key, value: True, pending_timeout=5.0)
    assert not reading.pending
    return {key.decode(): one.value.decode() for key, one in reading.values.items()}


def test_the_newest_value_of_each_key(made: Topic) -> None:
    """A null takes a key away, what was aborted never was; each reading goes on from the last."""
    assert values(made) == {}
    append(made, ("a", "1"), ("b", "1"), ("a", "2"))
    append(made, ("c", "1"), partition=1)
    assert values(made) == {"a": "2", "b": "1", "c": "1"}
    append(made, ("a", "3"), ("b", None), commit=False)
    append(made, ("c", "2"), partition=1, commit=True)
    assert values(made) == {"a": "2", "b": "1", "c": "2"}
    append(made, ("b", None), commit=True)
    assert values(made) == {"a": "2", "c": "2"}


def test_a_log_that_takes_several_readings(made: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading goes on from where the one before it was broken off."""
    records = [(str(number % 20), str(number)) for number in range(50)]
    append(made, *records)
    read = RangeReader.messages

    def late(self: RangeReader, *given: Any, **more: Any) -> Iterator[Any]:
        yield from islice(read(self, *given, **more), 20)
        raise KafkaError("reading failed", code="_TIMED_OUT")

    with monkeypatch.context() as patch:
        patch.setattr(RangeReader, "messages", late)
        for _ in range(2):
            with pytest.raises(KafkaError, match="reading failed"):
                values(made)
    seen: list[int] = []

    def noted(self: RangeReader, *given: Any, **more: Any) -> Iterator[Any]:
        for message in read(self, *given, **more):
            seen.append(message.offset())
            yield message

    monkeypatch.setattr(RangeReader, "messages", noted)
    assert values(made) == dict(records)
    assert min(seen) > 30


def test_more_partitions_and_records_that_are_gone(made: Topic) -> None:
    """Both are taken as they are now, and what was read before is still known."""
    append(made, ("a", "1"))
    assert values(made) == {"a": "1"}
    topic, topics = made
    topics.widen(topic.topic, 4)
    append(made, ("d", "1"), partition=3)
    assert values(made) == {"a": "1", "d": "1"}
    append(made, ("b", "1"), ("a", "2"))
    topics.forget_before(topic.topic, {0: 2})
    assert values(made) == {"a": "2", "d": "1"}


def test_a_topic_that_was_recreated(made: Topic) -> None:
    """Nothing of the old one is remembered, though the new one has as many records."""
    append(made, ("a", "1"))
    assert values(made) == {"a": "1"}
    topic, topics = made
    topics.delete(topic.topic)
    with pytest.raises(KafkaError, match="does not exist"):
        values(made)
    topics.create_as(topic.topic, 2)
    append(made, ("b", "1"))
    assert values(made) == {"b": "1"}


def test_an_open_transaction(made: Topic) -> None:
    """It is pending only for a read of a key behind its first record, and is named there."""
    topic, topics = made
    append(made, ("a", "1"), ("b", "1"))
    producer = in_transaction(topics.servers)
    producer.produce(topic.topic, "open", "other", 0)
    producer.flush(30)
    append(made, ("a", "2"))
    behind = topic.read(lambda key, _: key == b"a", pending_timeout=0.1)
    (pending,) = behind.pending
    assert (pending.key, pending.hidden) == (b"other", frozenset({b"a"}))
    assert behind.values[b"a"].value == b"1"
    assert not topic.read(lambda key, _: key == b"b", pending_timeout=0.0).pending
    assert topic.count_after(lambda key, _: key == b"a", 0) == 1
    producer.commit_transaction(30)
    assert values(made) == {"a": "2", "b": "1", "other": "open"}
    assert topic.count_after(lambda key, _: True, 0) == 0
