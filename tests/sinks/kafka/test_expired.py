"""A sink that stood still until Kafka forgot it, and one whose epochs are used up."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.errors import ForeignWriterError, KafkaError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.kafka.java_transactions import DescribedTransaction, JavaTransactions
from eo_listener.kafka.producers import BatchProducer
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.faults import Killed
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests import waiting
from tests.attack.messages import Messages
from tests.conftest import StartBroker, kafka_version
from tests.groups import positions
from tests.sinks.chapters.store import once
from tests.sinks.kafka.conftest import Place, batch, left_open, place_at, put, table, write
from tests.sinks.kafka.frames import without_spark
from tests.sinks.kafka.records import is_settled
from tests.topics import unique

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LONGEST = 2**15 - 1  # an epoch is a short of Java's
LAST = LONGEST - 1  # what a producer is given; with the one behind it brokers end transactions
SIZE = 20  # rows of a batch
FORGETS = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "3000",
    "producer.id.expiration.check.interval.ms": "1000",
}


def identity(place: Place) -> tuple[int, int]:
    """Take the sink's transactional id over; return the producer id and the epoch."""
    properties = {"bootstrap.servers": place.servers}
    name = sink_transactional_id(place.target, QUERY)
    producer = BatchProducer(properties, name, transaction_timeout=60, joined=True)
    producer.take_over(30)
    try:
        return producer.identity(30)
    finally:
        producer.leave()


def test_kafka_has_forgotten_the_group_and_the_transactional_id(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has forgotten nothing: the next batch follows the last, and the group is back."""
    without_spark(monkeypatch)
    place = place_at(start_broker(properties=FORGETS).bootstrap_servers)
    with place.opened:
        source = TopicPartition(place.topics.create("source", 1), 0)
        group = unique("group")
        sink = place.sink(group=group)
        first = entry_of({}, {source: OffsetRange(0, 3)}, topic_id=None)
        put(sink, first, table("row 0"))
        before, _ = identity(place)
        # A coordinator that is only being made is waited for.
        waiting.until(lambda: held(place, group) == {source: 3}, 30, despite=KafkaError)
        forgotten = "the group is remembered"
        waiting.until(lambda: not held(place, group), 180, forgotten, despite=KafkaError)
        time.sleep(5)  # beyond the transactional id's expiration, too
        heads = sink.applied(QUERY)
        assert heads == heads_of(first)
        second = entry_of(heads, {source: OffsetRange(3, 6)}, batch_id=1, topic_id=None)
        put(sink, second, table("row 1"))
        assert place.values() == ["row 0", "row 1"]
        assert sink.applied(QUERY) == heads_of(second)
        waiting.until(lambda: held(place, group) == {source: 6}, 30, despite=KafkaError)
        after, _ = identity(place)
        assert after != before, "the transactional id was remembered"


def held(place: Place, group: str) -> dict[TopicPartition, int]:
    return {tp: one.offset for tp, one in positions(place.servers, group).items()}


@pytest.mark.spark
def test_tasks_join_before_and_after_the_epochs_run_out(
    spark_place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is written at its first try, by the last epoch of an id and the first of the next:
    the coordinator names the new producer id for the transaction that the tasks have joined.
    """
    place = spark_place
    joined: list[tuple[int, int]] = []
    describe = JavaTransactions.describe

    def described(self: JavaTransactions, name: str, timeout: float) -> DescribedTransaction:
        found = describe(self, name, timeout)
        joined.append((found.producer_id, found.epoch))
        return found

    monkeypatch.setattr(JavaTransactions, "describe", described)
    sink = place.sink(write_method="executors")
    write(sink, rows=numbered(spark, 0))
    _take_over(place, until=LAST - 3)
    for number in range(1, 7):
        write(sink, number, numbered(spark, number))
    assert place.values() == sorted(f"row {number}" for number in range(7 * SIZE))
    assert is_settled(place.servers, place.target)
    (first, _), *_, (last, _) = joined
    assert first != last, "the epochs did not run out"
    assert joined[1:] == [
        *((first, LAST - at) for at in (2, 1, 0)),
        *((last, at) for at in range(3)),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("epoch", [LAST - 2, LAST - 1, LAST])
def test_a_driver_died_in_one_of_the_last_epochs(
    spark_place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    """To end what it has left open takes an epoch more, or the next id; its batch is there once."""
    place = spark_place
    first, second = (place.sink(write_method="executors") for _ in range(2))
    write(first, rows=numbered(spark, 0))
    _take_over(place, until=epoch - 1)
    with left_open(monkeypatch), pytest.raises(Killed):
        write(first, 1, numbered(spark, 1))
    write(second, 1, numbered(spark, 1))
    write(second, 2, numbered(spark, 2))
    assert place.values() == sorted(f"row {number}" for number in range(3 * SIZE))
    assert is_settled(place.servers, place.target)
    assert is_settled(place.servers, place.ledger)


@pytest.mark.spark
@pytest.mark.parametrize("point", ["sink.copying", "sink.ledger-moved"])
@pytest.mark.parametrize("write_method", ["driver", "executors"])
def test_a_driver_was_suspended_in_the_last_epoch(
    spark_place: Place, spark: SparkSession, write_method: str, point: str
) -> None:
    """Its successor has another producer id; it writes nothing, and says why, as in any epoch."""
    place = spark_place
    zombie, successor = (place.sink(write_method=write_method) for _ in range(2))
    write(zombie, rows=numbered(spark, 0))
    _take_over(place, until=LAST - 1)
    heads = zombie.applied(QUERY)
    late, later = batch(heads, 1), batch(heads, 1, run_id="successor")
    writer = SinkWriter(RetryLimits(), time.sleep, time.monotonic)
    with (
        once(point, lambda: put(successor, later, numbered(spark, 1))),
        pytest.raises(ForeignWriterError),
    ):
        writer.write(zombie, numbered(spark, 2), late, plan_of(late))
    assert place.values() == sorted(f"row {number}" for number in range(2 * SIZE))
    assert zombie.applied(QUERY) == heads_of(later)
    assert is_settled(place.servers, place.target)


def numbered(spark: SparkSession, batch: int) -> DataFrame:
    return spark.sql(
        f"SELECT concat('row ', id) AS value FROM range({batch * SIZE}, {(batch + 1) * SIZE}, 1, 3)"
    )


def _take_over(place: Place, *, until: int) -> int:
    """Ask for producer ids, as fast as the broker answers, up to an epoch; return how often."""
    messages = Messages(kafka_version())
    api, version = messages.api("InitProducerId"), 2
    asked = {
        "TransactionalId": sink_transactional_id(place.target, QUERY),
        "TransactionTimeoutMs": 60_000,
        "ProducerId": -1,
        "ProducerEpoch": -1,
    }
    body = messages.request(api).encode(version, asked)
    host, _, port = place.servers.partition(":")
    count = 0
    with (
        closing(socket.create_connection((host, int(port)), 30)) as link,
        link.makefile("rb") as answers,
    ):
        while True:
            head = b"".join(
                (number).to_bytes(size, "big")
                for number, size in ((api, 2), (version, 2), (count, 4))
            )
            frame = head + b"\xff\xff\x00" + body  # no client id, no tagged fields
            link.sendall(len(frame).to_bytes(4, "big") + frame)
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
            fields = messages.reply(api).decode(version, answer[5:])
            count += 1
            assert fields["ErrorCode"] in (0, 51), fields  # 51: the last one's end is not written
            if fields["ErrorCode"] == 0 and fields["ProducerEpoch"] >= until:
                return count
