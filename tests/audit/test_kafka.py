"""The proof against a real Kafka: transactions, compaction, retention, and a topic recreated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    NewTopic,
)

from eo_listener.audit import AppliedRange, AuditFinding, AuditFindingKind, Gravity, prove
from eo_listener.errors import KafkaError
from eo_listener.kafka.range_reader import RecordReader
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = pytest.mark.kafka

Kind = AuditFindingKind


@contextmanager
def reading(servers: str, *, transactional: bool | None = None) -> Iterator[RecordReader]:
    reader = RecordReader({"bootstrap.servers": servers}, transactional=transactional)
    yield reader
    reader.close()


def create(servers: str, **settings: str) -> str:
    name = unique("audited")
    admin = AdminClient({"bootstrap.servers": servers, "log_level": "0"})
    topic = NewTopic(name, 1, 1, config={key.replace("_", "."): v for key, v in settings.items()})
    admin.create_topics([topic])[name].result(timeout=30)
    return name


def transactional(servers: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": unique("tx"), "log_level": "0"}
    )
    producer.init_transactions(60)
    return producer


def send(producer: Producer, topic: str, keys: Iterable[object]) -> None:
    for key in keys:
        producer.produce(topic, key=str(key), value="v" * 200)
    assert producer.flush(30) == 0


def produce(servers: str, topic: str, keys: Iterable[object], then: str = "commit") -> Producer:
    """Send records, in one transaction unless `then` is "nothing"; "leave" keeps it open."""
    if then == "nothing":
        producer = Producer({"bootstrap.servers": servers, "log_level": "0"})
    else:
        producer = transactional(servers)
        producer.begin_transaction()
    send(producer, topic, keys)
    if then == "commit":
        producer.commit_transaction(30)
    if then == "abort":
        producer.abort_transaction(30)
    return producer


def counted(findings: Iterable[AuditFinding]) -> dict[Kind, int]:
    """How many offsets of each kind."""
    found: Counter[Kind] = Counter()
    for finding in findings:
        found[finding.kind] += finding.range.until - finding.range.start
    return dict(found)


def rows(topic: str, *intervals: tuple[int, int]) -> list[tuple[str, int, int]]:
    return [(topic, 0, offset) for start, until in intervals for offset in range(start, until)]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker that compacts at once."""
    with Broker(version=kafka_version(), properties={"log.cleaner.backoff.ms": "100"}) as running:
        yield running.bootstrap_servers


def test_transactions(servers: str) -> None:
    """Markers, aborted and open records are distinguished, and only a lost record is wrong."""
    topic = create(servers)
    tp = TopicPartition(topic, 0)
    produce(servers, topic, range(10))  # 0..10, and a marker at 10
    produce(servers, topic, range(5), then="abort")  # 11..16, and a marker at 16
    produce(servers, topic, range(10), then="nothing")  # 17..27
    left_open = produce(servers, topic, range(3), then="leave")  # 27..30
    with reading(servers) as reader:
        (facts,) = reader.facts([tp]).values()
        assert (facts.start, facts.stable, facts.end) == (0, 27, 30)
        assert facts.compacted is False
        claim = {tp: AppliedRange(range=OffsetRange(0, 27), topic_id=facts.topic_id)}
        good = rows(topic, (0, 10), (17, 27))
        explained = {Kind.MARKER: 2, Kind.ABORTED: 5}
        healthy = prove(claim, good, reader, read_committed=True)
        assert counted(healthy) == explained
        assert {finding.gravity for finding in healthy} == {Gravity.EXPLAINED}
        lost = [row for row in good if row[2] not in {4, 25, 26}]
        assert counted(prove(claim, lost, reader, read_committed=True)) == {
            **explained, Kind.MISSING: 1, Kind.TAIL: 2
        }  # fmt: skip
        assert counted(prove(claim, good, reader)) == {Kind.MARKER: 2, Kind.MISSING: 5}
        every = rows(topic, (0, 10), (11, 16), (17, 27))
        assert counted(prove(claim, every, reader)) == {Kind.MARKER: 2}
        beyond = {tp: AppliedRange(range=OffsetRange(0, 32))}
        assert counted(prove(beyond, good, reader, read_committed=True)) == {
            **explained, Kind.OPEN: 3, Kind.MOVED_BACK: 2
        }  # fmt: skip
    left_open.abort_transaction(30)


def test_retention_and_a_topic_recreated(servers: str) -> None:
    """What Kafka has deleted is unprovable, and an older topic's rows are recognised by its id."""
    topics = Topics(servers)
    topic = topics.create(partitions=1)
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 10)
    topics.forget_before(topic, {0: 4})
    with reading(servers) as reader:
        (facts,) = reader.facts([tp]).values()
        claim = {tp: AppliedRange(range=OffsetRange(0, 10), topic_id=facts.topic_id)}
        assert prove(claim, rows(topic, (0, 10)), reader) == ()
        assert counted(prove(claim, rows(topic, (2, 10)), reader)) == {Kind.RETENTION: 2}
        topics.delete(topic)
        gone = {TopicPartition("nosuch", 0): AppliedRange(range=OffsetRange(0, 2))}
        assert counted(prove(gone, [], reader)) == {Kind.GONE: 2}
        topics.create_as(topic, partitions=1)
        topics.fill(topic, 10)
        assert counted(prove(claim, rows(topic, (0, 10)), reader)) == {Kind.RECREATED: 10}


@pytest.mark.slow
def test_a_compacted_topic(servers: str) -> None:
    """Compaction and markers are no alarm, but no proof either; told apart as far as possible."""
    settings = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.01",
        "max_compaction_lag_ms": "100",
        "delete_retention_ms": "0",
    }
    plain, mixed = create(servers, **settings), create(servers, **settings)
    producer = transactional(servers)
    for number in range(4):
        produce(servers, plain, ["a", "b", number], then="nothing")
        producer.begin_transaction()
        send(producer, mixed, ["a", "b", number])
        if number == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        time.sleep(0.12)  # for a new segment: the newest is never compacted
    with reading(servers) as reader, reading(servers, transactional=False) as sure:
        for topic in (plain, mixed):
            until(lambda: counted(judged(reader, topic)).get(Kind.MARKER_OR_COMPACTED, 0) > 3)  # noqa: B023  # called at once
            grave = {finding.gravity for finding in judged(reader, topic)}
            assert Gravity.UNPROVABLE in grave
            assert Gravity.WRONG not in grave
        assert counted(judged(sure, plain)).keys() == {Kind.COMPACTED}


def judged(reader: RecordReader, topic: str) -> tuple[AuditFinding, ...]:
    """A query that begins now and reads committed: its rows are what it is shown."""
    tp = TopicPartition(topic, 0)
    (facts,) = reader.facts([tp]).values()
    claim = {tp: AppliedRange(range=OffsetRange(0, facts.end), topic_id=facts.topic_id)}
    shown = reader.visible(tp, (OffsetRange(0, facts.end),), committed=True)
    return prove(claim, rows(topic, *shown), reader, read_committed=True)


def test_a_kafka_that_is_away() -> None:
    """A Kafka that cannot be reached is a typed error after a bounded time."""
    reader = RecordReader({"bootstrap.servers": "127.0.0.1:1"}, timeout=1.0)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        reader.facts([TopicPartition("t", 0)])
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        reader.visible(TopicPartition("t", 0), (OffsetRange(0, 3),), committed=True)
    reader.close()
