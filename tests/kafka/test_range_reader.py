"""How long readers wait, which answers of a broker are none yet, and how old records are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError as Answer
from confluent_kafka import Producer

from eo_listener.errors import KafkaError
from eo_listener.kafka import logs as logs_module
from eo_listener.kafka.client import ConnectionErrors
from eo_listener.kafka.logs import ClusterReader, GroupOffsets
from eo_listener.kafka.range_reader import RangeReader, oldest_records
from eo_listener.model.kafka_errors import COORDINATOR_MOVES, LEADER_MOVES, NO_TOPIC, PASSING
from eo_listener.offsets import OffsetRange, Position, TopicPartition
from tests.broker import Broker
from tests.topics import Topics

BUSY, SILENT = TopicPartition("out", 0), TopicPartition("out", 1)


def message(tp: TopicPartition, offset: int) -> Mock:
    told = {"topic": tp.topic, "partition": tp.partition, "offset": offset, "error": None}
    return Mock(**{f"{name}.return_value": value for name, value in told.items()})


def reader_of(monkeypatch: pytest.MonkeyPatch, *offsets: int) -> RangeReader:
    """One whose consumer gets these of a partition, and then more and more."""
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    made = RangeReader(properties, "test", committed=False, errors=ConnectionErrors("nowhere"))
    made.close()
    coming = chain(offsets, range(100, 400))

    def poll(_: float) -> Mock:
        time.sleep(0.01)
        return message(BUSY, next(coming))  # a StopIteration: it would go on for ever

    consumer = Mock(poll=poll, **{"consume.return_value": []})
    monkeypatch.setattr(made, "consumer", consumer)
    return made


def test_traffic_elsewhere_puts_no_deadline_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a partition which has been read to its end, behind it or in another one."""
    reading = reader_of(monkeypatch, 0).messages(
        {BUSY: OffsetRange(0, 1), SILENT: OffsetRange(0, 1)}, time.monotonic() + 0.2, silence=0.2
    )
    assert next(reading).offset() == 0
    with pytest.raises(KafkaError, match="reading out-1"):
        next(reading)


def test_what_is_to_be_read_puts_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as it comes."""
    ranges = {BUSY: OffsetRange(0, 60)}
    reading = reader_of(monkeypatch, *range(60)).messages(
        ranges, time.monotonic() + 0.3, silence=0.3
    )
    assert len(list(reading)) == 60


TP = TopicPartition("t", 0)


def test_the_names_are_those_of_librdkafka_or_of_java() -> None:
    """A misspelt one would never be met; what Java alone names so is listed here."""
    by_java = {"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR"}
    known = {Answer(code).name() for code in (*range(-200, 0), *range(130))}
    assert {*COORDINATOR_MOVES, *LEADER_MOVES, *NO_TOPIC, *PASSING} - known <= by_java


def answers(*codes: str) -> Callable[..., GroupOffsets]:
    """A reading that is refused with these codes first."""
    left: Iterator[str] = iter(codes)

    def ask(*_: object) -> GroupOffsets:
        for code in left:
            raise KafkaError("not now", code=code)
        return GroupOffsets(positions={TP: Position(offset=5)}, errors={})

    return ask


def test_a_reader_waits_for_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is being made or moves gives no answer about the group, so it is asked again."""
    monkeypatch.setattr(logs_module, "group_offsets", answers(*sorted(COORDINATOR_MOVES)))
    found = ClusterReader({"bootstrap.servers": "127.0.0.1:1"}).group("g", [TP])
    assert found == {TP: Position(offset=5)}


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        # After the time-out the coordinator's error is raised; a refusal at once;
        (answers(*["NOT_COORDINATOR"] * 1000), "NOT_COORDINATOR"),
        (answers("GROUP_AUTHORIZATION_FAILED"), "GROUP_AUTHORIZATION_FAILED"),
        (answers("_TRANSPORT"), "_TRANSPORT"),
        # and a refused topic is never left out as if the group held nothing there.
        (lambda *_: GroupOffsets(positions={}, errors={"t": "REFUSED"}), "REFUSED"),
    ],
)
def test_what_a_reader_does_not_wait_for(
    ask: Callable[..., GroupOffsets], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has Kafka's code."""
    monkeypatch.setattr(logs_module, "group_offsets", ask)
    with pytest.raises(KafkaError) as refused:
        ClusterReader({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.5).group("g", [TP])
    assert refused.value.code == code


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
    found = oldest_records(properties, offsets, seconds=60)
    assert time.monotonic() - begun < 12  # librdkafka's own pause is a second for each
    assert found.keys() == offsets.keys()
    assert all(before <= written <= time.time() * 1000 for written in found.values())
