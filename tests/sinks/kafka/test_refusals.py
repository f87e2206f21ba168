"""What a batch is refused for, by the driver or by executors: nothing of it is written."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import (
    EoListenerError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    TopicRecreatedError,
)
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing.made_up_entries import QUERY, entry_of
from tests.conftest import StartBroker
from tests.sinks.chapters.store import once
from tests.sinks.kafka.conftest import TP, Place, batch, letters, place_at, put, table, write

pytestmark = pytest.mark.kafka

ROWS = "SELECT string(id) AS value FROM range(5)"
EXECUTORS = {"write_method": "executors"}


def refused(
    sink: KafkaSink, frame: Any, place: Place, kind: type[EoListenerError], says: str
) -> str:
    """Write the first batch, of which nothing is seen; what is said."""
    with pytest.raises(kind, match=says) as caught:
        put(sink, batch({}), frame)
    assert type(caught.value) is kind
    assert (place.values(), sink.applied(QUERY)) == ([], {})
    return str(caught.value)


def test_a_topic_that_is_missing(place: Place) -> None:
    """The error has the command that creates it."""
    refused(place.sink("nosuch"), table("a"), place, SettingsError, "--create --topic nosuch")


@pytest.mark.parametrize("change", ["recreated", "widened"])
def test_a_topic_that_changes_in_the_middle(place: Place, change: str) -> None:
    """The batch is not committed: records went to a topic, or partitions, of another layout."""
    sink = place.sink()
    entry = batch(sink.applied(QUERY))

    def alter() -> None:
        if change == "widened":
            place.topics.widen(place.target, 5)
        else:
            place.recreate()

    with once("sink.rows-written", alter), pytest.raises(RetriableSinkError, match=place.target):
        put(sink, entry, table("a"))
    put(sink, entry, table("again"))
    assert place.values() == ["again"]


@pytest.mark.parametrize("which", ["dead letters", "ledger"])
def test_another_topic_that_is_recreated_in_the_middle(place: Place, which: str) -> None:
    """A batch whose dead letters or ledger went to a topic that was deleted is not committed."""
    dead = place.topics.create("dead", 1)
    sink = place.sink(dead_letters=dead)
    rows = table("a", "bad", eo_poison=pa.array([None, "bad"]))
    entry = batch(sink.applied(QUERY))
    topic = dead if which == "dead letters" else place.ledger
    with (
        once("sink.ledger-moved", lambda: place.recreate(topic, 1, cleanup_policy="compact")),
        pytest.raises(RetriableSinkError),
    ):
        put(sink, entry, rows)
    assert place.values() == []
    place.recreate(dead, 1)
    put(sink, entry, rows)
    assert (place.values(), len(letters(place, dead))) == (["a"], 1)


@pytest.mark.parametrize("in_the_middle", [False, True])
def test_a_topic_that_was_recreated_after_a_batch(place: Place, in_the_middle: bool) -> None:
    """Nothing more is written: what the ledger says is applied was deleted with the older topic."""
    sink = place.sink(name="delays")
    write(sink)
    heads = sink.applied(QUERY)
    entry = batch(heads, 1)
    if in_the_middle:
        with once("sink.rows-written", place.recreate), pytest.raises(RetriableSinkError):
            put(sink, entry, table("lost"))
    else:
        place.recreate()
    for one in (sink, place.sink(name="delays")):  # a driver that is started again says it too
        with pytest.raises(TopicRecreatedError) as caught:
            put(one, entry, table("row 1"))
        assert caught.value.ranges == {TP: OffsetRange(3, 6)}
    assert (place.values(), sink.applied(QUERY)) == ([], heads)
    write(place.sink(name="again"))
    assert place.values() == ["row 0"]


def test_a_topic_that_is_given_more_partitions(place: Place) -> None:
    """Partitions may be added between two batches: the next batch writes to all of them."""
    sink = place.sink()
    write(sink)
    place.topics.widen(place.target, 5)
    write(sink, 1, table("last", partition=pa.array([4], pa.int32())))
    assert place.by_value()[b"last"].partition() == 4


def test_a_record_without_a_key_for_a_compacted_topic(place: Place) -> None:
    """The brokers refuse it, when the batch is under way; the error says what it lacks."""
    compacted = place.topics.create("compacted", 1, cleanup_policy="compact")
    sink = place.sink(compacted)
    with pytest.raises(SettingsError, match="key"):
        write(sink)
    assert (place.values(compacted), sink.applied(QUERY)) == ([], {})
    write(sink, rows=table("a", key=pa.array(["k"])))
    assert place.values(compacted) == ["a"]


def refuse_too_large(place: Place, frame: Any, good: Any, **method: Any) -> None:
    """The client refuses the row, the brokers the batch; both name what is to be set."""
    most = "kafka.max.request.size"
    refused(place.sink(**method), frame, place, PoisonRowError, most)
    by_brokers = place.sink(options={most: "3000000"}, **method)
    refused(by_brokers, frame, place, SettingsError, r"max\.message\.bytes")
    put(by_brokers, batch({}), good)
    assert place.values() == [*"01234"]


def test_a_record_that_is_too_large(place: Place) -> None:
    refuse_too_large(place, table("x" * 1_100_000, "b"), table(*"01234"))


@pytest.mark.spark
def test_a_record_of_executors_that_is_too_large(spark_place: Place, spark: SparkSession) -> None:
    frame = spark.sql("SELECT repeat('x', IF(id = 3, 1100000, 1)) AS value FROM range(5)")
    refuse_too_large(spark_place, frame, spark.sql(ROWS), **EXECUTORS)


def test_a_transaction_timeout_that_brokers_refuse(place: Place) -> None:
    """The error names the argument and the brokers' setting."""
    with pytest.raises(SettingsError, match="transaction_timeout=100000") as caught:
        write(place.sink(transaction_timeout=100_000))
    assert "transaction.max.timeout.ms" in str(caught.value)


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_that_outlives_its_transaction(
    start_broker: StartBroker, spark: SparkSession
) -> None:
    """Kafka aborts it and fences the driver; the error names the setting, and no other driver."""
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}
    place = place_at(start_broker(properties=quick).bootstrap_servers)
    with place.opened:
        for method, point in product(
            ("driver", "executors"), ("sink.rows-written", "sink.ledger-moved")
        ):
            sink = place.sink(write_method=method, transaction_timeout=2)
            with once(point, lambda: time.sleep(4)):
                refused(sink, spark.sql(ROWS), place, SinkError, "transaction_timeout=2 s")
        put(place.sink(), batch({}), spark.sql(ROWS))
        assert place.values() == [*"01234"]


@pytest.mark.spark
def test_rows_of_executors_that_can_go_nowhere(spark_place: Place, spark: SparkSession) -> None:
    """A topic that is null or unknown, no such partition, or a header without a key."""
    place, other = spark_place, spark_place.topics.create("other", 1)
    two, one = place.sink([place.target, other], **EXECUTORS), place.sink(**EXECUTORS)
    for sink, column, value in (
        (two, "topic", "NULL"),
        (two, "topic", "'else'"),
        (one, "partition", "2"),
        (one, "partition", "-1"),
        (
            one,
            "headers",
            "array(struct(CAST(NULL AS STRING) AS key, CAST('b' AS BINARY) AS value))",
        ),
    ):
        sane = f"'{other}'" if column == "topic" else "NULL"
        sql = f"SELECT string(id) AS value, IF(id = 3, {value}, {sane}) AS {column} FROM range(5)"
        refused(sink, spark.sql(sql), place, PoisonRowError, rf"{column.rstrip('s')}.*\(1 rows\)")
    assert place.values(other) == []
    wrong = spark.sql("SELECT string(id) AS value, id AS key FROM range(5)")
    refused(one, wrong, place, SettingsError, "'key' .* int64")
    put(one, batch({}), spark.sql(ROWS))
    assert place.values() == [*"01234"]


@pytest.mark.spark
def test_a_partitioner_of_the_users(spark_place: Place, spark: SparkSession) -> None:
    """It chooses for rows that name no partition; one that Java cannot load is refused at once."""
    place, name = spark_place, "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    sink = place.sink(options={"kafka.partitioner.class": name}, **EXECUTORS)
    sql = "SELECT 'k' AS key, string(id) AS value, IF(id = 9, 1, NULL) AS partition FROM range(10)"
    put(sink, batch({}), spark.sql(sql).coalesce(1))
    found = {value: message.partition() for value, message in place.by_value().items()}
    assert (len(found), found[b"9"]) == (10, 1)
    assert set(found.values()) == {0, 1}  # by their key they would be in one
    absent = {"kafka.partitioner.class": "com.example.Absent"}
    with pytest.raises(SettingsError, match="ClassNotFoundException"):
        put(place.sink(name="b", options=absent, **EXECUTORS), batch({}), spark.sql(sql))
    assert len(place.values()) == 10


def test_a_row_larger_than_the_whole_queue(place: Place) -> None:
    """It is refused as a row, with the option to change: there would never be room for it."""
    sink = place.sink(options={"kafka.buffer.memory": "100000"}, transaction_timeout=20)
    refused(sink, table("x" * 150_000), place, PoisonRowError, r"kafka\.buffer\.memory")


@pytest.mark.parametrize("transactions", [True, False])
def test_a_ledger_that_does_not_fit(place: Place, transactions: bool) -> None:
    """If records may be but small, those of the ledger are named, and not a row."""
    sink = place.sink(
        transactions=transactions,
        id=None if transactions else "value",
        options={"kafka.max.request.size": "1000"},
    )
    ranges = {TopicPartition("flights", at): OffsetRange(0, 100_000) for at in range(200)}
    with pytest.raises(SettingsError, match=r"ledger.*kafka\.max\.request\.size"):
        put(sink, entry_of({}, ranges), table("a"))
    assert place.values() == []
