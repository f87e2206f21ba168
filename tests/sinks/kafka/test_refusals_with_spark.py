"""What a batch of Spark's rows is refused for, by both write methods.

What is said, and that nothing of it was written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.kafka.java_transactions import JavaTransactions
from eo_listener.model.errors import (
    EoListenerError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    TopicRecreatedError,
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


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_can_go_nowhere(there: Place, spark: SparkSession, method: str) -> None:
    """A topic that is null or unknown, or a partition that is not there, fails the batch."""
    other = there.topics.create("other", 1)
    two = there.sink([there.target, other], write_method=method)
    rows = f"SELECT string(id) AS value, IF(id = 3, %s, '{other}') AS topic FROM range(5)"
    refused(two, spark.sql(rows % "NULL"), there, PoisonRowError, "its topic is null")
    refused(two, spark.sql(rows % "'else'"), there, PoisonRowError, "none of those that the sink")
    assert there.values(other) == []
    sink = there.sink(write_method=method)
    for number in (2, -1):
        sql = f"SELECT string(id) AS value, IF(id = 3, {number}, NULL) AS partition FROM range(5)"
        refused(sink, spark.sql(sql), there, PoisonRowError, "its partition")
    put(sink, batch({}), spark.sql(ROWS))
    assert there.values() == [*"01234"]


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_wrong_types(there: Place, spark: SparkSession, method: str) -> None:
    """Columns are refused by name before a task runs; an untyped null is no value either."""
    sink = there.sink(write_method=method)
    for columns, says in (
        ("id AS value", "'value' must be .* got int64"),
        ("NULL AS value", "'value' must be .* got null"),
        ("string(id) AS value, id AS key", "'key' must be .* got int64"),
        ("string(id) AS value, id AS partition", "'partition' must be .* got int64"),
        ("string(id) AS value, array('a') AS headers", "'headers' must be .* got list"),
        ("string(id) AS text", "no column 'value'"),
    ):
        frame = spark.sql(f"SELECT {columns} FROM range(5)")
        refused(sink, frame, there, SettingsError, says)


@pytest.mark.parametrize("method", METHODS)
def test_a_record_that_is_too_large(there: Place, spark: SparkSession, method: str) -> None:
    """The client refuses the row, the brokers the batch; both name what is to be set."""
    frame = spark.sql("SELECT repeat('x', IF(id = 3, 1100000, 1)) AS value FROM range(5)")
    sink = there.sink(write_method=method)
    refused(sink, frame, there, PoisonRowError, r"kafka\.max\.request\.size")
    larger = {"kafka.max.request.size": "3000000"}
    by_brokers = there.sink(write_method=method, options=larger)
    refused(by_brokers, frame, there, SettingsError, r"max\.message\.bytes")
    put(sink, batch({}), spark.sql(ROWS))
    assert there.values() == [*"01234"]


@pytest.mark.parametrize("method", METHODS)
def test_a_topic_that_is_recreated(there: Place, spark: SparkSession, method: str) -> None:
    """The batch is not committed, and not repeated where earlier ones went to the older topic."""
    sink = there.sink(write_method=method)
    put(sink, batch({}), spark.sql(ROWS))
    heads = sink.applied(QUERY)

    def recreate(name: str) -> None:
        if name == "sink.rows-written":
            there.topics.delete(there.target)
            there.topics.create_as(there.target, 2)

    entry = batch(heads, 1)
    with hooked(recreate), pytest.raises(RetriableSinkError, match="created again while"):
        put(sink, entry, spark.sql(ROWS))
    with pytest.raises(TopicRecreatedError, match="since the last batch"):
        put(sink, entry, spark.sql(ROWS))
    assert (there.values(), sink.applied(QUERY)) == ([], heads)


@pytest.mark.parametrize("method", METHODS)
def test_a_topic_that_is_given_more_partitions(
    there: Place, spark: SparkSession, method: str
) -> None:
    """The batch under way is repeated, so that each key is in the partition that is its own now."""
    sink = there.sink(write_method=method)
    frame = spark.sql("SELECT string(id) AS key, string(id) AS value FROM range(50)")

    def widen(name: str) -> None:
        if name == "sink.rows-written":
            there.topics.widen(there.target, 5)

    with hooked(widen), pytest.raises(RetriableSinkError, match="has 5 partitions now and had 2"):
        put(sink, batch({}), frame)
    put(sink, batch({}), frame)
    found = {one.value(): one.partition() for one in committed(there.servers, there.target)}
    assert len(found) == 50
    assert set(found.values()) == set(range(5))


@pytest.mark.parametrize("method", METHODS)
def test_a_transaction_timeout_that_brokers_refuse(
    there: Place, spark: SparkSession, method: str
) -> None:
    """The error names the argument and the brokers' setting."""
    sink = there.sink(write_method=method, transaction_timeout=100_000)
    says = refused(sink, spark.sql(ROWS), there, SettingsError, "transaction_timeout=100000")
    assert "transaction.max.timeout.ms" in says


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


def test_where_internals_are_missing_rows_go_through_the_driver(
    there: Place,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The batches are written as with write_method="driver", and the sink says so once."""
    lacks = "NoSuchFieldException: transactionManager"
    monkeypatch.setattr(JavaTransactions, "missing", lambda self: lacks)
    sink = there.sink(write_method="executors")
    with caplog.at_level(logging.WARNING, "eo_listener"):
        put(sink, batch({}), spark.sql(ROWS))
        put(sink, batch(sink.applied(QUERY), 1), spark.sql(ROWS))
    assert there.values() == sorted("01234" * 2)
    assert [lacks in line for line in caplog.messages] == [True]


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
