"""A transaction for each Kafka partition, in the tasks that read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Wire
from pyspark.sql import DataFrame, SparkSession

from eo_listener.errors import ForeignWriterError, PoisonRowError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests.broker import Broker
from tests.sinks.postgres.course import Database
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

OffsetRanges: TypeAlias = "dict[TopicPartition, OffsetRange]"


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Sixty records in three partitions, and a fourth without any."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=3)
    topics.fill(name, 60)
    topics.widen(name, 4)
    return name


@pytest.fixture(scope="module")
def ranges(broker: Broker, topic: str) -> OffsetRanges:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"}) as asks:
        ends = [asks.get_watermark_offsets(Wire(topic, n), timeout=10)[1] for n in range(4)]
    return {TopicPartition(topic, number): OffsetRange(0, end) for number, end in enumerate(ends)}


@pytest.fixture(scope="module")
def frame(spark: SparkSession, broker: Broker, topic: str, ranges: OffsetRanges) -> DataFrame:
    """All records as a batch, whose tasks are those of a streaming query."""
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        # As numbers, since a batch's tasks are not told what "earliest" and "latest" mean.
        "startingOffsets": json.dumps({topic: {tp.partition: 0 for tp in ranges}}),
        "endingOffsets": json.dumps({topic: {tp.partition: ranges[tp].until for tp in ranges}}),
    }
    loaded = spark.read.format("kafka").options(**options).load()
    return loaded.selectExpr("topic", "partition", "offset", "string(value) AS value")


@pytest.fixture
def sink(db: Database) -> PostgresSink:
    """A sink whose tasks write, however small the batch."""
    return db.sink(atomicity="partition", executor_rows=0)


ROWS = "SELECT count(*), count(DISTINCT value) FROM t"
WRITTEN = 'SELECT DISTINCT "partition" FROM t ORDER BY 1'
TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM eo_ledger"


def apply(sink: PostgresSink, frame: DataFrame, ranges: OffsetRanges, *numbers: int) -> Any:
    """Apply the next batch, whose plan is `ranges`, as far as it is of these partitions."""
    some = {tp: ranges[tp] for tp in ranges if not numbers or tp.partition in numbers}
    entry = entry_of(sink.applied(QUERY), some)
    return sink.apply(frame, entry, replace(plan_of(entry), sources={0: ranges}))


def test_each_partition_is_written_once(
    db: Database, sink: PostgresSink, frame: DataFrame, ranges: OffsetRanges
) -> None:
    """Rows and heads of every partition are there, and a second try of the same batch adds none."""
    entry = entry_of(sink.applied(QUERY), ranges)
    seen: list[str] = []
    with hooked(seen.append):
        assert sink.apply(frame, entry, plan_of(entry)).rows == 60
        assert sink.applied(QUERY) == heads_of(entry)
        assert sink.apply(frame, entry, plan_of(entry)).rows == 0
    assert "sink.copying" not in seen  # the driver only moves the head of the empty partition
    assert db.ask(ROWS) == [(60, 60)]
    assert db.ask("SELECT sum(rows) FROM eo_ledger_history") == [60]
    assert db.ask(TRANSACTIONS) == [4]


@pytest.mark.parametrize("rows", [0, 1000])
def test_only_what_the_entry_holds_is_written(
    db: Database, frame: DataFrame, ranges: OffsetRanges, rows: int
) -> None:
    """A partition that was judged a replay has no move: nobody writes it."""
    sink = db.sink(atomicity="partition", executor_rows=rows)
    apply(sink, frame, ranges, 1)
    assert db.ask(WRITTEN) == [1]
    apply(sink, frame, ranges, 0, 2, 3)
    assert db.ask(ROWS) == [(60, 60)]


def test_one_bad_partition_leaves_the_others(
    db: Database, sink: PostgresSink, frame: DataFrame, topic: str, ranges: OffsetRanges
) -> None:
    """A refused row fails its partition alone, and the error names it."""
    db.script('CREATE TABLE t ("partition" int CHECK ("partition" <> 2), value text)')
    with pytest.raises(PoisonRowError) as caught:
        apply(sink, frame, ranges)
    assert caught.value.partition == TopicPartition(topic, 2)
    assert caught.value.offset == 0
    assert 2 not in db.ask('SELECT "partition" FROM eo_ledger')
    assert db.ask(WRITTEN) == [0, 1]


def test_a_foreign_head_is_refused_in_its_task(
    db: Database, sink: PostgresSink, frame: DataFrame, topic: str, ranges: OffsetRanges
) -> None:
    """A head that another driver has moved refuses that partition, and the others are written."""
    entry = entry_of(sink.applied(QUERY), ranges)
    tp = TopicPartition(topic, 0)
    other = entry_of({}, {tp: ranges[tp]}, run_id="other")
    sink.apply(frame, other, replace(plan_of(other), sources={0: ranges}))
    with pytest.raises(ForeignWriterError, match="run other") as caught:
        sink.apply(frame, entry, plan_of(entry))
    assert caught.value.ranges == {tp: ranges[tp]}
    assert db.ask(ROWS) == [(60, 60)]


def test_a_plan_with_other_tasks_is_one_transaction(
    db: Database, sink: PostgresSink, frame: DataFrame, ranges: OffsetRanges
) -> None:
    """Where a task is not one partition's whole range; `test_tasks_of_one_batch` has all plans."""
    assert apply(sink, frame.repartition(4), ranges).rows == 60
    assert db.ask(TRANSACTIONS) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2])
def test_no_more_connections_than_are_allowed(
    db: Database, spark: SparkSession, frame: DataFrame, ranges: OffsetRanges, most: int
) -> None:
    """So many are open at a time, kept ones too; a closed one may take a moment."""
    workers = spark.range(0, 80, 1, 8).rdd  # several idle ones, of which any may take a task
    assert workers.map(lambda row: row.id).count() == 80
    sink = db.sink(atomicity="partition", executor_rows=0, max_connections=most)
    name = sink._writer(QUERY).application
    db.script(
        "CREATE TABLE t (value text)",
        "CREATE TABLE seen (n bigint)",
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN "
        f"FOR waited IN 1..60 LOOP SELECT count(*) INTO n FROM pg_stat_activity "
        f"WHERE application_name = '{name}'; EXIT WHEN n <= {most} + 1; "
        "PERFORM pg_sleep(0.05); PERFORM pg_stat_clear_snapshot(); END LOOP; "
        "INSERT INTO seen VALUES (n); RETURN NULL; END $$",
        "CREATE TRIGGER look AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION look()",
    )
    assert apply(sink, frame, ranges).rows == 60
    (found,) = db.ask("SELECT max(n) FROM seen")
    assert 2 <= found <= most + 1  # the driver has one
