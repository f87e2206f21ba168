"""Kafka away, slow or refusing: the query does not notice, and the group catches up."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from eo_listener import OffsetCommitListener
from eo_listener.events import CommitFailed
from tests.broker import Broker
from tests.groups import await_assignment, total
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

NOBODY = "127.0.0.1:1"


@pytest.mark.slow
def test_a_commit_in_the_outage_waits_and_lands(
    start_broker: Callable[..., Broker],
    recording: Recording,
    queries: Queries,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The cluster that holds the group is down while batches end: said once, committed later."""
    other = start_broker()
    topic, group = topics.create(), unique("g")
    Topics(other.bootstrap_servers).create_as(topic)
    Topics(other.bootstrap_servers).fill(topic, 1000)  # a log that reaches what is committed
    listener = recording.observed(bootstrap_servers=other.bootstrap_servers)
    query = queries.start(queries.read(subscribe=topic, eo__commit__group=group), drain=False)
    topics.fill(topic, 20)
    query.processAllAvailable()
    assert listener.flush()
    recording.events.clear()  # of the coordinator that was only being made
    caplog.clear()
    with caplog.at_level(logging.INFO, "eo_listener"):
        other.kill()
        for _ in range(5):
            topics.fill(topic, 20)
            query.processAllAvailable()
        assert not listener.flush(3)
        other.restart()
        assert listener.flush(30)
    query.stop()
    assert total(other.bootstrap_servers, group) == 120
    failures = recording.of(CommitFailed)
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    causes = {failure.cause for failure in failures}
    assert len(warnings) == len(causes) < len(failures)
    assert [r for r in caplog.records if "commits succeed again" in r.getMessage()]


@pytest.mark.slow
def test_a_dead_address_is_said_once_and_slows_nothing(
    recording: Recording, queries: Queries, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Against nobody: one warning with what to do, and batches as quick as without a listener."""
    topic, group = topics.create(), unique("g")

    def batches(checkpoint: str) -> list[int]:
        query = queries.start(
            queries.read(subscribe=topic, eo__commit__group=group),
            checkpoint=checkpoint,
            drain=False,
        )
        for _ in range(12):
            topics.fill(topic, 5)
            query.processAllAvailable()
        progress: list[Any] = list(query.recentProgress)  # of Spark 3.5: plain dictionaries
        durations = [p["durationMs"]["triggerExecution"] for p in progress if p["numInputRows"]]
        query.stop()
        assert query.exception() is None
        return durations[2:]

    alone = [*batches("warm-up"), *batches("alone")]
    listener = recording.add(OffsetCommitListener(bootstrap_servers=NOBODY, flush_timeout=1.0))
    with caplog.at_level(logging.INFO, "eo_listener"):
        listened = batches("listened")
        assert not listener.flush(8)
    # Kafka's time-outs are seconds: one batch that waited for one would stand out by far. What
    # the listener costs to the millisecond is measured in benchmarks/.
    assert statistics.median(listened) < 2 * statistics.median(alone) + 50
    assert max(listened) < max(alone) + 2000
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert NOBODY in line
    assert "Connection refused" in line
    assert "kafka.bootstrap.servers" in line
    listener.close()


def test_a_group_with_members_is_refused_and_explained(
    listener: OffsetCommitListener,
    queries: Queries,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A live consumer in the group: Kafka refuses, the log says who and what to do, once."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 20)
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": group})
    consumer.subscribe([topic])
    await_assignment(consumer)
    with caplog.at_level(logging.INFO, "eo_listener"):
        queries.drain(queries.read(subscribe=topic, eo__commit__group=group))
        assert not listener.flush(10)
    consumer.close()
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "UNKNOWN_MEMBER_ID" in line
    assert "live members" in line
    assert listener.flush(10)
    queries.assert_drained(group, topic)
