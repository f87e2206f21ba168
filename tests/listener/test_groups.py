"""Lag 0 after the drain, for every way to read a topic."""

from __future__ import annotations

import json
from collections import Counter
from functools import reduce

import pytest
from pyspark.sql import DataFrame

from eo_listener import OffsetCommitListener
from eo_listener.model.commit_metadata import CommitMetadata
from tests.broker import parse_rows
from tests.groups import positions
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_every_way_to_read_a_topic(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Each source of a query ends at lag 0 in its own group, or in the one that several name.

    By Kafka's own tool too. The last offset of a transaction's partition is a marker; the group
    stands behind it all the same. One stream that is used twice is one source.
    """
    plain, other, marked = topics.create(), topics.create(partitions=2), topics.create()
    prefix = unique("p")
    matched = [topics.create(prefix), topics.create(prefix)]
    for topic in (plain, other, *matched):
        topics.fill(topic, 60)
    for _ in range(2):
        topics.fill(marked, 50, transactional=True)
    of_all = {
        name: unique("g")
        for name in ("twice", "own", "shared", "pattern", "assign", "committed", "uncommitted")
    }

    def read(group: str, **options: str) -> DataFrame:
        return queries.read(eo__commit__group=of_all[group], **options)

    twice = read("twice", subscribe=plain)
    sources = [
        twice,
        read("shared", subscribe=plain),
        twice,
        queries.read(subscribe=plain, kafka__consumer__commit__groupid=of_all["own"]),
        read("shared", subscribe=other),
        read("pattern", subscribePattern=f"{prefix}-.*"),
        read("assign", assign=json.dumps({plain: [0, 2]})),
        read("committed", subscribe=marked, kafka__isolation__level="read_committed"),
        read("uncommitted", subscribe=marked, kafka__isolation__level="read_uncommitted"),
    ]
    queries.drain(reduce(DataFrame.union, sources), name="flights")
    assert listener.flush()
    for name in ("twice", "own"):
        queries.assert_drained(of_all[name], plain)
    queries.assert_drained(of_all["pattern"], *matched)
    shared = queries.described(of_all["shared"])
    assert Counter(row.topic for row in shared) == {plain: 3, other: 2}
    assert {row.lag for row in shared} == {0}
    assigned = {row.partition: row.lag for row in queries.described(of_all["assign"])}
    assert assigned == {0: 0, 2: 0}
    for name in ("committed", "uncommitted"):
        queries.assert_drained(of_all[name], marked)
        ends = [row.log_end_offset for row in queries.described(of_all[name])]
        assert sum(ends) == 100 + 2 * len(ends)
    shown = parse_rows(queries.broker.consumer_groups(of_all["own"]))
    assert [(row.topic, row.lag) for row in shown] == 3 * [(plain, 0)]
    held = positions(topics.servers, of_all["own"]).values()
    written = [CommitMetadata.parse(position.metadata) for position in held]
    assert [(one.name, one.batch_id) for one in written if one] == 3 * [("flights", 0)]


def test_the_group_moves_with_the_query(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """With each batch of a query that ran before the listener came, and of its next run."""
    topic, group = topics.create(), unique("g")
    data = queries.read(subscribe=topic, eo__commit__group=group)
    topics.fill(topic, 30)
    query = queries.start(data, drain=False)
    query.processAllAvailable()
    listener = recording.add(OffsetCommitListener())
    for run in range(2):
        for _ in range(2):
            topics.fill(topic, 30)
            query.processAllAvailable()
            assert listener.flush()
            queries.assert_drained(group, topic)
        query.stop()
        if not run:
            query = queries.start(data, drain=False)
