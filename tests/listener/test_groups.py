"""Where a group stands: for every way to read a topic, after lost events, and never taken back."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from functools import reduce
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import DataFrame

from eo_listener import OffsetCommitListener
from eo_listener.events import CommitRefused, Committed, QueryModeDetected, Refusal, TopicRecreated
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import TopicPartition
from tests.attack.offsets_topic import OffsetsTopic, audit
from tests.broker import parse_rows
from tests.groups import await_assignment, positions
from tests.listener.conftest import Recording
from tests.listener.queries import Queries
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_every_way_to_read_a_topic(
    listener: OffsetCommitListener, queries: Queries, topics: Topics
) -> None:
    """Each source ends at lag 0 in its own group, or the one that several name; markers count."""
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


def test_the_group_moves_on(recording: Recording, queries: Queries, topics: Topics) -> None:
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


def held(queries: Queries, group: str) -> int:
    """The sum of the offsets that a group holds, 0 for none."""
    return sum(position.offset for position in queries.positions(group).values())


@pytest.mark.parametrize("available_now", [False, True])
def test_a_batch_whose_event_was_lost_is_caught_up_without_new_data(
    recording: Recording, queries: Queries, topics: Topics, available_now: bool
) -> None:
    """The driver died between commits/N and the event: a restart that finds no data commits N."""
    topic, group = topics.create(), unique("g")
    data = queries.read(subscribe=topic, eo__commit__group=group)
    topics.fill(topic, 100)
    recording.add(OffsetCommitListener())
    queries.drain(data)
    recording.end()
    assert held(queries, group) == 100
    topics.fill(topic, 50)
    queries.drain(data)  # nobody listens: the state that the crash leaves
    assert held(queries, group) == 100
    recording.observed()
    query = queries.start(data, drain=available_now)
    try:
        until(lambda: any(isinstance(event, Committed) for event in recording.events), 60)
    finally:
        query.stop()
    queries.assert_drained(group, topic)


def test_a_query_that_fails_leaves_its_last_batch_committed(
    listener: OffsetCommitListener, recording: Recording, queries: Queries, topics: Topics
) -> None:
    """A sink that raises ends the query; what was done before stands in the group, no more."""
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 40)

    data = queries.read(subscribe=topic, eo__commit__group=group)
    full = "if(cast(value as string) = '45', raise_error('the sink is full'), value) as value"
    query = queries.start(data.selectExpr(full), drain=False)
    query.processAllAvailable()
    topics.fill(topic, 50)
    with pytest.raises(Exception, match="the sink is full"):
        query.awaitTermination(60)
    assert listener.flush()
    (row,) = queries.described(group)
    assert (row.current_offset, row.lag) == (40, 50)


@pytest.mark.parametrize(
    ("mode", "partitions", "options", "trigger"),
    [
        ("asynchronous", 3, {"asyncProgressTrackingEnabled": "true"}, {}),
        ("continuous", 1, {}, {"continuous": "1 second"}),
    ],
)
def test_a_query_that_is_committed_by_its_checkpoint(
    listener: OffsetCommitListener,
    recording: Recording,
    queries: Queries,
    topics: Topics,
    mode: str,
    partitions: int,
    options: dict[str, str],
    trigger: dict[str, Any],
) -> None:
    """Its events run ahead of the checkpoint, or never come; it is told, and lag ends at 0."""
    topic, group = topics.create(partitions=partitions), unique("g")
    topics.fill(topic, 60)
    writer = queries.read(subscribe=topic, eo__commit__group=group).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(queries.folder / mode)).options(**options)
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        until(lambda: held(queries, group) == 60, 60)
    finally:
        query.stop()
    queries.assert_drained(group, topic, partitions=partitions)
    (noticed,) = recording.of(QueryModeDetected)
    assert mode in noticed.mode


@pytest.mark.parametrize("on_rewind", ["refuse", "allow"])
def test_a_restart_from_an_older_checkpoint(
    recording: Recording, queries: Queries, topics: Topics, on_rewind: str
) -> None:
    """By default the group stays, and the refusal names who is ahead; allowed, it is recorded."""
    topic, group = topics.create(partitions=1), unique("g")
    tp = TopicPartition(topic, 0)
    data = queries.read(subscribe=topic, eo__commit__group=group, maxOffsetsPerTrigger="50")
    settings = {"on_rewind": on_rewind, "observers": [recording.events.append]}
    listener = recording.add(OffsetCommitListener(**settings))  # type: ignore[arg-type]  # of two kinds
    topics.fill(topic, 50)
    queries.drain(data, "first")
    shutil.copytree(queries.folder / "c", queries.folder / "older")
    topics.fill(topic, 100)
    queries.drain(data, "first")
    assert listener.flush()
    recording.end()
    again = recording.add(OffsetCommitListener(**settings))  # type: ignore[arg-type]  # of two kinds
    topics.fill(topic, 50)
    before = len(recording.events)

    def answered() -> bool:
        since = recording.events[before:]
        return any(isinstance(event, CommitRefused | Committed) for event in since)

    def held(_: DataFrame, batch_id: int) -> None:
        if batch_id == 2:  # so that batch 1 is not overtaken: the older checkpoint has batch 0
            until(answered, 60)

    query = queries.start(data, "first", checkpoint="older", each=held)
    assert query.awaitTermination(90)
    assert again.flush()
    queries.assert_drained(group, topic, partitions=1)
    history = OffsetsTopic(queries.broker).effects(group)
    assert audit(history) == ()
    refused = recording.of(CommitRefused)
    rewound = [one.rewound_from for one in history if one.rewound_from is not None]
    if on_rewind == "refuse":
        assert rewound == []
        assert refused[0].refusal is Refusal.BELOW_GROUP
        assert refused[0].obstacles[tp] == 150
        assert refused[0].writer is not None
        assert refused[0].writer.name == "first"
    else:
        # A batch that ends while the rewind is under way declares it too.
        assert set(rewound) == {150}
        assert not refused


def test_a_recreated_topic_gets_nothing_of_the_old_one(
    recording: Recording, queries: Queries, topics: Topics
) -> None:
    """Deleted and made anew under a running query: one clear event, and no old offset lands."""
    topic, other, group = topics.create(partitions=1), topics.create(partitions=1), unique("g")
    topics.fill(topic, 100)
    topics.fill(other, 10)
    listener = recording.observed(recommit_interval=1.0)
    data = queries.read(
        subscribe=f"{topic},{other}", eo__commit__group=group, failOnDataLoss="false"
    )
    query = queries.start(data, drain=False)
    query.processAllAvailable()
    assert listener.flush()
    topics.delete(topic)
    topics.create_as(topic, 1)
    topics.fill(topic, 300)
    until(lambda: recording.of(TopicRecreated))
    query.stop()
    assert not listener.flush()  # the query is further than its group: that is no success
    (told,) = recording.of(TopicRecreated)
    assert (told.topic, told.was == told.now) == (topic, False)
    held = queries.positions(group)
    assert TopicPartition(topic, 0) not in held
    assert held[TopicPartition(other, 0)].offset == 10


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


def test_secrets_stay_out_of_the_log(
    queries: Queries, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Reader options hold passwords; no line, event or repr shows one."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 5)
    told: list[object] = []
    listener = OffsetCommitListener(observers=[told.append], kafka={"sasl.password": "hunter2"})
    queries.spark.streams.addListener(listener)
    with caplog.at_level(logging.DEBUG, "eo_listener"):
        source = queries.read(
            subscribe=topic,
            eo__commit__group=group,
            kafka__ssl__key__password="hunter3",  # noqa: S106  # planted, to be looked for
        )
        queries.drain(source)
        assert listener.flush()
    queries.spark.streams.removeListener(listener)
    listener.close()
    inner = [
        listener._service._tracker._tracker._routing,
        listener._service._committer._workers,
        listener._service._tracker._tracker._runs,
    ]
    shown = caplog.text + repr(told) + repr(listener) + repr(inner)
    assert "commits have begun" in caplog.text
    assert told
    assert "hunter2" not in shown
    assert "hunter3" not in shown
