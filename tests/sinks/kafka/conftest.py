"""What the tests of the Kafka sink open, on the broker that all share, and the chapters' store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.ledger_repair import KafkaLedgerRepair
from eo_listener.sinks.kafka.transaction import BatchTransaction
from eo_listener.testing.faults import broken_off
from eo_listener.testing.made_up_entries import QUERY, Row, entry_of, plan_of
from tests.broker import Broker
from tests.sinks.chapters.store import Store
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.made_up_tasks import with_made_up_tasks
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

TP = TopicPartition("flights", 0)


@dataclass(kw_only=True)
class Place:
    """A target and a ledger of a test's own; sinks that are opened here are closed at its end."""

    servers: str
    topics: Topics
    target: str
    ledger: str
    opened: ExitStack = field(default_factory=ExitStack)

    def sink(self, topic: str | Sequence[str] | None = None, **more: Any) -> KafkaSink:
        options = {"kafka.bootstrap.servers": self.servers, **more.pop("options", {})}
        sink = KafkaSink(options, topic or self.target, **{"ledger_topic": self.ledger, **more})
        return self.opened.enter_context(closing(sink))

    def plain_sink(self, topic: str | None = None, **more: Any) -> KafkaSink:
        return self.sink(topic, transactions=False, **more)

    def values(self, topic: str | None = None, *, settle: float = 5.0) -> list[str]:
        """What a reader under read_committed is shown."""
        found = committed(self.servers, topic or self.target, settle=settle)
        return sorted(message.value().decode() for message in found)

    def by_partition(self, topic: str | None = None) -> dict[int, list[Any]]:
        """The messages of each partition, in their order."""
        found: dict[int, list[Any]] = {}
        for message in committed(self.servers, topic or self.target):
            found.setdefault(message.partition(), []).append(message)
        return found

    def by_value(self) -> dict[bytes, Any]:
        return {message.value(): message for message in committed(self.servers, self.target)}

    def produce(self, topic: str, value: bytes, key: bytes | None = None, **more: Any) -> None:
        """Append a record of nobody's."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        producer.produce(topic, value, key, **more)
        assert producer.flush(10) == 0

    def recreate(self, topic: str | None = None, partitions: int = 2, **config: str) -> None:
        self.topics.delete(topic or self.target)
        self.topics.create_as(topic or self.target, partitions, **config)


def place_at(servers: str) -> Place:
    topics = Topics(servers)
    target = topics.create("target", 2)
    return Place(servers=servers, topics=topics, target=target, ledger=unique("ledger"))


@pytest.fixture
def spark_place(broker: Broker) -> Iterator[Place]:
    """Where batches of DataFrames are written to."""
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


@pytest.fixture
def place(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where batches of Arrow tables are written to."""
    without_spark(monkeypatch)
    with_made_up_tasks(monkeypatch)
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


def batch(
    heads: Mapping[TopicPartition, Head], number: int = 0, *, size: int = 3, **more: Any
) -> Entry:
    """The entry of a batch of `size` offsets after `heads`."""
    start = heads[TP].range.until if TP in heads else 0
    return entry_of(heads, {TP: OffsetRange(start, start + size)}, batch_id=number, **more)


def table(*values: str | None, **columns: Any) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.string()), **columns})


def write(sink: KafkaSink, number: int = 0, rows: pa.Table | None = None, **more: Any) -> Applied:
    """Write the next batch, of one row where no others are given."""
    entry = batch(sink.applied(QUERY), number, **more)
    return put(sink, entry, table(f"row {number}") if rows is None else rows)


def put(sink: KafkaSink, entry: Entry, rows: pa.Table) -> Applied:
    return sink.apply(rows, entry, plan_of(entry))


@contextmanager
def left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill a driver just before its commit: no request ends its transaction."""
    with monkeypatch.context() as patch, broken_off("sink.ledger-moved"):
        patch.setattr(BatchTransaction, "close", lambda self, failed: None)
        yield


def letters(place: Place, topic: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in place.values(topic)]


class KafkaStore(Store):
    first = "next"  # the history is that of repairs, which do not know what was before

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.opened = place.opened

    @property
    def name(self) -> str:
        return self.place.target

    def make_sink(self) -> KafkaSink:
        return self.place.sink()

    def make_repair(self) -> KafkaLedgerRepair:
        return KafkaLedgerRepair({"bootstrap.servers": self.place.servers}, self.place.ledger)

    def repair(self) -> KafkaLedgerRepair:
        return self.opened.enter_context(closing(self.make_repair()))

    def frame(self, rows: list[Row]) -> pa.Table:
        return table(*map(json.dumps, rows))

    def rows(self) -> list[Row]:
        return rows_in(self.place)


def rows_in(place: Place, *, settle: float = 5.0) -> list[Row]:
    return [tuple(json.loads(one)) for one in place.values(settle=settle)]


@pytest.fixture
def store(place: Place) -> KafkaStore:
    return KafkaStore(place)
