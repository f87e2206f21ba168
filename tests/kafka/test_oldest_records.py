"""When the oldest records were written, of many partitions at once."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from eo_listener.kafka.range_reader import oldest_records
from eo_listener.offsets import TopicPartition
from tests.broker import Broker
from tests.topics import Topics

_PARTITIONS = 24


@pytest.mark.kafka
def test_no_partition_waits_for_the_records_of_another(broker: Broker) -> None:
    """A broker sends one that has a large batch by itself; the next is asked for at once."""
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    topic = Topics(broker.bootstrap_servers).create(partitions=_PARTITIONS)
    producer = Producer({**properties, "linger.ms": 50})
    before = round(time.time() * 1000)
    for number in range(_PARTITIONS * 1000):
        producer.produce(topic, value=b"x" * 100, partition=number % _PARTITIONS)
    assert producer.flush(30) == 0
    offsets = {TopicPartition(topic, number): 500 for number in range(_PARTITIONS)}
    begun = time.monotonic()
    found = oldest_records(properties, offsets, committed=False, seconds=60)
    assert time.monotonic() - begun < 12  # librdkafka's own pause is a second for each
    assert found.keys() == offsets.keys()
    assert all(before <= written <= time.time() * 1000 for written in found.values())
