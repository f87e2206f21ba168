"""A transaction for each Kafka partition, in the tasks that read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Wire
from pyspark.sql import DataFrame, SparkSession

from eo_listener.broker import Broker
from eo_listener.errors import ForeignWriterError, PoisonRowError, SettingsError
from eo_listener.ledger import Entry
from eo_listener.offsets import Span, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.entries import QUERY, entry_of, heads_of, plan_of
from tests.postgres.course import ask, script
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Spans: TypeAlias = "dict[TopicPartition, Span]"
Read: TypeAlias = "Callable[..., DataFrame]"


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Sixty records in three partitions, and a fourth without any."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=3)
    topics.fill(name, 60)
    topics.widen(name, 4)
    return name


@pytest.fixture(scope="module")
def spans(broker: Broker, topic: str) -> Spans:
    """What is in each of them."""
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"}) as asks:
        ends = [asks.get_watermark_offsets(Wire(topic, n), timeout=10)[1] for n in range(4)]
    return {TopicPartition(topic, number): Span(0, end) for number, end in enumerate(ends)}


@pytest.fixture(scope="module")
def read(spark: SparkSession, broker: Broker, topic: str, spans: Spans) -> Read:
    """Reads all of them as a batch: the tasks are those of a streaming query."""

    def reading(**more: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": topic,
            # As numbers, since a batch's tasks are not told what "earliest" and "latest" mean.
            "startingOffsets": json.dumps({topic: {tp.partition: 0 for tp in spans}}),
            "endingOffsets": json.dumps({topic: {tp.partition: spans[tp].until for tp in spans}}),
            **more,
        }
        loaded = spark.read.format("kafka").options(**options).load()
        return loaded.selectExpr("topic", "partition", "offset", "string(value) AS value")

    return reading


@pytest.fixture(scope="module")
def frame(read: Read) -> DataFrame:
    """All records."""
    return read()


def heads(dsn: str) -> list[Any]:
    return ask(dsn, 'SELECT "partition", next_offset FROM eo_ledger ORDER BY 1')


def apply(sink: PostgresSink, frame: DataFrame, entry: Entry) -> Any:
    return sink.apply(frame, entry, plan_of(entry))


def test_each_partition_is_written_once(dsn: str, frame: DataFrame, spans: Spans) -> None:
    """Rows and heads of every partition are there, and a second try of the same batch adds none."""
    sink = PostgresSink(dsn, "t", per_partition=True)
    entry = entry_of(sink.applied(QUERY), spans)
    assert apply(sink, frame, entry).rows == 60
    assert sink.applied(QUERY) == heads_of(entry)
    assert apply(sink, frame, entry).rows == 0
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]
    assert ask(dsn, "SELECT sum(rows) FROM eo_ledger_history") == [60]


def test_only_what_the_entry_holds_is_written(
    dsn: str, frame: DataFrame, topic: str, spans: Spans
) -> None:
    """A partition that was judged a replay has no move, and its task writes nothing."""
    sink = PostgresSink(dsn, "t", per_partition=True)
    first = entry_of(
        sink.applied(QUERY), {TopicPartition(topic, 1): spans[TopicPartition(topic, 1)]}
    )
    apply(sink, frame, first)
    assert ask(dsn, 'SELECT DISTINCT "partition" FROM t') == [1]
    rest = {tp: span for tp, span in spans.items() if tp.partition != 1}
    apply(sink, frame, entry_of(sink.applied(QUERY), rest))
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]


def test_one_bad_partition_leaves_the_others(
    dsn: str, frame: DataFrame, topic: str, spans: Spans
) -> None:
    """A refused row halts its partition alone, and the error names it."""
    script(dsn, 'CREATE TABLE t ("partition" int CHECK ("partition" <> 2), value text)')
    sink = PostgresSink(dsn, "t", per_partition=True)
    entry = entry_of(sink.applied(QUERY), spans)
    with pytest.raises(PoisonRowError) as caught:
        apply(sink, frame, entry)
    assert caught.value.partition == TopicPartition(topic, 2)
    assert caught.value.offset == 0
    assert 2 not in [number for number, _ in heads(dsn)]
    assert ask(dsn, 'SELECT DISTINCT "partition" FROM t ORDER BY 1') == [0, 1]


def test_a_foreign_head_is_refused_in_its_task(
    dsn: str, frame: DataFrame, topic: str, spans: Spans
) -> None:
    """A head that another driver has moved refuses that partition, and the others are written."""
    sink = PostgresSink(dsn, "t", per_partition=True)
    entry = entry_of(sink.applied(QUERY), spans)
    tp = TopicPartition(topic, 0)
    apply(sink, frame, entry_of({}, {tp: spans[tp]}, run_id="other"))
    with pytest.raises(ForeignWriterError, match="run other") as caught:
        apply(sink, frame, entry)
    assert caught.value.ranges == {tp: spans[tp]}
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]


def test_speculation_is_refused(dsn: str, spark: SparkSession) -> None:
    """A second attempt beside the first would take it for a zombie."""
    legacy = "spark.sql.legacy.setCommandRejectsSparkCoreConfs"
    spark.conf.set(legacy, "false")
    spark.conf.set("spark.speculation", "true")
    try:
        sink = PostgresSink(dsn, "t", per_partition=True)
        with pytest.raises(SettingsError, match=r"spark\.speculation=true"):
            apply(sink, spark.range(1), entry_of({}, {TopicPartition("t", 0): Span(0, 1)}))
    finally:
        spark.conf.unset("spark.speculation")
        spark.conf.unset(legacy)


@pytest.mark.parametrize("what", ["repartition", "coalesce", "union", "minPartitions", "range"])
def test_a_plan_with_other_tasks_is_refused(
    dsn: str, frame: DataFrame, read: Read, topic: str, spans: Spans, what: str
) -> None:
    """Where a task is not one partition's whole range, nothing is written."""
    changed = {
        "repartition": lambda: frame.repartition(4),
        "coalesce": lambda: frame.coalesce(1),
        "union": lambda: frame.union(frame),
        "minPartitions": lambda: read(minPartitions="9"),
        "range": lambda: frame,
    }[what]()
    sink = PostgresSink(dsn, "t", per_partition=True)
    if what == "range":  # what was planned is more than what the tasks read
        spans = {**spans, TopicPartition(topic, 0): Span(0, 1000)}
    with pytest.raises(SettingsError, match="per_partition=False"):
        apply(sink, changed, entry_of(sink.applied(QUERY), spans))
    assert heads(dsn) == []
