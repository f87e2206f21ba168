"""Topics with records, for tests against a real broker."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.waiting import until

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A name that no other test of this or an earlier run has used."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


def in_transaction(servers: str, transactional_id: str | None = None) -> Producer:
    own = {"transactional.id": transactional_id or unique("tx"), "log_level": "0"}
    producer = Producer({"bootstrap.servers": servers, **own})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def send_offset(producer: Producer, servers: str, group: str, topic: str, offset: int) -> None:
    """Of partition 0, as a part of the open transaction."""
    settings = {"bootstrap.servers": servers, "group.id": group, "log_level": "0"}
    with closing(Consumer(settings)) as consumer:
        members = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([Wire(topic, 0, offset)], members, 30)


class Topics:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})

    def create(self, prefix: str = "t", partitions: int = 3, **config: str) -> str:
        """Create a topic with a name of its own; settings have a `_` for each dot."""
        name = unique(prefix)
        self.create_as(name, partitions, **config)
        return name

    def create_as(self, name: str, partitions: int = 3, **config: str) -> None:
        """Create a topic of this name, and wait until the broker knows it and leads it.

        By then a Java producer may else be refused, with OUT_OF_ORDER_SEQUENCE_NUMBER for long.
        """
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, partitions, 1, config=settings)
        self._admin.create_topics([new])[name].result(timeout=30)
        until(lambda: self._is_led(name, partitions), 30, f"{name} has no leader")

    def _is_led(self, topic: str, partitions: int) -> bool:
        # The client looks for leaders in what it has seen of the topic, new partitions or not:
        # it does not ask again by itself.
        seen = self._admin.list_topics(topic, timeout=10).topics[topic]
        if seen.error is not None or len(seen.partitions) < partitions:
            return False
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
        wanted = {Wire(topic, number): latest for number in range(partitions)}
        answers = self._admin.list_offsets(wanted, request_timeout=10).values()
        return all(answer.exception(timeout=30) is None for answer in answers)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(timeout=30)
        until(lambda: not self.exists(topic), 30)

    def exists(self, topic: str) -> bool:
        return topic in self._admin.list_topics(timeout=10).topics

    def widen(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions in all, and wait until the broker leads them."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(timeout=30)
        until(lambda: self._is_led(topic, partitions), 30, f"{topic} has no leader")

    def forget_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records below these offsets by partition, as retention does."""
        wire = [Wire(topic, partition, offset) for partition, offset in offsets.items()]
        for done in self._admin.delete_records(wire).values():
            done.result(timeout=30)

    def fill(self, topic: str, records: int, *, transactional: bool = False) -> None:
        """Append records with the keys 0, 1, 2, ...; in one transaction where asked."""
        numbers = ({"key": str(number), "value": str(number)} for number in range(records))
        self.produce(topic, numbers, transactional=transactional)

    def produce(
        self, topic: str, records: Iterable[Mapping[str, Any]], *, transactional: bool = False
    ) -> None:
        settings = {"bootstrap.servers": self.servers, "linger.ms": "5", "log_level": "0"}
        producer = in_transaction(self.servers) if transactional else Producer(settings)
        for one in records:
            producer.produce(topic, **one)
            producer.poll(0)
        if transactional:
            producer.commit_transaction(30)
        assert producer.flush(30) == 0
