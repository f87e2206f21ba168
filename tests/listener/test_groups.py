"""Kafka's own tool shows lag 0 after the drain, for every way to read a topic."""

from __future__ import annotations

import json

import pytest

from eo_listener import OffsetCommitListener
from eo_listener.model.commit_metadata import CommitMetadata
from tests.groups import positions
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_one_source(listener: OffsetCommitListener, queries: Queries, topics: Topics) -> None:
    """The group of the source's option ends at the log end, signed with query and batch."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 200)
    source = queries.read(subscribe=topic, kafka__consumer__commit__groupid=group)
    queries.drain(source, name="flights")
    assert listener.flush()
    queries.assert_drained(group, topic)
    held = positions(topics.servers, group)
    assert len(held) == 3
    for position in held.values():
        written = CommitMetadata.parse(position.metadata)
        assert written is not None
        assert (written.name, written.batch_id) == ("flights", 0)


def test_the_group_moves_with_the_query(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """After each batch of a running query the group stands at its end, not only at the drain."""
    topic, group = topics.create(), unique("g")
    query = queries.start(queries.read(subscribe=topic, eo__commit__group=group), drain=False)
    try:
        for _ in range(3):
            topics.fill(topic, 50)
            query.processAllAvailable()
            assert listener.flush()
            queries.assert_drained(group, topic)
    finally:
        query.stop()


def test_two_sources_with_two_groups(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Each source of a union commits to its own group."""
    left, right = topics.create(), topics.create(partitions=2)
    one, two = unique("g"), unique("g")
    topics.fill(left, 100)
    topics.fill(right, 70)
    queries.drain(
        queries.read(subscribe=left, eo__commit__group=one).union(
            queries.read(subscribe=right, eo__commit__group=two)
        )
    )
    assert listener.flush()
    queries.assert_drained(one, left)
    queries.assert_drained(two, right, partitions=2)


def test_two_sources_united_under_one_group(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Two sources that name the same group share it."""
    left, right, group = topics.create(), topics.create(), unique("g")
    topics.fill(left, 100)
    topics.fill(right, 70)
    queries.drain(
        queries.read(subscribe=left, eo__commit__group=group).union(
            queries.read(subscribe=right, eo__commit__group=group)
        )
    )
    assert listener.flush()
    queries.assert_drained(group, left, right)


def test_subscribe_pattern(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Every topic that the pattern matches is in the group."""
    prefix, group = unique("p"), unique("g")
    matched = [topics.create(prefix), topics.create(prefix)]
    for topic in matched:
        topics.fill(topic, 60)
    source = queries.read(subscribePattern=f"{prefix}-.*", eo__commit__group=group)
    queries.drain(source)
    assert listener.flush()
    queries.assert_drained(group, *matched)


def test_assign(listener: OffsetCommitListener, queries: Queries, topics: Topics) -> None:
    """Only the partitions assigned are committed; the third one is not touched."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 100)
    assigned = json.dumps({topic: [0, 2]})
    queries.drain(queries.read(assign=assigned, eo__commit__group=group))
    assert listener.flush()
    rows = {row.partition: row.lag for row in queries.described(group)}  # in no certain order
    assert rows == {0: 0, 2: 0}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_topic_written_by_transactions(
    listener: OffsetCommitListener, queries: Queries, topics: Topics, isolation: str
) -> None:
    """The last offset of each partition is a marker; the group stands behind it all the same."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 100, transactional=True)
    topics.fill(topic, 50, transactional=True)
    queries.drain(
        queries.read(subscribe=topic, eo__commit__group=group, kafka__isolation__level=isolation)
    )
    assert listener.flush()
    queries.assert_drained(group, topic)
    ends = [row.log_end_offset or 0 for row in queries.described(group)]
    assert sum(ends) == 150 + 2 * len(ends)


def test_one_stream_used_twice(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """A union of a stream with itself is committed to its group without a quarrel."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 40)
    source = queries.read(subscribe=topic, eo__commit__group=group)
    queries.drain(source.union(source))
    assert listener.flush()
    queries.assert_drained(group, topic)


def test_groups_named_in_the_constructor(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """A mapping of the query's topic goes before the option; the template serves the rest."""
    left, right = topics.create(), topics.create()
    mapped, prefix = unique("g"), unique("g")
    topics.fill(left, 30)
    topics.fill(right, 30)
    listener = recording.add(
        OffsetCommitListener({"q1": {left: mapped}}, group_template=prefix + "-{query_name}")
    )
    queries.drain(
        queries.read(subscribe=left, eo__commit__group="unused").union(
            queries.read(subscribe=right)
        ),
        name="q1",
    )
    assert listener.flush()
    queries.assert_drained(mapped, left)
    queries.assert_drained(f"{prefix}-q1", right)


def test_a_query_that_ran_before_the_listener_came(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """A listener added to a running query finds its options too."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 30)
    query = queries.start(queries.read(subscribe=topic, eo__commit__group=group), drain=False)
    try:
        query.processAllAvailable()
        listener = recording.add(OffsetCommitListener())
        topics.fill(topic, 30)
        query.processAllAvailable()
        assert listener.flush()
        queries.assert_drained(group, topic)
    finally:
        query.stop()


def test_a_restart_goes_on_from_the_checkpoint(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """The same query started again commits what its second run has processed."""
    topic, group = topics.create(), unique("g")
    for _ in range(2):
        topics.fill(topic, 30)
        queries.drain(queries.read(subscribe=topic, eo__commit__group=group))
        assert listener.flush()
        queries.assert_drained(group, topic)
