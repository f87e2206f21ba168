"""What the tests of the broker do with Kafka."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import Position, TopicPartition


def admin(servers: str, **properties: str) -> AdminClient:
    """Return a quiet client."""
    return AdminClient({"bootstrap.servers": servers, "log_level": "0", **properties})


def create(servers: str, topic: str, partitions: int = 1) -> None:
    """Create a topic and wait for it."""
    client = admin(servers)
    client.create_topics([NewTopic(topic, partitions)])[topic].result(timeout=20)


def produce(servers: str, topic: str, count: int, **properties: str) -> None:
    """Write records and wait until all are acknowledged."""
    producer = Producer({"bootstrap.servers": servers, "log_level": "0", **properties})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(20) == 0


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    """Commit one offset; a coordinator that is still being made is asked again."""
    partition = TopicPartition(topic, 0)
    groups = SimpleGroups({"bootstrap.servers": servers})
    deadline = time.monotonic() + 20
    try:
        while True:
            try:
                answer = groups.commit(group, {partition: Position(offset=offset)}, timeout=5)
                if answer[partition] is None:
                    return
            except KafkaError:
                pass  # the same as an error in the answer: asked again until the deadline
            assert time.monotonic() < deadline, "the offset was not committed"
            time.sleep(0.2)
    finally:
        groups.close()
