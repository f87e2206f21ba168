"""What a batch by the executors is refused for, what is said, and that nothing of it was written.

`test_refusals` has what the driver finds by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import (
    EoListenerError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY
from tests.broker import Broker
from tests.conftest import StartBroker
from tests.sinks.kafka.conftest import Place, batch, place_at, put
from tests.sinks.kafka.records import committed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

METHODS = ("driver", "executors")
ROWS = "SELECT string(id) AS value FROM range(5)"


@pytest.fixture
def there(broker: Broker) -> Iterator[Place]:
    """Where batches of DataFrames are written to."""
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


def refused(
    sink: KafkaSink, frame: Any, place: Place, kind: type[EoListenerError], says: str
) -> str:
    """Write the first batch, of which nothing is seen; what is said."""
    with pytest.raises(kind, match=says) as caught:
        put(sink, batch({}), frame)
    assert type(caught.value) is kind
    assert (place.values(), sink.applied(QUERY)) == ([], {})
    return str(caught.value)


def test_rows_that_can_go_nowhere(there: Place, spark: SparkSession) -> None:
    """A topic that is null or unknown, or a partition that is not there, fails the batch."""
    other = there.topics.create("other", 1)
    two = there.sink([there.target, other], write_method="executors")
    rows = f"SELECT string(id) AS value, IF(id = 3, %s, '{other}') AS topic FROM range(5)"
    refused(two, spark.sql(rows % "NULL"), there, PoisonRowError, "topic")
    refused(two, spark.sql(rows % "'else'"), there, PoisonRowError, "topic")
    assert there.values(other) == []
    sink = there.sink(write_method="executors")
    for number in (2, -1):
        sql = f"SELECT string(id) AS value, IF(id = 3, {number}, NULL) AS partition FROM range(5)"
        refused(sink, spark.sql(sql), there, PoisonRowError, "partition")
    put(sink, batch({}), spark.sql(ROWS))
    assert there.values() == [*"01234"]


def test_columns_of_wrong_types(there: Place, spark: SparkSession) -> None:
    """Columns of Spark are refused by name and type; an untyped null is no value either."""
    sink = there.sink(write_method="executors")
    for columns, says in (
        ("id AS value", "'value' .* int64"),
        ("NULL AS value", "'value' .* null"),
        ("string(id) AS value, id AS key", "'key' .* int64"),
        ("string(id) AS value, id AS partition", "'partition' .* int64"),
        ("string(id) AS value, array('a') AS headers", "'headers' .* list"),
        ("string(id) AS text", "'value'"),
    ):
        frame = spark.sql(f"SELECT {columns} FROM range(5)")
        refused(sink, frame, there, SettingsError, says)


def test_a_record_that_is_too_large(there: Place, spark: SparkSession) -> None:
    """The client refuses the row, the brokers the batch; both name what is to be set."""
    frame = spark.sql("SELECT repeat('x', IF(id = 3, 1100000, 1)) AS value FROM range(5)")
    sink = there.sink(write_method="executors")
    refused(sink, frame, there, PoisonRowError, r"kafka\.max\.request\.size")
    larger = {"kafka.max.request.size": "3000000"}
    by_brokers = there.sink(write_method="executors", options=larger)
    refused(by_brokers, frame, there, SettingsError, r"max\.message\.bytes")
    put(sink, batch({}), spark.sql(ROWS))
    assert there.values() == [*"01234"]


def test_a_topic_that_is_given_more_partitions(there: Place, spark: SparkSession) -> None:
    """The batch under way is repeated, so that each key is in the partition that is its own now."""
    sink = there.sink(write_method="executors")
    frame = spark.sql("SELECT string(id) AS key, string(id) AS value FROM range(50)")

    def widen(name: str) -> None:
        if name == "sink.rows-written":
            there.topics.widen(there.target, 5)

    with hooked(widen), pytest.raises(RetriableSinkError, match="5 partitions"):
        put(sink, batch({}), frame)
    put(sink, batch({}), frame)
    found = {one.value(): one.partition() for one in committed(there.servers, there.target)}
    assert len(found) == 50
    assert set(found.values()) == set(range(5))


@pytest.mark.slow
def test_a_batch_that_outlives_its_transaction(
    start_broker: StartBroker, spark: SparkSession
) -> None:
    """Kafka aborts it and fences the driver; the error names the setting, and no other driver."""
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}
    place = place_at(start_broker(properties=quick).bootstrap_servers)
    with place.opened:
        for method, point in product(METHODS, ("sink.rows-written", "sink.ledger-moved")):
            sink = place.sink(write_method=method, transaction_timeout=2)

            def linger(name: str, point: str = point) -> None:
                if name == point:
                    time.sleep(4)

            with hooked(linger):
                says = refused(sink, spark.sql(ROWS), place, SinkError, "transaction_timeout=2 s")
            assert "Raise transaction_timeout=" in says
        put(place.sink(), batch({}), spark.sql(ROWS))
        assert place.values() == [*"01234"]


def test_a_partitioner_of_the_users(there: Place, spark: SparkSession) -> None:
    """It chooses for rows that name no partition; one that Java cannot load is refused at once."""
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    sink = there.sink(write_method="executors", options={"kafka.partitioner.class": name})
    sql = "SELECT 'k' AS key, string(id) AS value, IF(id = 9, 1, NULL) AS partition FROM range(10)"
    put(sink, batch({}), spark.sql(sql).coalesce(1))
    found = {one.value(): one.partition() for one in committed(there.servers, there.target)}
    assert (len(found), found[b"9"]) == (10, 1)
    assert set(found.values()) == {0, 1}  # by their key they would be in one
    absent = {"kafka.partitioner.class": "com.example.Absent"}
    broken = there.sink(name="b", write_method="executors", options=absent)
    with pytest.raises(SettingsError, match="ClassNotFoundException"):
        put(broken, batch({}), spark.sql(sql))
    assert len(there.values()) == 10
