"""Real queries whose batch is the first to the ledger alone, and those that begin anywhere."""

from __future__ import annotations

import pytest

from eo_listener import exactly_once
from eo_listener.events import BatchApplied, Event
from eo_listener.offsets import Span, TopicPartition
from eo_listener.testing import MemorySink
from tests.attack import surgery
from tests.exactly_once.conftest import LEFT_SOCKETS, Jobs
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_renamed_query(jobs: Jobs, topics: Topics, batches: int) -> None:
    """Its last batch is in the sink and not in Spark's commits: under a new name it halts."""
    topic = topics.create(partitions=1)
    sink = MemorySink()
    data = jobs.read(topic)
    for _ in range(batches):
        topics.fill(topic, 5)
        jobs.drain(data, exactly_once(sink), name="old")
    surgery.before_commit(jobs.checkpoint())
    for on_first in ("halt", "accept"):
        renamed = exactly_once(sink, on_first=on_first)
        text = jobs.failure(data, renamed, name="new")
        assert "NotInLedgerError" in text
        assert 'name="old"' in text
    assert len(sink.rows) == 5 * batches
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink, name="old"), name="new")
    assert len(sink.rows) == 5 * batches + 5
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink, on_first="accept"), name="new")
    assert len({row["offset"] for row in sink.rows}) == len(sink.rows) == 5 * batches + 10


def test_an_emptied_store(jobs: Jobs, topics: Topics) -> None:
    """The checkpoint stayed: nothing is written, or from here on by consent, which is recorded."""
    topic = topics.create(partitions=1)
    data, events = jobs.read(topic), list[Event]()
    topics.fill(topic, 10)
    jobs.drain(data, exactly_once(MemorySink()))
    topics.fill(topic, 5)
    emptied = MemorySink()
    text = jobs.failure(data, exactly_once(emptied))
    assert "NotInLedgerError" in text
    assert f"{topic}-0 0..10" in text
    assert emptied.rows == []
    jobs.drain(data, exactly_once(emptied, on_first="accept", observers=[events.append]))
    assert [row["offset"] for row in emptied.rows] == list(range(10, 15))
    (told,) = events
    assert isinstance(told, BatchApplied)
    assert told.skipped == {TopicPartition(topic, 0): Span(0, 10)}
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(emptied))  # the consent is needed no more
    assert len(emptied.rows) == 10


def test_queries_that_begin_anywhere_are_not_accused(jobs: Jobs, topics: Topics) -> None:
    """At the latest offset, again after a failure, with partitions and topics that come later."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = MemorySink()
    options = {"kafka.metadata.max.age.ms": "100"}
    data = jobs.read(subscribePattern=f"{topic}.*", startingOffsets="latest", **options)
    jobs.drain(data, exactly_once(sink))  # without any record
    surgery.before_commit(jobs.checkpoint())
    jobs.drain(data, exactly_once(sink))
    topics.fill(topic, 5)
    jobs.drain(data, exactly_once(sink))
    assert [row["offset"] for row in sink.rows] == list(range(10, 15))
    topics.widen(topic, 2)
    later = f"{topic}-later"
    topics.create_as(later, partitions=1)
    topics.fill(later, 3)
    jobs.drain(data, exactly_once(sink))
    surgery.before_commit(jobs.checkpoint())
    jobs.drain(data, exactly_once(sink))
    topics.fill(topic, 6)
    topics.fill(later, 3)
    jobs.drain(data, exactly_once(sink))
    assert len({(row["topic"], row["partition"], row["offset"]) for row in sink.rows}) == 17
    assert len(sink.rows) == 17
