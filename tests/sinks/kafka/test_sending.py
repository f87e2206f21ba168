"""How the driver's producer waits: for other rows, for room, and never for what cannot come."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.transaction import BatchTransaction
from tests.sinks.kafka.conftest import Place, letters, table, write

pytestmark = pytest.mark.kafka

BOTH = pytest.mark.parametrize("transactions", [True, False])


def lingering(place: Place, transactions: bool, seconds: int, **more: Any) -> KafkaSink:
    how: dict[str, Any] = {} if transactions else {"transactions": False, "id": "value"}
    options = {"kafka.linger.ms": f"{seconds}000"}
    return place.sink(timeout=10, options=options, **how, **more)


@BOTH
def test_the_end_of_a_batch_does_not_linger(place: Place, transactions: bool) -> None:
    """As with Java's flush, kafka.linger.ms is for rows that may still come, not for the last."""
    sink = lingering(place, transactions, 20)
    begun = time.monotonic()
    write(sink)
    write(sink, 1)
    assert time.monotonic() - begun < 10
    assert place.values() == ["row 0", "row 1"]


@pytest.mark.spark
@BOTH
def test_the_end_of_a_batch_by_executors_does_not_linger(
    spark_place: Place, spark: SparkSession, transactions: bool
) -> None:
    """Nor do the rows of their tasks, nor the driver's records of the ledger."""
    frame = spark.sql("SELECT string(id) AS value FROM range(50)")
    sink = lingering(spark_place, transactions, 60, write_method="executors")
    begun = time.monotonic()
    assert write(sink, rows=frame).rows == 50
    assert time.monotonic() - begun < 50
    assert len(spark_place.values()) == 50


@pytest.mark.spark
def test_what_the_driver_hears_while_executors_send_is_not_kept(
    spark_place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer reports 50 times a second, for as long as a batch takes."""
    kept: list[int] = []

    def looked(self: BatchTransaction, entry: Entry) -> Collection[TopicPartition]:
        assert self._producer is not None
        kept.append(len(self._producer._producer))
        return write_ledger(self, entry)

    write_ledger = BatchTransaction.write_ledger
    monkeypatch.setattr(BatchTransaction, "write_ledger", looked)
    frame = spark.sql("SELECT string(java_method('java.lang.Thread', 'sleep', 2000L)) AS value")
    write(spark_place.sink(write_method="executors"), rows=frame)
    assert kept
    assert max(kept) < 60


def test_a_full_queue_does_not_linger(place: Place) -> None:
    """As with Java's client: rows that wait for others make room for those that come."""
    topic = place.topics.create("target", 40)
    options = {"kafka.linger.ms": "20000", "kafka.buffer.memory": "1000000"}
    partition = pa.array([at % 40 for at in range(6000)], pa.int32())
    rows = table(*["x" * 500] * 6000, partition=partition)
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
    assert place.values(topic) == [text for text in texts if len(text) == 500]
    (letter,) = letters(place, dead)
    assert "kafka.max.request.size" in letter["reason"]
