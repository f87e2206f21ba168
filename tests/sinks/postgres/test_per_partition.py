"""A transaction for each Kafka partition, in the tasks that read them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Wire
from pyspark.sql import DataFrame, SparkSession

from eo_listener.model.errors import (
    ForeignWriterError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
)
from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.executor_tasks import NoConnectionError
from eo_listener.sinks.postgres.per_partition import Partitions
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of, plan_of
from tests.broker import Broker
from tests.sinks.postgres.course import ask, script
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

OffsetRanges: TypeAlias = "dict[TopicPartition, OffsetRange]"
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
def ranges(broker: Broker, topic: str) -> OffsetRanges:
    """What is in each of them."""
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"}) as asks:
        ends = [asks.get_watermark_offsets(Wire(topic, n), timeout=10)[1] for n in range(4)]
    return {TopicPartition(topic, number): OffsetRange(0, end) for number, end in enumerate(ends)}


@pytest.fixture(scope="module")
def read(spark: SparkSession, broker: Broker, topic: str, ranges: OffsetRanges) -> Read:
    """Reads all of them as a batch: the tasks are those of a streaming query."""

    def reading(**more: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": topic,
            # As numbers, since a batch's tasks are not told what "earliest" and "latest" mean.
            "startingOffsets": json.dumps({topic: {tp.partition: 0 for tp in ranges}}),
            "endingOffsets": json.dumps({topic: {tp.partition: ranges[tp].until for tp in ranges}}),
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


def apply(
    sink: PostgresSink, frame: DataFrame, entry: Entry, ranges: OffsetRanges | None = None
) -> Any:
    """Apply an entry of the batch that has planned `ranges`: those of the entry, or more."""
    plan = plan_of(entry)
    return sink.apply(frame, entry, plan if ranges is None else replace(plan, sources={0: ranges}))


def by_tasks(dsn: str, **more: Any) -> PostgresSink:
    """A sink whose tasks write, however small the batch."""
    return PostgresSink(dsn, "t", atomicity="partition", executor_rows=0, **more)


@contextmanager
def points() -> Iterator[list[str]]:
    """The fault points of the driver that are reached meanwhile."""
    seen: list[str] = []
    with hooked(seen.append):
        yield seen


def test_each_partition_is_written_once(dsn: str, frame: DataFrame, ranges: OffsetRanges) -> None:
    """Rows and heads of every partition are there, and a second try of the same batch adds none."""
    sink = by_tasks(dsn)
    entry = entry_of(sink.applied(QUERY), ranges)
    with points() as seen:
        assert apply(sink, frame, entry).rows == 60
        assert sink.applied(QUERY) == heads_of(entry)
        assert apply(sink, frame, entry).rows == 0
    assert "sink.copying" not in seen  # the driver only moves the head of the empty partition
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]
    assert ask(dsn, "SELECT sum(rows) FROM eo_ledger_history") == [60]
    assert ask(dsn, "SELECT count(DISTINCT xmin::text) FROM eo_ledger") == [4]


def test_a_small_batch_is_one_transaction(dsn: str, frame: DataFrame, ranges: OffsetRanges) -> None:
    """Below `executor_rows` planned rows it goes through the driver."""
    sink = PostgresSink(dsn, "t", atomicity="partition", executor_rows=61)
    entry = entry_of(sink.applied(QUERY), ranges)
    with points() as seen:
        assert apply(sink, frame, entry).rows == 60
    assert "sink.copying" in seen
    assert sink.applied(QUERY) == heads_of(entry)
    assert ask(dsn, "SELECT count(DISTINCT xmin::text) FROM eo_ledger") == [1]


@pytest.mark.parametrize("rows", [0, 1000])
def test_only_what_the_entry_holds_is_written(
    dsn: str, frame: DataFrame, topic: str, ranges: OffsetRanges, rows: int
) -> None:
    """A partition that was judged a replay has no move: nobody writes it."""
    sink = PostgresSink(dsn, "t", atomicity="partition", executor_rows=rows)
    tp = TopicPartition(topic, 1)
    apply(sink, frame, entry_of(sink.applied(QUERY), {tp: ranges[tp]}), ranges)
    assert ask(dsn, 'SELECT DISTINCT "partition" FROM t') == [1]
    rest = {tp: offset_range for tp, offset_range in ranges.items() if tp.partition != 1}
    apply(sink, frame, entry_of(sink.applied(QUERY), rest), ranges)
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]


def test_one_bad_partition_leaves_the_others(
    dsn: str, frame: DataFrame, topic: str, ranges: OffsetRanges
) -> None:
    """A refused row fails its partition alone, and the error names it."""
    script(dsn, 'CREATE TABLE t ("partition" int CHECK ("partition" <> 2), value text)')
    sink = by_tasks(dsn)
    entry = entry_of(sink.applied(QUERY), ranges)
    with pytest.raises(PoisonRowError) as caught:
        apply(sink, frame, entry)
    assert caught.value.partition == TopicPartition(topic, 2)
    assert caught.value.offset == 0
    assert 2 not in [number for number, _ in heads(dsn)]
    assert ask(dsn, 'SELECT DISTINCT "partition" FROM t ORDER BY 1') == [0, 1]


def test_a_foreign_head_is_refused_in_its_task(
    dsn: str, frame: DataFrame, topic: str, ranges: OffsetRanges
) -> None:
    """A head that another driver has moved refuses that partition, and the others are written."""
    sink = by_tasks(dsn)
    entry = entry_of(sink.applied(QUERY), ranges)
    tp = TopicPartition(topic, 0)
    apply(sink, frame, entry_of({}, {tp: ranges[tp]}, run_id="other"), ranges)
    with pytest.raises(ForeignWriterError, match="run other") as caught:
        apply(sink, frame, entry)
    assert caught.value.ranges == {tp: ranges[tp]}
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]


def test_with_speculation_a_batch_is_one_transaction(
    dsn: str,
    spark: SparkSession,
    frame: DataFrame,
    ranges: OffsetRanges,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A second attempt beside the first would take it for a zombie, so no task writes by itself."""
    legacy = "spark.sql.legacy.setCommandRejectsSparkCoreConfs"
    spark.conf.set(legacy, "false")
    spark.conf.set("spark.speculation", "true")
    try:
        sink = by_tasks(dsn)
        assert apply(sink, frame, entry_of(sink.applied(QUERY), ranges)).rows == 60
    finally:
        spark.conf.unset("spark.speculation")
        spark.conf.unset(legacy)
    assert ask(dsn, "SELECT count(DISTINCT xmin::text) FROM eo_ledger") == [1]
    assert "spark.speculation=true" in caplog.text


@pytest.mark.parametrize("what", ["repartition", "coalesce", "union", "minPartitions", "range"])
def test_a_plan_with_other_tasks_is_one_transaction(
    dsn: str,
    frame: DataFrame,
    read: Read,
    topic: str,
    ranges: OffsetRanges,
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where a task is not one partition's whole range all is there at once, and it is said."""
    changed = {
        "repartition": lambda: frame.repartition(4),
        "coalesce": lambda: frame.coalesce(1),
        "union": lambda: frame.union(frame.where("offset < 0")),
        "minPartitions": lambda: read(minPartitions="9"),
        "range": lambda: frame,
    }[what]()
    if what == "range":  # what was planned is more than what the tasks read
        ranges = {**ranges, TopicPartition(topic, 0): OffsetRange(0, 1000)}
    sink = by_tasks(dsn)
    for _ in range(2):  # the second time it is nothing new
        entry = entry_of(sink.applied(QUERY), ranges, batch_id=len(heads(dsn)))
        assert apply(sink, changed, entry).rows == 60
        assert ask(dsn, "SELECT count(DISTINCT xmin::text) FROM eo_ledger") == [1]
    assert caplog.text.count("one transaction each") == 1


def test_the_rest_of_a_batch_must_be_distinguished_from_what_is_written(
    dsn: str, frame: DataFrame, topic: str, ranges: OffsetRanges
) -> None:
    """A shuffle that the transform has got since would write rows that are there already."""
    sink = by_tasks(dsn)
    tp = TopicPartition(topic, 1)
    apply(sink, frame, entry_of(sink.applied(QUERY), {tp: ranges[tp]}), ranges)
    rest = {tp: offset_range for tp, offset_range in ranges.items() if tp.partition != 1}
    with pytest.raises(SettingsError, match="written in part"):
        apply(sink, frame.repartition(2), entry_of(sink.applied(QUERY), rest), ranges)
    assert ask(dsn, 'SELECT DISTINCT "partition" FROM t') == [1]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2])
def test_no_more_connections_than_are_allowed(
    dsn: str, spark: SparkSession, frame: DataFrame, ranges: OffsetRanges, most: int
) -> None:
    """With max_connections= so many are open at the same time, kept ones too, and in the end all
    tasks have written. One that was closed may take the server a moment.
    """
    workers = spark.range(0, 80, 1, 8).rdd  # several idle ones, of which any may take a task
    assert workers.map(lambda row: row.id).count() == 80
    sink = by_tasks(dsn, max_connections=most)
    name = sink._writer(QUERY).application
    script(
        dsn,
        "CREATE TABLE t (value text)",
        "CREATE TABLE seen (n bigint)",
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN "
        f"FOR waited IN 1..60 LOOP SELECT count(*) INTO n FROM pg_stat_activity "
        f"WHERE application_name = '{name}'; EXIT WHEN n <= {most} + 1; "
        "PERFORM pg_sleep(0.05); PERFORM pg_stat_clear_snapshot(); END LOOP; "
        "INSERT INTO seen VALUES (n); RETURN NULL; END $$",
        "CREATE TRIGGER look AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION look()",
    )
    assert apply(sink, frame, entry_of(sink.applied(QUERY), ranges)).rows == 60
    (found,) = ask(dsn, "SELECT max(n) FROM seen")
    assert 2 <= found <= most + 1  # the driver has one


@pytest.mark.slow
def test_executors_that_cannot_connect_any_more(
    dsn: str,
    frame: DataFrame,
    topic: str,
    ranges: OffsetRanges,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What they have written stays; the driver writes the rest, and says that it goes on so."""
    sink = by_tasks(dsn)
    tp = TopicPartition(topic, 1)
    apply(sink, frame, entry_of(sink.applied(QUERY), {tp: ranges[tp]}), ranges)
    rest = {tp: offset_range for tp, offset_range in ranges.items() if tp.partition != 1}
    with monkeypatch.context() as patched:
        patched.setattr(Partitions, "write", unreached)
        with pytest.raises(RetriableSinkError, match="no route"):
            apply(sink, frame, entry_of(sink.applied(QUERY), rest), ranges)
        apply(sink, frame, entry_of(sink.applied(QUERY), rest), ranges)
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]
    assert caplog.text.count("from now on") == 1


class Late:
    """What apply= holds from its first call on, which the driver makes."""

    lock: object = None

    def __call__(self, connection: Any, entry: Entry) -> None:
        connection.execute("INSERT INTO t SELECT value FROM eo_batch")
        self.lock = threading.Lock()


@pytest.mark.slow
def test_an_apply_that_cannot_be_sent_any_more(
    dsn: str, frame: DataFrame, topic: str, ranges: OffsetRanges, caplog: pytest.LogCaptureFixture
) -> None:
    """Found out by a batch for the tasks: the driver writes it, and says that it goes on so."""
    script(dsn, "CREATE TABLE t (value text)")
    sink = PostgresSink(dsn, "t", apply=Late(), atomicity="partition", executor_rows=60)
    tp = TopicPartition(topic, 1)
    one = {tp: ranges[tp]}
    apply(sink, frame.where("partition = 1"), entry_of(sink.applied(QUERY), one), one)
    assert caplog.text == ""
    rest = {tp: offset_range for tp, offset_range in ranges.items() if tp.partition != 1}
    with pytest.raises(RetriableSinkError, match="executors"):
        apply(sink, frame, entry_of(sink.applied(QUERY), rest), ranges)
    apply(sink, frame, entry_of(sink.applied(QUERY), rest), ranges)
    assert ask(dsn, "SELECT count(*), count(DISTINCT value) FROM t") == [(60, 60)]
    assert caplog.text.count("from now on") == 1


def unreached(*_: object) -> None:
    raise NoConnectionError("no route to host")
