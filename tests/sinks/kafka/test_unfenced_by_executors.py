"""Batches without transactions that executors write, on a real broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.model.ledger import Applied, Unexpected
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.row_identity import RowIdentity
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, heads_of, plan_of
from tests.broker import Broker
from tests.sinks.kafka.conftest import Place, batch, place_at, put
from tests.sinks.kafka.made_up_tasks import place_of
from tests.sinks.kafka.records import committed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ORIGIN = "'flights' AS topic, 0 AS partition, id AS offset"
# What Java and Python write alike, and in which order; keys and headers on some.
KINDS = (
    "SELECT IF(id % 5 = 0, NULL, concat('é \"\\\\\\\\/😀', char(int(id)), char(127))) AS s,"
    " int(id - 20) AS i, id % 7 = 0 AS b, tinyint(id) AS t, id * 5000000000 AS l,"
    " CAST(id / 10000000 AS decimal(20, 10)) AS d, date_add(DATE'1582-10-01', int(id)) AS day,"
    " CAST(concat('x', char(int(id))) AS binary) AS x, string(id) AS value,"
    " IF(id % 3 = 0, NULL, concat('key-', id)) AS key,"
    " IF(id % 2 = 0, NULL, array(struct('h' AS key, CAST('1' AS binary) AS value))) AS headers"
    " FROM range(0, 60, 1, 4)"
)
IDENTITY = ("s", "i", "b", "t", "l", "d", "day", "x")


@pytest.fixture
def there(broker: Broker) -> Iterator[Place]:
    """Where batches of DataFrames are written to."""
    made = place_at(broker.bootstrap_servers)
    with made.opened:
        yield made


def open_sink(place: Place, topic: str | None = None, **more: Any) -> KafkaSink:
    return place.sink(topic, **{"transactions": False, **more})


def rows(spark: SparkSession, until: int, *, value: str = "concat('row ', id)") -> DataFrame:
    """A row without a key for each offset, the last one first, over several tasks."""
    made = spark.sql(f"SELECT {ORIGIN}, {value} AS value FROM range(0, {until}, 1, 3)")
    return made.sort("offset", ascending=False)


def by_partition(place: Place, topic: str | None = None) -> dict[int, list[Any]]:
    found = defaultdict(list)
    for one in committed(place.servers, topic or place.target):
        found[one.partition()].append((one.key(), one.value(), one.headers()))
    return dict(found)


def test_an_identity_is_the_same_text_in_java_and_in_python(
    there: Place, spark: SparkSession
) -> None:
    """Whatever it is made of; in each partition rows are in its order.

    A row without a key goes where its text says.
    """
    frame, sink, entry = spark.sql(KINDS), open_sink(there, id=IDENTITY), batch({})
    assert put(sink, entry, frame) == Applied(rows=60)
    order = [str(row.value) for row in frame.sort(*IDENTITY).select("value").collect()]
    there_now: dict[str, tuple[TopicPartition, int]] = {}
    for partition, records in by_partition(there).items():
        places = [order.index(value.decode()) for _, value, _ in records]
        assert places == sorted(places)
        for key, _, headers in records:
            identity = RowIdentity.of(headers)
            assert identity is not None
            assert key is not None or place_of(identity.values, 2) == partition
            there_now[identity.values] = TopicPartition(there.target, partition), 0
    assert len(there_now) == 60
    assert sink._choice.task_rows(frame, plan_of(entry), IDENTITY).absent(there_now) == {}


@pytest.mark.slow
def test_a_batch_that_was_broken_off_is_finished(
    there: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two tries have left is left out, by its identity, and the order goes on.

    The executors need no Python for it.
    """
    entry = batch({}, size=300)
    with broken_off("sink.rows-written"), pytest.raises(Killed):
        put(open_sink(there), entry, rows(spark, 100))
    foreign = Producer({"bootstrap.servers": there.servers, "log_level": 0})
    foreign.produce(there.target, "row 99999", partition=1)
    assert foreign.flush(10) == 0
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    sink = open_sink(there)
    with broken_off("sink.rows-written"), pytest.raises(Killed):
        put(sink, entry, rows(spark, 200))
    later = batch(sink.applied(QUERY), size=300, run_id="later")
    applied = put(sink, later, rows(spark, 300))
    assert (applied.rows, [one.kind for one in applied.unexpected]) == (300, [Unexpected.FOREIGN])
    numbers = {
        number: [int(value.split()[1]) for _, value, _ in found]
        for number, found in by_partition(there).items()
    }
    numbers[1].remove(99999)
    assert sorted(numbers[0] + numbers[1]) == list(range(300))
    assert all(found == sorted(found) for found in numbers.values())
    after = batch(heads_of(later), 1, size=2, run_id="later")
    assert put(sink, after, rows(spark, 302).where("offset >= 300")).rows == 2


def test_two_rows_of_one_identity_in_two_partitions(there: Place, spark: SparkSession) -> None:
    """They are found all the same: no task sees both."""
    value = "IF(id = 7, 'a', 'b') AS key, concat('row ', id)"
    twice = rows(spark, 9, value=value).union(rows(spark, 9, value="'other' AS key, 'x'").limit(1))
    with pytest.raises(PoisonRowError, match=r"two rows of one identity \(1 such rows\)"):
        put(open_sink(there), batch({}, size=9), twice)
    assert open_sink(there).applied(QUERY) == {}


def test_a_text_of_an_identity_that_is_not_utf_8(there: Place, spark: SparkSession) -> None:
    """Decoded it would be equal to others: the row is refused, and not for being there twice."""
    bytes_ = "SELECT CAST(unhex(x) AS string) AS s, x AS value FROM VALUES ('61'), ('FF'), ('FE')"
    with pytest.raises(PoisonRowError, match=r"not UTF-8.*keep it binary \(2 rows\)"):
        put(open_sink(there, id="s"), batch({}), spark.sql(f"{bytes_} AS given(x)"))


def test_nothing_is_there_behind_a_record_that_failed(there: Place, spark: SparkSession) -> None:
    """Else a batch that is repeated could not put it in its place."""
    topic = there.topics.create("target", 1, max_message_bytes="2000")
    value = "IF(id = 400, repeat('x', 5000), concat('row ', id))"
    sink = open_sink(there, topic, options={"kafka.batch.size": "1"})
    with pytest.raises(SettingsError, match="larger than its topic"):
        put(sink, batch({}, size=800), rows(spark, 800, value=value))
    (found,) = by_partition(there, topic).values()
    numbers = [int(value.split()[1]) for _, value, _ in found]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) <= 400
    assert put(sink, batch({}, size=800), rows(spark, 800)).rows == 800
    (found,) = by_partition(there, topic).values()
    assert [int(value.split()[1]) for _, value, _ in found] == list(range(800))


def test_a_transform_that_fails_leaves_a_batch_that_is_finished(
    there: Place, spark: SparkSession
) -> None:
    """It may have been begun, and rows sent: the next run finishes it, with each row once."""
    sink = open_sink(there)
    failing = "IF(id = 700, raise_error('of the user'), concat('row ', id))"
    with pytest.raises(Exception, match="of the user"):
        put(sink, batch({}, size=800), rows(spark, 800, value=failing))
    assert sink.applied(QUERY) == {}
    later = batch({}, size=800, run_id="later")
    assert put(open_sink(there), later, rows(spark, 800)).rows == 800
    found = [int(value.split()[1]) for one in by_partition(there).values() for _, value, _ in one]
    assert sorted(found) == list(range(800))
