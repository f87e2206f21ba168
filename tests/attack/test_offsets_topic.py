"""The reader of `__consumer_offsets` sees every commit and its fate, and I5 is really checked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient

from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import TopicPartition
from tests import topics
from tests.attack.conftest import Attacked
from tests.attack.offsets_topic import Fate, GroupCommit, OffsetsTopic, audit, effects
from tests.broker import Broker
from tests.conftest import StartBroker
from tests.topics import Topics, unique

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUIET = {"log_level": "0", "enable.auto.commit": "false"}


def made(
    at: int,
    offset: int | None,
    partition: TopicPartition = P0,
    *,
    ends: int | None = None,
    metadata: str = "",
    group: str = "g",
) -> GroupCommit:
    """A commit at a place in the log; `ends` is where its transaction was committed."""
    return GroupCommit(
        group=group,
        partition=partition,
        offset=offset,
        metadata=metadata,
        timestamp=at,
        log=0,
        at=at,
        fate=Fate.PLAIN if ends is None else Fate.COMMITTED,
        effective=at if ends is None else ends,
    )


def rewind(held: int) -> str:
    written = CommitMetadata.for_batch(name="q", query_id="a" * 36, run_id="b" * 36, batch_id=3)
    return written.rewinding(held).text()


@pytest.mark.parametrize(
    ("commits", "problems"),
    [
        ([made(1, 5), made(2, 5), made(3, 9)], []),
        ([made(1, 5), made(2, 9, P1), made(3, 6)], []),
        ([made(1, 5), made(2, 4)], ["goes back from 5"]),
        ([made(1, 9), made(2, 4), made(3, 5)], ["goes back from 9"]),
        ([made(1, 9), made(2, 4, metadata=rewind(9)), made(3, 5)], []),
        ([made(1, 9), made(2, 4, metadata=rewind(8))], ["goes back from 9"]),
        ([made(1, 9), made(2, 4, metadata='{"w":9}')], ["goes back from 9"]),
        ([made(1, 9), made(2, None), made(3, 4)], []),
        ([made(1, 9), made(2, 4, group="other")], []),
        # The transaction that wrote 5 ends after 9 was written: 9 stays, as it is the newer one.
        ([made(1, 5, ends=3), made(2, 9)], []),
        ([made(1, 9), made(2, 5, ends=3)], ["goes back from 9"]),
        ([made(1, 101), made(2, 5, P1)], ["is ahead of 100"]),
    ],
)
def test_what_breaks_the_invariant_is_found(
    commits: list[GroupCommit], problems: list[str]
) -> None:
    """Back, ahead or neither: distinguished for every way in which a group can get an offset."""
    found = audit(commits, lambda one: 100)
    assert [f"{one.problem} {one.limit}" for one in found] == problems
    for one in found:
        assert "g t-0" in str(one)


def commit(servers: str, group: str, offsets: Mapping[TopicPartition, int], text: str = "") -> None:
    client = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    wire = [Wire(tp.topic, tp.partition, offset, text) for tp, offset in offsets.items()]
    client.commit(offsets=wire, asynchronous=False)
    client.close()


def in_transaction(
    servers: str, name: str, group: str, offsets: Mapping[TopicPartition, int], ending: str
) -> Producer:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    producer = topics.in_transaction(servers, name)
    producer.send_offsets_to_transaction(
        [Wire(tp.topic, tp.partition, offset, "m") for tp, offset in offsets.items()],
        consumer.consumer_group_metadata(),
        30,
    )
    consumer.close()
    if ending == "commit":
        producer.commit_transaction(30)
    elif ending == "abort":
        producer.abort_transaction(30)
    return producer


def seen_by_a_consumer(servers: str, isolation: str) -> set[tuple[int, int]]:
    """Partition and offset of every record of `__consumer_offsets` that a consumer is shown."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    count = len(reader.list_topics("__consumer_offsets").topics["__consumer_offsets"].partitions)
    reader.assign([Wire("__consumer_offsets", number, 0) for number in range(count)])
    found: set[tuple[int, int]] = set()
    ended = 0
    deadline = time.monotonic() + 30
    while ended < count:
        assert time.monotonic() < deadline
        message = reader.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            ended += 1
        else:
            found.add((message.partition() or 0, message.offset() or 0))
    reader.close()
    return found


def places(commits: Iterable[GroupCommit], *without: Fate) -> set[tuple[int, int]]:
    return {(one.log, one.at) for one in commits if one.fate not in without}


@pytest.mark.kafka
@pytest.mark.parametrize(
    "version", [pytest.param("3.9.2", marks=pytest.mark.slow), pytest.param("4.1.2")]
)
def test_each_commit_is_found_with_its_fate(start_broker: StartBroker, version: str) -> None:
    """Plain, committed, aborted and open commits, also when the broker is away or dead."""
    broker = start_broker(version=version)
    servers = broker.bootstrap_servers
    topic = Topics(servers).create("t", partitions=2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(servers, "g", {one: 1, two: 2}, "plain")
    in_transaction(servers, "x", "g", {one: 3}, "commit")
    in_transaction(servers, "y", "g", {one: 99}, "abort")
    commit(servers, "other", {one: 50})
    offsets = OffsetsTopic(broker)
    commits = offsets.commits("g")
    first = sorted(commits[:2], key=lambda one: one.partition)  # of one request: in any order
    assert [(c.partition, c.offset, c.metadata, c.fate) for c in (*first, *commits[2:])] == [
        (one, 1, "plain", Fate.PLAIN),
        (two, 2, "plain", Fate.PLAIN),
        (one, 3, "m", Fate.COMMITTED),
        (one, 99, "m", Fate.ABORTED),
    ]
    assert abs(commits[0].timestamp / 1000 - time.time()) < 300
    assert offsets.held("g") == {one: 3, two: 2}
    assert offsets.held("other") == {one: 50}
    assert audit(offsets.commits()) == ()
    held = in_transaction(servers, "z", "g", {one: 77}, "neither")
    assert [c.fate for c in offsets.commits("g")][-1] is Fate.PENDING
    assert offsets.held("g") == {one: 3, two: 2}
    # Exactly those of ours that a consumer is shown; beside commits the topic holds other records.
    shown = seen_by_a_consumer(servers, "read_uncommitted")
    assert places(offsets.commits()) <= shown
    held.abort_transaction(30)
    shown = seen_by_a_consumer(servers, "read_committed")
    assert places(offsets.commits(), Fate.ABORTED) <= shown
    assert not shown & {(c.log, c.at) for c in offsets.commits() if c.fate is Fate.ABORTED}
    before = offsets.commits()
    broker.pause()
    assert offsets.commits() == before
    broker.resume()
    broker.kill()
    assert offsets.commits() == before


@pytest.mark.kafka
def test_a_backward_commit_on_a_real_broker_is_caught(attacked: Attacked) -> None:
    """Kafka itself refuses none; the audit names the partition, both offsets and the place."""
    topic, group = attacked.topics.create(partitions=1), unique("g")
    partition = TopicPartition(topic, 0)
    for offset in (5, 9, 4, 12):
        commit(attacked.direct, group, {partition: offset})
    (found,) = audit(attacked.offsets.commits(group))
    assert (found.commit.offset, found.limit, found.problem) == (4, 9, "goes back from")
    (ahead,) = audit(attacked.offsets.commits(group), lambda one: 12 if one.offset != 9 else 8)[:1]
    assert (ahead.commit.offset, ahead.limit, ahead.problem) == (9, 8, "is ahead of")


@pytest.mark.kafka
def test_what_a_deleted_group_lost_is_seen(attacked: Attacked) -> None:
    """A tombstone is an entry of its own; after it the group holds nothing."""
    topic, group = attacked.topics.create(partitions=1), unique("g")
    partition = TopicPartition(topic, 0)
    commit(attacked.direct, group, {partition: 5})
    admin = AdminClient({"bootstrap.servers": attacked.direct, "log_level": "0"})
    admin.delete_consumer_groups([group])[group].result(30)
    assert [one.offset for one in attacked.offsets.commits(group)] == [5, None]
    assert attacked.offsets.held(group) == {}


@pytest.mark.kafka
def test_reading_while_the_broker_writes_never_breaks(attacked: Attacked) -> None:
    """A batch that is half written is left for the next read; what was read before stays."""
    topic, group = attacked.topics.create(partitions=1), unique("g")
    partition = TopicPartition(topic, 0)
    done = threading.Event()

    def write() -> None:
        client = Consumer({"bootstrap.servers": attacked.direct, "group.id": group, **QUIET})
        for offset in range(300):
            client.commit(offsets=[Wire(topic, 0, offset)], asynchronous=False)
        client.close()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not done.is_set():
        offsets = [one.offset for one in attacked.offsets.commits(group)]
        assert offsets == list(range(len(offsets)))
        assert len(offsets) >= seen
        seen = len(offsets)
    writer.join(30)
    assert len(effects(attacked.offsets.commits(group))) == 300
    assert attacked.offsets.held(group) == {partition: 299}


def test_the_broker_of_a_release_is_read_by_its_own_definitions(broker: Broker) -> None:
    """A reader can be made for any broker of ours, also one without groups yet."""
    assert OffsetsTopic(broker).commits(unique("nobody")) == ()
