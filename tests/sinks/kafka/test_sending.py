"""How the driver's producer waits: for other rows, for room, and never for what cannot come."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.transaction import BatchTransaction
from eo_listener.testing.made_up_entries import entry_of
from tests.broker import Broker
from tests.sinks.kafka.conftest import Place, letters, place_at, put, table, write

pytestmark = pytest.mark.kafka

BOTH = pytest.mark.parametrize("transactions", [True, False])
LINGERS = {"kafka.linger.ms": "20000"}


def sink_of(place: Place, transactions: bool, **more: Any) -> KafkaSink:
    given = {} if transactions else {"id": "value"}
    return place.sink(transactions=transactions, **given, **more)


@BOTH
def test_the_end_of_a_batch_does_not_linger(place: Place, transactions: bool) -> None:
    """As with Java's flush, kafka.linger.ms is for rows that may still come, not for the last."""
    sink = sink_of(place, transactions, options=LINGERS, timeout=10)
    begun = time.monotonic()
    write(sink)
    write(sink, 1)
    assert time.monotonic() - begun < 10
    assert place.values() == ["row 0", "row 1"]


@pytest.mark.spark
@BOTH
def test_the_end_of_a_batch_by_executors_does_not_linger(
    broker: Broker, spark: SparkSession, transactions: bool
) -> None:
    """Nor do the rows of their tasks, nor the driver's records of the ledger."""
    place = place_at(broker.bootstrap_servers)
    options = {"kafka.linger.ms": "60000"}
    frame = spark.sql("SELECT string(id) AS value FROM range(50)")
    with place.opened:
        sink = sink_of(place, transactions, options=options, timeout=10, write_method="executors")
        begun = time.monotonic()
        assert write(sink, rows=frame).rows == 50
        assert time.monotonic() - begun < 50
        assert len(place.values()) == 50


@pytest.mark.spark
def test_what_the_driver_hears_while_executors_send_is_not_kept(
    broker: Broker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer reports 50 times a second, for as long as a batch takes."""
    kept: list[int] = []
    place = place_at(broker.bootstrap_servers)

    def looked(self: BatchTransaction, entry: Entry) -> Collection[TopicPartition]:
        assert self._producer is not None
        kept.append(len(self._producer._producer))
        return write_ledger(self, entry)

    write_ledger = BatchTransaction.write_ledger
    monkeypatch.setattr(BatchTransaction, "write_ledger", looked)
    frame = spark.sql("SELECT string(java_method('java.lang.Thread', 'sleep', 3000L)) AS value")
    with place.opened:
        write(place.sink(write_method="executors"), rows=frame)
    assert kept
    assert max(kept) < 60


def test_a_full_queue_does_not_linger(place: Place) -> None:
    """As with Java's client: rows that wait for others make room for those that come."""
    topic = place.topics.create("target", 40)
    options = {**LINGERS, "kafka.buffer.memory": "1000000"}
    rows = table(*("x" * 500 for _ in range(6000)))
    rows = rows.append_column("partition", pa.array([at % 40 for at in range(6000)], pa.int32()))
    begun = time.monotonic()
    assert write(place.sink(topic, options=options), rows=rows).rows == 6000
    assert time.monotonic() - begun < 15
    assert len(place.values(topic)) == 6000


def test_rows_of_values_and_keys_alone(place: Place) -> None:
    """They wait for room too, in their order; one that is too large is a letter."""
    topic, dead = place.topics.create("target", 1), place.topics.create("dead", 1)
    options = {"kafka.buffer.memory": "1000000", "kafka.max.request.size": "100000"}
    texts = [f"{at:04}".ljust(150_000 if at == 3000 else 500, "x") for at in range(6000)]
    rows = table(*texts, key=pa.array(["one"] * 6000))
    sink = place.sink(topic, options=options, dead_letters=dead)
    assert write(sink, rows=rows) == Applied(rows=5999, dead_letters=1)
    assert place.values(topic) == [one for one in texts if len(one) == 500]
    (letter,) = letters(place, dead)
    assert letter["reason"].count("kafka.max.request.size")


def test_a_row_larger_than_the_whole_queue(place: Place) -> None:
    """It is refused as a row, with the option to change: there would never be room for it."""
    sink = place.sink(options={"kafka.buffer.memory": "100000"}, transaction_timeout=20)
    with pytest.raises(PoisonRowError, match=r"larger than kafka\.buffer\.memory"):
        write(sink, rows=table("x" * 150_000))


@BOTH
def test_a_ledger_that_does_not_fit(place: Place, transactions: bool) -> None:
    """Where records may be but small, those of the ledger are named, and not a row."""
    sink = sink_of(place, transactions, options={"kafka.max.request.size": "1000"})
    ranges = {TopicPartition("flights", at): OffsetRange(0, 100_000) for at in range(200)}
    with pytest.raises(SettingsError, match=r"ledger's record .* than kafka\.max\.request\.size"):
        put(sink, entry_of({}, ranges), table("a"))
    assert place.values() == []
