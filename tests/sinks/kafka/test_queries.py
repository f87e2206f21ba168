"""Real queries into Kafka: windows, batches without rows, order, and a listener beside the sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener import OffsetCommitListener
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.model.events import (
    CommitFailed,
    CommitRefused,
    Committed,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
)
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from tests.attack.offsets_topic import Fate, OffsetsTopic, audit, effects
from tests.broker import Broker
from tests.sinks.kafka.records import committed, is_settled
from tests.sinks.kafka.test_executors import sorting
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WINDOW = 10  # seconds: the offset of a record is the second at which it happened
RECORDS = 100
AT_ONCE = 24  # records of a batch

Transform = Callable[[Any], Any]


class Course:
    """A source with records, a target, and queries from one into the other."""

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        folder: Path,
        *,
        method: Literal["driver", "executors"] = "driver",
        group: str | None = None,
        partitions: int = 1,
    ) -> None:
        self.spark, self.servers, self.folder, self.group = spark, servers, folder, group
        self.topics = Topics(servers)
        self.source = self.topics.create("source", partitions)
        self.target = self.topics.create("target", 3)
        self.sink = KafkaSink(
            {"kafka.bootstrap.servers": servers},
            self.target,
            ledger_topic=unique("ledger"),
            write_method=method,
            group=group,
        )

    def run(
        self,
        transform: Transform | None = None,
        *,
        shape: Transform = lambda records: records,
        mode: str = "append",
        at_once: int = AT_ONCE,
        dies: bool = False,
    ) -> int:
        """Process what there is; return how many batches that took. Die behind the first."""
        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", at_once)
            .options(**({} if self.group is None else {"eo.commit.group": self.group}))
            .load()
        )
        function = exactly_once(self.sink, transform=transform)

        def each(frame: Any, number: int) -> None:
            function(frame, number)
            if dies:
                raise RuntimeError("the driver dies here")

        query = (
            shape(records)
            .writeStream.queryName("shaped")
            .outputMode(mode)
            .foreachBatch(each)
            .option("checkpointLocation", str(self.folder))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(180)
        except StreamingQueryException:
            assert dies
        function.close()
        return len([*(self.folder / "commits").glob("[0-9]*")])

    def shown(self) -> list[tuple[str, str]]:
        """Key and value of each record, in the order of its partition."""
        found = committed(self.servers, self.target)
        return [((one.key() or b"").decode(), one.value().decode()) for one in found]


@pytest.fixture(params=["driver", "executors"])
def course(
    request: pytest.FixtureRequest, spark: SparkSession, broker: Broker, tmp_path: Path
) -> Course:
    return Course(spark, broker.bootstrap_servers, tmp_path / "checkpoint", method=request.param)


@pytest.mark.slow
def test_windows_in_the_update_mode(course: Course) -> None:
    """Each batch sends the windows that it has changed, once, and each window's in their order."""
    course.topics.fill(course.source, RECORDS)

    def windows(records: DataFrame) -> DataFrame:
        return (
            records.select(F.timestamp_seconds("offset").alias("at"))
            .withWatermark("at", "20 seconds")
            .groupBy(F.window("at", f"{WINDOW} seconds"))
            .count()
            .selectExpr("string(bigint(window.start)) AS key", "string(count) AS value")
        )

    course.run(shape=windows, mode="update")
    by_window: dict[str, list[int]] = {}
    for key, value in course.shown():
        by_window.setdefault(key, []).append(int(value))
    assert by_window == _updates()
    assert is_settled(course.servers, course.target)


def _updates() -> dict[str, list[int]]:
    """The counts of each window, as they are after each batch that has records of it."""
    expected: dict[str, list[int]] = {}
    for start in range(0, RECORDS, AT_ONCE):
        end = min(start + AT_ONCE, RECORDS)
        for window in range(start // WINDOW, (end - 1) // WINDOW + 1):
            count = min(end, (window + 1) * WINDOW) - window * WINDOW
            expected.setdefault(str(window * WINDOW), []).append(count)
    return expected


@pytest.mark.parametrize("method", [pytest.param("driver", marks=pytest.mark.slow), "executors"])
def test_random_values_and_the_order_of_a_key(
    spark: SparkSession, broker: Broker, tmp_path: Path, method: Any
) -> None:
    """Each record once over a restart, though no two computations are alike; none is sorted."""
    course = Course(spark, broker.bootstrap_servers, tmp_path / "c", method=method, partitions=2)
    sorted_: list[bool] = []

    def randomly(frame: Any) -> Any:
        row = "to_json(struct(partition AS p, offset AS o, rand() AS r)) AS value"
        changed = frame.selectExpr("string(offset % 7) AS key", row)
        sorted_.append(sorting(changed))
        return changed

    for _ in range(2):
        course.topics.fill(course.source, 200)
        course.run(randomly, at_once=150)
    by_key: dict[tuple[str, int], list[int]] = {}
    for key, value in course.shown():
        row = json.loads(value)
        by_key.setdefault((key, row["p"]), []).append(row["o"])
    assert sum(map(len, by_key.values())) == 400
    assert all(offsets == sorted(set(offsets)) for offsets in by_key.values())
    assert sorted_
    assert not any(sorted_)


@contextmanager
def listening(spark: SparkSession) -> Iterator[list[Event]]:
    """What a listener tells, all of it at the end."""
    events: list[Event] = []
    listener = OffsetCommitListener(observers=[events.append], preflight=False, flush_timeout=60.0)
    spark.streams.addListener(listener)
    try:
        yield events
        assert listener.flush(60)
    finally:
        spark.streams.removeListener(listener)
        listener.close()


def test_a_listener_neither_repeats_nor_contradicts_the_sink(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Nor after a driver that died before Spark knew of its batch: the group is ahead of Spark's
    checkpoint then.
    """
    group = unique("both")
    course = Course(spark, broker.bootstrap_servers, tmp_path / "c", group=group, partitions=2)
    told: dict[TopicPartition, int] = {}
    total = 0
    for dies, records in ((False, 40), (True, 40), (False, 20)):
        course.topics.fill(course.source, records)
        total += records
        with listening(spark) as events:
            course.run(
                lambda frame: frame.selectExpr("string(offset) AS value"), at_once=20, dies=dies
            )
        alarms = (CommitFailed, CommitRefused, ForeignCommit, GroupOffsetsMissing)
        assert [event for event in events if isinstance(event, alarms)] == []
        for event in events:
            if isinstance(event, Committed):
                told.update(event.offsets)
        if dies:
            continue
        commits = OffsetsTopic(broker).commits(group)
        assert [str(one) for one in audit(commits)] == []
        held: dict[TopicPartition, Any] = {}
        for one in effects(commits):
            given = (one.offset, one.metadata)
            assert one.fate is not Fate.PLAIN or given == held.get(one.partition)
            held[one.partition] = given
        if total == 40:
            assert {one.fate for one in commits} == {Fate.COMMITTED}
        ends = OffsetsTopic(broker).held(group)
        assert sum(ends.values()) == total
        assert told == ends
