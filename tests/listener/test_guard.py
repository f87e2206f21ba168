"""The guard on real queries: what Spark lets pass under failOnDataLoss=false is seen."""

from __future__ import annotations

import threading
import time

import pytest

from eo_listener import OffsetCommitListener
from eo_listener.events import (
    CommitRefused,
    Event,
    GuardViolation,
    ProgressEventsMissed,
    Refusal,
    ViolationKind,
)
from eo_listener.listener.settings import Guarding
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Position, TopicPartition
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique
from tests.waiting import until

KAFKA_V2 = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def start_known(listener: OffsetCommitListener, group: str, tp: TopicPartition) -> int | None:
    """Where the log begins as far as the listener has read it."""
    for worker in listener._service._committer._workers.values():
        with worker.groups() as groups:
            return groups.log_starts(group, time.monotonic()).get(tp)
    return None


def kinds(events: list[Event]) -> set[ViolationKind]:
    return {
        violation.kind
        for event in events
        if isinstance(event, GuardViolation)
        for violation in event.violations
    }


def test_a_vanished_partition_withholds_its_source_until_it_is_accepted(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """A deleted topic of a pattern: told, the source held back over restarts, then accepted."""
    stem, group = unique("v"), unique("g")
    gone, stays = f"{stem}-gone", f"{stem}-stays"
    for topic in (gone, stays):
        topics.create_as(topic, 1)
        topics.fill(topic, 20)
    data = queries.read(
        subscribePattern=f"{stem}-.*",
        eo__commit__group=group,
        failOnDataLoss="false",
        kafka__metadata__max__age__ms="500",
    )
    listener = recording.observed()
    query = queries.start(data, "pattern", drain=False)
    query.processAllAvailable()
    assert listener.flush()
    topics.delete(gone)

    def told() -> bool:
        topics.fill(stays, 5)
        query.processAllAvailable()
        return bool(recording.of(GuardViolation))

    until(told)
    query.stop()
    assert not listener.flush()  # the query is further than its group
    assert kinds(recording.events) == {ViolationKind.VANISHED}
    assert recording.of(GuardViolation)[0].withheld
    held = queries.positions(group)[TopicPartition(stays, 0)]
    metadata = CommitMetadata.parse(held.metadata)
    assert metadata is not None
    assert metadata.withheld
    recording.end()

    recording.events.clear()
    again = recording.observed()
    queries.drain(data, "pattern")
    assert not again.flush()
    assert queries.positions(group)[TopicPartition(stays, 0)] == held
    refused = recording.of(CommitRefused)
    assert [event.refusal for event in refused] == [Refusal.WITHHELD_BEFORE]
    recording.end()

    accepting = recording.add(OffsetCommitListener(guard="warn"))
    queries.drain(data, "pattern")
    assert accepting.flush()
    (row,) = [row for row in queries.described(group) if row.topic == stays]
    assert row.lag == 0


@pytest.mark.parametrize("guard", ["withhold", pytest.param("warn", marks=pytest.mark.slow)])
def test_records_that_retention_took_first_are_seen(
    recording: Recording, queries: Queries, topics: Topics, guard: Guarding
) -> None:
    """Deleted between two batches, skipped by Spark in silence: the guard names the offsets."""
    topic, group = topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 20)
    listener = recording.observed(guard=guard)
    # The second batch begins when there are 30 new records: not before the first of them are gone.
    data = queries.read(
        subscribe=topic,
        eo__commit__group=group,
        failOnDataLoss="false",
        minOffsetsPerTrigger="30",
        maxTriggerDelay="1h",
    )
    query = queries.start(data, drain=False)
    until(lambda: queries.positions(group).get(tp, Position(offset=0)).offset == 20)
    topics.fill(topic, 29)
    topics.forget_before(topic, {0: 35})
    until(lambda: start_known(listener, group, tp) == 35)  # before the batch is planned
    topics.fill(topic, 1)
    query.processAllAvailable()
    query.stop()
    done = listener.flush()
    ((violation,),) = [event.violations for event in recording.of(GuardViolation)]
    assert (violation.kind, violation.start, violation.until) == (ViolationKind.LOST, 20, 35)
    assert done is (guard != "withhold")
    assert queries.positions(group)[tp].offset == (20 if guard == "withhold" else 50)


@pytest.mark.parametrize("v1", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_new_checkpoint_does_not_take_the_group_past_what_was_never_read(
    recording: Recording, queries: Queries, topics: Topics, v1: bool
) -> None:
    """Spark's default is the log's end: reported, and the group stays until that is accepted."""
    topic, group = topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 18)
    listener = recording.observed()
    old = queries.read(subscribe=topic, eo__commit__group=group)
    queries.drain(old, "flights", checkpoint="old")
    assert listener.flush()
    topics.fill(topic, 8)
    new = queries.read(subscribe=topic, eo__commit__group=group, startingOffsets="latest")
    setting = "spark.sql.streaming.disabledV2MicroBatchReaders"
    queries.spark.conf.set(setting, KAFKA_V2 if v1 else "")
    query = queries.start(new, "flights", checkpoint="new", drain=False)
    query.processAllAvailable()
    topics.fill(topic, 4)
    query.processAllAvailable()
    query.stop()
    queries.spark.conf.unset(setting)
    assert not listener.flush()
    ((violation,),) = [event.violations for event in recording.of(GuardViolation)]
    facts = (violation.kind, violation.partition, violation.start, violation.until)
    assert facts == (ViolationKind.NEVER_READ, tp, 18, 26)
    assert queries.positions(group)[tp].offset == 18
    recording.end()

    accepting = recording.add(OffsetCommitListener(guard="warn"))
    queries.drain(new, "flights", checkpoint="new")
    assert accepting.flush()
    assert queries.positions(group)[tp].offset == 30


@pytest.mark.slow
def test_the_deleted_beginning_of_a_new_partition_is_seen(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """The topic was widened while the query was down; retention took the first new records."""
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 20)
    listener = recording.observed()
    data = queries.read(subscribe=topic, eo__commit__group=group, failOnDataLoss="false")
    queries.drain(data)
    topics.widen(topic, 2)
    topics.produce(topic, ({"partition": 1, "value": "a"} for _ in range(60)))
    topics.forget_before(topic, {1: 50})
    queries.drain(data)
    assert not listener.flush()
    ((violation,),) = [event.violations for event in recording.of(GuardViolation)]
    facts = (violation.kind, violation.partition.partition, violation.start, violation.until)
    assert facts == (ViolationKind.LOST, 1, 0, 50)
    offsets = {tp.partition: at.offset for tp, at in queries.positions(group).items()}
    assert offsets == {0: 20, 1: 0}


def test_a_healthy_life_is_no_alarm(recording: Recording, queries: Queries, topics: Topics) -> None:
    """Restarts, idle times, markers of transactions, new partitions, two sources: not a word."""
    plain, transactional, group = topics.create(), topics.create(), unique("g")
    threads = threading.active_count()
    listener = recording.observed()
    data = queries.read(subscribe=f"{plain},{transactional}", eo__commit__group=group).union(
        queries.read(subscribe=plain, eo__commit__group=unique("g"), failOnDataLoss="false")
    )
    for run in range(2):
        topics.fill(plain, 20)
        topics.fill(transactional, 20, transactional=True)
        if run:
            topics.widen(plain, 5)
        query = queries.start(data, "healthy", drain=False)
        query.processAllAvailable()
        time.sleep(1.0)
        topics.fill(plain, 5)
        query.processAllAvailable()
        query.stop()
    assert listener.flush()
    rows = queries.described(group)
    assert sorted(row.partition for row in rows if row.topic == plain) == [*range(5)]
    assert {row.lag for row in rows} == {0}
    unwanted = (GuardViolation, ProgressEventsMissed, CommitRefused)
    assert not [event for event in recording.events if isinstance(event, unwanted)]
    # py4j keeps a thread for each of Spark's that has called Python
    assert threading.active_count() < threads + 20
