"""What of a writer's options tunes librdkafka's producer, and what is refused."""

from __future__ import annotations

import pytest

from eo_listener.client_config.kafka_options import (
    Partitioner,
    java_properties,
    producer_properties,
)
from eo_listener.errors import SettingsError


def test_what_both_clients_have() -> None:
    """Options that both clients have are translated to librdkafka's names."""
    assert producer_properties(
        {
            "kafka.linger.ms": "20",
            "kafka.compression.type": "zstd",
            "kafka.max.request.size": "2000000",
            "kafka.buffer.memory": "33554432",
            "kafka.acks": "-1",
            "kafka.enable.idempotence": "True",
            "kafka.bootstrap.servers": "host:1",
            "kafka.sasl.jaas.config": "secret",
            "topic": "t",
            "linger.ms": "7",
        }
    ) == {
        "linger.ms": "20",
        "compression.type": "zstd",
        "message.max.bytes": "2000000",
        "queue.buffering.max.kbytes": "32768",
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafka.acks", "1"),
        ("kafka.enable.idempotence", "false"),
        ("kafka.transactional.id", "mine"),
        ("kafka.transaction.timeout.ms", "1"),
        ("kafka.partitioner.ignore.keys", "true"),
        ("kafka.interceptor.classes", "com.example.I"),
        ("kafka.value.serializer", "com.example.S"),
        ("kafka.buffer.memory", "much"),
    ],
)
def test_what_is_refused(option: str, value: str) -> None:
    """A refused option is named in the error, and its value is not."""
    with pytest.raises(SettingsError, match=option) as caught:
        producer_properties({option: value})
    assert "com.example" not in str(caught.value)


def test_a_partitioner_is_for_java_alone() -> None:
    """It is told of the producer's other settings, but for those of the login."""
    options = {
        "kafka.partitioner.class": " com.example.P ",
        "kafka.partitioner.slots": "7",
        "kafka.linger.ms": "20",
        "kafka.ssl.key.password": "hunter2",
        "kafka.sasl.jaas.config": "hunter2",
        "topic": "t",
    }
    assert producer_properties(options) == {"linger.ms": "20"}
    assert "partitioner.class" not in java_properties(options)
    found = Partitioner.from_options(options)
    assert found is not None
    assert found.argument() == {
        "partitioner": "com.example.P",
        "partitionerProperties": {"partitioner.slots": "7", "linger.ms": "20"},
    }
    assert Partitioner.from_options({"kafka.linger.ms": "20"}) is None
