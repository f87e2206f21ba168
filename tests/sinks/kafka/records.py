"""What a reader under read_committed is shown of a topic."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as Wire

from eo_listener.kafka.client import answer_of

_LEADERS = 5.0  # seconds for the leaders of a topic that was just created
_SETTLE = 1.0  # seconds for the markers of a commit that was answered


def committed(servers: str, topic: str, *, settle: float = _SETTLE) -> list[Any]:
    """All messages, partition by partition; waits for the end of open transactions, a moment."""
    with closing(_consumer(servers, "read_committed")) as consumer:
        _settles(consumer, servers, topic, settle)
        left, found = set(_partitions(consumer, topic)), []
        consumer.assign([Wire(topic, part, OFFSET_BEGINNING) for part in sorted(left)])
        deadline = time.monotonic() + 30
        while left:
            assert time.monotonic() < deadline, f"the end of {topic} does not come"
            first = consumer.poll(0.1)
            for message in [] if first is None else [first, *consumer.consume(1000, timeout=0)]:
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.name() == "_PARTITION_EOF", error
                    left.discard(message.partition())
        return found


def is_settled(servers: str, topic: str, *, settle: float = 5.0) -> bool:
    """Whether no transaction is open in it, once a moment has passed."""
    with closing(_consumer(servers, "read_committed")) as consumer:
        return _settles(consumer, servers, topic, settle)


def _settles(consumer: Consumer, servers: str, topic: str, settle: float) -> bool:
    with closing(_consumer(servers, "read_uncommitted")) as other:
        parts = _partitions(consumer, topic)
        deadline = time.monotonic() + settle
        while _ends(consumer, topic, parts) != _ends(other, topic, parts):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions)


def _ends(consumer: Consumer, topic: str, parts: list[int]) -> list[int]:
    """Where its partitions end; one of a new topic may have no leader for a moment."""
    wire = [Wire(topic, part, OFFSET_END) for part in parts]
    deadline = time.monotonic() + _LEADERS
    while True:
        try:
            return [part.offset for part in consumer.offsets_for_times(wire, timeout=10)]
        except KafkaException as error:
            no_leader = answer_of(error).name() == "NOT_LEADER_FOR_PARTITION"
            if not no_leader or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _consumer(servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "tests-records",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
