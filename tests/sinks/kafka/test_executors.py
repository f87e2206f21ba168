"""Rows that executors write into the driver's transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.errors import RetriableSinkError
from eo_listener.kafka.java_transactions import (
    JavaTransactions,
    JoinedTransaction,
    TaskReport,
    failure,
)
from eo_listener.kafka.producers import FENCED, BatchProducer
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka.executor_writer import BY_EXECUTORS, joining, task_reports
from eo_listener.sinks.kafka.transaction import OpenTransaction, ProducerEpoch, refuse_changed
from eo_listener.spark.jvm.row_writer import write_rows
from tests.broker import Broker
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PASSWORD = "hunter2-is-secret"  # noqa: S105  # nobody's
TASKS = 3


class Try:
    """A transaction of the driver, and tasks that join it."""

    def __init__(self, spark: SparkSession, servers: str, partitions: int = 4) -> None:
        self.spark, self.servers, self.partitions = spark, servers, partitions
        self.topics = Topics(servers)
        self.topic = self.topics.create("joined", partitions)
        self.ledger = self.topics.create("ledger", 1)
        self.id = unique("transaction")
        properties = {
            "bootstrap.servers": servers,
            "sasl.jaas.config": PASSWORD,  # not read without SASL
            "transaction.timeout.ms": "600000",
        }
        self.transactions: JavaTransactions = joining(spark.range(1), properties, BY_EXECUTORS)
        self.driver = self.take_over()
        self.epoch = self.driver.identity(30)

    def take_over(self) -> BatchProducer:
        driver = BatchProducer(
            {"bootstrap.servers": self.servers}, self.id, transaction_timeout=600, joined=True
        )
        driver.take_over(30)
        driver.begin()
        return driver

    def write(
        self, frame: Any, epoch: tuple[int, int] | None = None
    ) -> tuple[int, list[TaskReport]]:
        batch, topics = unique("batch"), [(self.topic, self.partitions)]
        self.transactions.open_batch(
            batch,
            topics=topics,
            tasks=TASKS,
            transaction=JoinedTransaction(self.id, *(epoch or self.epoch)),
        )
        write_rows(frame, batch, topics=topics, tasks=TASKS, columns=frame.columns, mark=None)
        planned, reports = self.transactions.reports(batch)
        return planned, list(reports)

    def commit(self, driver: BatchProducer | None = None) -> None:
        """Commit with a record of the driver's: without one librdkafka asks for no commit."""
        driver = driver or self.driver
        driver.send(self.ledger, b"moved")
        driver.flush(30)
        driver.commit(30)

    def read(self) -> dict[int, list[bytes]]:
        """What a reader of committed records is shown, by partition."""
        found: dict[int, list[bytes]] = {}
        for message in committed(self.servers, self.topic):
            found.setdefault(message.partition(), []).append(message.value())
        return found

    def ids(self) -> list[list[int]]:
        return [[int(value) for value in values] for values in self.read().values()]


@pytest.fixture
def one(spark: SparkSession, broker: Broker) -> Iterator[Try]:
    made = Try(spark, broker.bootstrap_servers)
    yield made
    made.transactions.close()
    made.driver.leave()


def numbered(spark: SparkSession, rows: int, tasks: int = 5) -> Any:
    """Rows with a key of ten, in the order of their ids, over several tasks.

    Of some thousand rows a task makes several packs for each that sends.
    """
    return spark.range(0, rows, 1, tasks).selectExpr(
        "string(id % 10) AS key", "rpad(string(id), 400, ' ') AS value"
    )


def test_rows_appear_with_the_commit_whole_and_in_their_old_order(one: Try) -> None:
    """Nothing is shown before it; then each partition, of several tasks, in the order of ids."""
    planned, reports = one.write(numbered(one.spark, 5000))
    assert planned == TASKS
    assert all(report.error is None for report in reports)
    assert one.read() == {}
    described = one.transactions.describe(one.id, 30)
    assert described.state == "Ongoing"
    assert (described.producer_id, described.epoch) == one.epoch
    written = {tp for report in reports for tp in report.records}
    assert described.partitions == written
    one.commit()
    found = one.ids()
    assert sorted(number for ids in found for number in ids) == [*range(5000)]
    assert all(ids == sorted(ids) for ids in found)
    counts = [count for report in reports for count in report.records.values() if count]
    assert sorted(counts) == sorted(map(len, found))  # each partition is of one task


@pytest.fixture(scope="module")
def source(spark: SparkSession, broker: Broker) -> str:
    """A topic with the rows of `numbered`, 5000: each of 5 partitions has 1000."""
    topic = Topics(broker.bootstrap_servers).create("source", 5)
    rows = numbered(spark, 5000).selectExpr("*", "int(int(trim(value)) div 1000) AS partition")
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    rows.write.format("kafka").options(**options, topic=topic).save()
    return topic


def from_kafka(one: Try, source: str, **options: str) -> Any:
    kafka = {"kafka.bootstrap.servers": one.servers, "subscribe": source}
    reader = one.spark.read.format("kafka").options(**kafka, **options)
    return reader.load().select("key", "value")


def in_reverse(rows: Any) -> Any:
    """Sorted by a column that is gone."""
    return rows.selectExpr("*", "-int(trim(value)) AS by").orderBy("by").drop("by")


def test_the_order_of_all_rows_is_kept_if_a_frame_was_sorted(one: Try, source: str) -> None:
    """Also if the column is gone that it was sorted by."""
    one.write(in_reverse(from_kafka(one, source)))
    one.commit()
    assert all(ids == sorted(ids, reverse=True) for ids in one.ids())


def test_tasks_sort_unless_each_row_has_an_order_within_an_earlier_task_only(
    one: Try, source: str
) -> None:
    """What was sorted may be cached or written down since; a partition may be cut into tasks."""
    rows, cut = from_kafka(one, source), from_kafka(one, source, minPartitions="9")
    ordered = in_reverse(rows)
    kept, cached = rows.cache(), ordered.cache()
    alone = {
        "as it is": rows,
        "narrow": rows.selectExpr("upper(key) AS key", "value").where("value <> ''"),
        "pandas": rows.mapInPandas(lambda parts: parts, "key binary, value binary"),
        "cached": kept.select("value"),
        "by rows of an RDD": one.spark.createDataFrame(rows.rdd, rows.schema),
        "one task": ordered.coalesce(1),
    }
    together = {
        "minPartitions": cut,
        "minPartitions, narrow": cut.where("value <> ''"),
        "sorted": ordered,
        "sorted, pandas": ordered.mapInPandas(lambda parts: parts, "key binary, value binary"),
        "sorted, cached": cached.select("value"),
        "sorted, written down": ordered.localCheckpoint(),
        "sorted, by rows of an RDD": one.spark.createDataFrame(ordered.rdd, rows.schema),
        "sorted within a union": rows.union(ordered),
        "a union": rows.union(rows),
        "coalesced": rows.coalesce(2),
        "no rows of Kafka": numbered(one.spark, 10),
    }
    try:
        assert [name for name, frame in alone.items() if sorting(frame)] == []
        assert [name for name, frame in together.items() if not sorting(frame)] == []
    finally:
        kept.unpersist()
        cached.unpersist()


def sorting(frame: Any) -> bool:
    """Whether the tasks that send its rows would sort them."""
    shim = frame.sparkSession._jvm.io.github.eolistener.sink
    return bool(shim.PackedRows.needSorting(frame._jdf.queryExecution().toRdd().toJavaRDD()))


def test_a_row_names_its_partition_or_goes_by_its_key_as_in_kafka(one: Try) -> None:
    """The same partition as librdkafka's own murmur2 for each key; headers and nulls arrive."""
    frame = one.spark.sql(
        "SELECT IF(id < 40, concat('key-', id), NULL) AS key,"
        " IF(id = 41, NULL, string(id)) AS value, IF(id = 42, 3, NULL) AS partition,"
        " array(struct(CAST('b' AS BINARY) AS value, 'a' AS key),"
        " struct(CAST(NULL AS BINARY) AS value, 'c' AS key)) AS headers FROM range(50)"
    )
    compared = one.topics.create("compared", one.partitions)
    one.write(frame)
    for number in range(40):
        one.driver.send(compared, str(number).encode(), key=f"key-{number}".encode())
    one.commit()
    sent = {message.key(): message for message in committed(one.servers, one.topic)}
    for message in committed(one.servers, compared):
        assert sent[message.key()].partition() == message.partition()
        assert sent[message.key()].headers() == [("a", b"b"), ("c", None)]
    found = one.read()
    assert sum(map(len, found.values())) == 50
    assert b"42" in found[3]
    assert any(None in values for values in found.values())


def test_a_batch_without_rows_is_one_task_or_all(one: Try) -> None:
    """Spark may leave the shuffle out: then a task reports nothing, and sends nothing."""
    nothing = one.spark.sparkContext.emptyRDD()
    for frame in (
        one.spark.range(0).selectExpr("string(id) AS value"),
        one.spark.createDataFrame(nothing, "value string"),  # not a single task computes it
    ):
        planned, reports = one.write(frame)
        assert planned in (1, TASKS)
        assert [report.records for report in reports] == [{}] * planned
        assert len(task_reports(reports, planned=planned, tasks=TASKS)) == TASKS


def test_tasks_of_an_older_epoch_are_refused(one: Try) -> None:
    """A driver that took over has fenced them: each says so, and nothing of them is shown."""
    newer = one.take_over()
    _, reports = one.write(numbered(one.spark, 100), one.epoch)
    errors = [failure("writing", report.error) for report in reports if report.error]
    assert errors
    assert all(error.code in FENCED for error in errors)
    one.commit(newer)
    newer.leave()
    assert one.read() == {}


def test_a_producer_that_was_closed_politely_shows_before_the_commit(one: Try) -> None:
    """It has aborted what all tasks wrote; the transaction that is described has none of it."""
    one.write(numbered(one.spark, 100))
    jvm: Any = one.spark._jvm
    root = jvm.io.github.eolistener
    joined = json.dumps(
        {
            "properties": {"bootstrap.servers": one.servers},
            "transactionalId": one.id,
            "producerId": one.epoch[0],
            "epoch": one.epoch[1],
        }
    )
    told = root.kafka.JoinedTransaction.of(root.protocol.CallArguments.of(joined))
    producer = root.kafka.TaskProducer(told, unique("polite"))
    compared = one.topics.create("compared", 1)
    target = jvm.org.apache.kafka.common.TopicPartition(compared, 0)  # its first record there
    producer.send(target, None, bytearray(b"late"), None)
    producer.flush()
    inside = producer.getClass().getDeclaredField("producer")
    inside.setAccessible(True)
    inside.get(producer).close()
    while (described := one.transactions.describe(one.id, 30)).state == "PrepareAbort":
        time.sleep(0.05)  # the partitions are named until each has its marker
    assert TopicPartition(one.topic, 0) not in described.partitions
    found = OpenTransaction(
        state=described.state,
        producer=ProducerEpoch(described.producer_id, described.epoch),
        partitions=described.partitions,
    )
    with pytest.raises(RetriableSinkError, match="aborted"):
        refuse_changed(found, ProducerEpoch(*one.epoch), [TopicPartition(one.topic, 0)])


def test_no_secret_is_in_what_spark_shows_of_the_query(one: Try) -> None:
    """Its plans, as the UI and the event log have them, name neither passwords nor servers."""
    one.write(numbered(one.spark, 10))
    store: Any = one.spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    plans = [found.apply(number).physicalPlanDescription() for number in range(found.size())]
    ours = [plan for plan in plans if "eo_pack" in plan]
    assert ours
    assert not [plan for plan in ours if PASSWORD in plan or one.servers in plan]
