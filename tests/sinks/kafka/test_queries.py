"""Real queries into Kafka: the order of keys, and a listener beside the sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.events import (
    CommitFailed,
    CommitRefused,
    Committed,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
)
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import KafkaSink
from tests.attack.offsets_topic import Fate, OffsetsTopic, audit, effects
from tests.broker import Broker
from tests.foreach_batch.conftest import Jobs
from tests.sinks.kafka.records import committed
from tests.sinks.kafka.test_executors import sorting
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@dataclass(kw_only=True)
class Course:
    """A source with records, a target, and queries from one into the other."""

    jobs: Jobs
    method: Literal["driver", "executors"] = "driver"
    group: str | None = None

    def __post_init__(self) -> None:
        topics = self.jobs.topics
        self.source, self.target = topics.create("source", 2), topics.create("target", 3)
        self.sink = KafkaSink(
            {"kafka.bootstrap.servers": topics.servers},
            self.target,
            ledger_topic=unique("ledger"),
            write_method=self.method,
            group=self.group,
        )

    def run(self, transform: Callable[[Any], Any], at_once: int, *, dies: bool = False) -> None:
        """Process what there is; or die behind the first batch."""
        function = exactly_once(self.sink, transform=transform)

        def each(frame: Any, number: int) -> None:
            function(frame, number)
            if dies:
                raise RuntimeError("the driver dies here")

        group = {} if self.group is None else {"eo.commit.group": self.group}
        data = self.jobs.read(self.source, maxOffsetsPerTrigger=str(at_once), **group)
        with pytest.raises(StreamingQueryException) if dies else nullcontext():
            self.jobs.drain(data, each, name="copied")
        function.close()

    def shown(self) -> list[tuple[str, str]]:
        found = committed(self.jobs.topics.servers, self.target)
        return [((one.key() or b"").decode(), one.value().decode()) for one in found]


@pytest.mark.parametrize("method", [pytest.param("driver", marks=pytest.mark.slow), "executors"])
def test_random_values_and_the_order_of_a_key(
    spark: SparkSession, broker: Broker, tmp_path: Path, method: Any
) -> None:
    """Each record once over a restart, though no two computations are alike; none is sorted."""
    topics = Topics(broker.bootstrap_servers)
    course = Course(jobs=Jobs(spark, topics, tmp_path), method=method)
    sorted_: list[bool] = []

    def randomly(frame: Any) -> Any:
        row = "to_json(struct(partition AS p, offset AS o, rand() AS r)) AS value"
        changed = frame.selectExpr("string(offset % 7) AS key", row)
        sorted_.append(sorting(changed))
        return changed

    for _ in range(2):
        topics.fill(course.source, 200)
        course.run(randomly, 150)
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
    """Nor after a driver that died before Spark knew of its batch: then the group is ahead."""
    group, topics = unique("both"), Topics(broker.bootstrap_servers)
    course = Course(jobs=Jobs(spark, topics, tmp_path), group=group)
    told: dict[TopicPartition, int] = {}
    total = 0
    for dies, records in ((False, 40), (True, 40), (False, 20)):
        topics.fill(course.source, records)
        total += records
        with listening(spark) as events:
            course.run(lambda frame: frame.selectExpr("string(offset) AS value"), 20, dies=dies)
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
