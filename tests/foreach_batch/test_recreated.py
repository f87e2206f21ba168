"""A topic that was recreated, beside one that was not, into a sink by exactly_once."""

from __future__ import annotations

import pytest

from eo_listener import exactly_once, starting_offsets
from eo_listener.testing import MemorySink
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs
from tests.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


def test_a_recreated_topic_is_read_from_its_start_and_the_other_goes_on(
    jobs: Jobs, topics: Topics
) -> None:
    """As the error says it: all of the new topic comes, and nothing of the other comes twice."""
    recreated, other = (
        topics.create("recreated", partitions=1),
        topics.create("other", partitions=1),
    )
    sink = MemorySink()
    for topic in (recreated, other):
        topics.fill(topic, 5)
    jobs.drain(jobs.read(recreated, other), exactly_once(sink))
    topics.delete(recreated)
    topics.create_as(recreated, partitions=1)
    topics.fill(recreated, 7)
    topics.fill(other, 2)
    text = jobs.failure(jobs.read(recreated, other), exactly_once(sink))
    assert "errors.TopicRecreatedError: " in text
    assert 'on_recreated="restart"' in text
    start = starting_offsets(
        ledger=sink, query="q", bootstrap_servers=topics.servers, recreated="earliest"
    )
    data = jobs.read(recreated, other, startingOffsets=start)
    assert "errors.TopicRecreatedError: " in jobs.failure(data, exactly_once(sink), checkpoint="n")
    function = exactly_once(sink, on_recreated="restart")
    jobs.drain(data, function, checkpoint="n")
    topics.fill(recreated, 1)
    jobs.drain(data, exactly_once(sink), checkpoint="n")
    assert sorted(row["offset"] for row in sink.rows if row["topic"] == other) == list(range(7))
    found = [row["offset"] for row in sink.rows if row["topic"] == recreated]
    assert sorted(found) == sorted([*range(5), *range(8)])
