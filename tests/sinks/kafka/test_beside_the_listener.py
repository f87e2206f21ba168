"""A sink that moves a group, and a listener that commits to the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

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
from tests.topics import Topics, unique

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 60


class Both:
    """A query with a sink and a listener on one group."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.topics = Topics(broker.bootstrap_servers)
        self.source = self.topics.create("source", 2)
        self.target = self.topics.create("target", 2)
        self.ledger = unique("ledger")
        self.group = unique("both")
        self.events: list[Event] = []

    def run(self, *, dies_after: int | None = None, records: int = RECORDS) -> None:
        """Process what there is; fail once a batch was applied, where that is asked."""
        self.topics.fill(self.source, records)
        servers = self.broker.bootstrap_servers
        options = {"kafka.bootstrap.servers": servers}
        sink = KafkaSink(options, self.target, ledger_topic=self.ledger, group=self.group)
        function = exactly_once(
            sink, transform=lambda frame: frame.selectExpr("string(offset) AS value")
        )
        applied = 0

        def each(frame: Any, number: int) -> None:
            nonlocal applied
            function(frame, number)
            applied += 1
            if applied == dies_after:
                raise RuntimeError("the driver dies here")

        listener = OffsetCommitListener(
            observers=[self.events.append], preflight=False, flush_timeout=60.0
        )
        self.spark.streams.addListener(listener)
        try:
            query = (
                self.spark.readStream.format("kafka")
                .options(**options)
                .option("subscribe", self.source)
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", 20)
                .option("eo.commit.group", self.group)
                .load()
                .writeStream.queryName("both")
                .foreachBatch(each)
                .option("checkpointLocation", str(self.folder))
                .trigger(availableNow=True)
                .start()
            )
            try:
                query.awaitTermination(120)
            except StreamingQueryException:
                assert dies_after is not None
            assert listener.flush(60)
        finally:
            self.spark.streams.removeListener(listener)
            listener.close()
            function.close()

    def repeated(self) -> list[str]:
        """What the group was given though it held it, or less; and what moved it back."""
        commits = OffsetsTopic(self.broker).commits(self.group)
        held: dict[TopicPartition, tuple[int | None, str]] = {}
        wrong = [str(one) for one in audit(commits)]
        for one in effects(commits):
            given = (one.offset, one.metadata)
            renewed = given == held.get(one.partition)
            if one.fate is Fate.PLAIN and not renewed:
                wrong.append(f"{one.partition}: {given} over {held.get(one.partition)}")
            held[one.partition] = given
        return wrong

    def alarms(self) -> list[Event]:
        """What was reported of the group, but for commits."""
        kinds = (CommitFailed, CommitRefused, ForeignCommit, GroupOffsetsMissing)
        return [event for event in self.events if isinstance(event, kinds)]

    def told(self) -> dict[TopicPartition, int]:
        """Where the group stands, as observers know it."""
        found: dict[TopicPartition, int] = {}
        for event in self.events:
            if isinstance(event, Committed):
                found.update(event.offsets)
        return found


@pytest.fixture
def both(spark: SparkSession, broker: Broker, tmp_path: Path) -> Both:
    return Both(spark, broker, tmp_path / "checkpoint")


def test_the_listener_neither_repeats_nor_contradicts_the_sink(both: Both) -> None:
    """It sends nothing that the sink has committed, and observers hear where the group stands."""
    both.run()
    commits = OffsetsTopic(both.broker).commits(both.group)
    assert {one.fate for one in commits} == {Fate.COMMITTED}
    assert both.repeated() == []
    assert both.alarms() == []
    held = OffsetsTopic(both.broker).held(both.group)
    assert sum(held.values()) == RECORDS
    assert both.told() == held


def test_a_driver_that_died_before_spark_knew_of_its_batch(both: Both) -> None:
    """The group is a batch ahead of the checkpoint then, which is no reason for an alarm."""
    both.run(dies_after=2)
    both.run()
    assert both.repeated() == []
    assert both.alarms() == []
    held = OffsetsTopic(both.broker).held(both.group)
    assert sum(held.values()) == 2 * RECORDS
    assert both.told() == held
