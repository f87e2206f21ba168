"""What a check of a real broker finds: each trap once."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire

from eo_listener.preflight.findings import CheckFinding, Level, to_act_on
from tests.broker import Broker
from tests.cli.test_status import commit
from tests.conftest import kafka_version
from tests.preflight.checking import check
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of two partitions with 10 records each."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=2)
    topics.fill(name, 20)
    return name


def member_of(broker: Broker, group: str, topic: str, protocol: str = "classic") -> Consumer:
    """A live member of a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "somebody",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    return consumer


@pytest.fixture(params=["classic", "consumer"])
def member(request: pytest.FixtureRequest, broker: Broker, topic: str) -> Iterator[str]:
    """A group with a live member, by the old protocol and by the new one (KIP-848)."""
    if request.param == "consumer" and kafka_version().startswith("3."):
        pytest.skip("the new protocol is of Kafka 4.0")
    group = unique("members")
    consumer = member_of(broker, group, topic, request.param)
    yield group
    consumer.close()


def of(findings: list[CheckFinding], level: Level) -> list[str]:
    return [one.what for one in findings if one.level is level]


def test_all_is_well(broker: Broker, topic: str) -> None:
    """A group of ours within its logs, a topic that is there, Kafka's own retention."""
    group = unique("fine")
    commit(broker.bootstrap_servers, group, topic, {0: 1, 1: 2})
    found = check(broker, group, topics=(topic,))
    assert not to_act_on(found)
    whats = [one.what for one in found]
    assert whats[0] == "reached, 1 broker"
    assert whats[1].startswith("offsets.retention.minutes is 10080 (7 d), recommit_interval is 1 h")
    assert "2 partitions; the client may commit for it (Read)" in whats
    assert "it has no members (Empty)" in whats
    assert any(what.startswith("it holds 2 offsets, by odd") for what in whats)


def test_a_group_that_is_new_is_well(broker: Broker) -> None:
    """A group that does not exist is no finding: the first commit creates it."""
    found = check(broker, unique("new"))
    assert not to_act_on(found)
    assert any("does not exist yet" in one.what for one in found)


def test_a_group_with_members_refuses_simple_commits(broker: Broker, member: str) -> None:
    """Said before the first commit fails; a transaction may commit beside them."""
    (found,) = to_act_on(check(broker, member))
    assert found.level is Level.PROBLEM
    assert "has 1 member (somebody at 127.0.0.1)" in found.what
    beside = check(broker, member, mode="transactional")
    assert [one.level for one in to_act_on(beside)] == [Level.WARNING]
    (untried,) = [one for one in beside if "transactional id" in one.what]
    assert untried.advice.endswith(
        "--operation Write --operation Describe --transactional-id eo-listener-" + member
    )


def test_a_group_that_had_members_keeps_that_in_mind(broker: Broker, topic: str) -> None:
    """A classic group that was left loses all offsets at once: the trap is named."""
    group = unique("left")
    consumer = member_of(broker, group, topic)
    consumer.commit(offsets=[Wire(topic, 0, 1)], asynchronous=False)
    consumer.close()
    warned = of(check(broker, group), Level.WARNING)
    assert any("all its offsets expire at once" in what for what in warned)
    assert any(f"another program committed to it: {topic}-0" in what for what in warned)


def test_a_group_beyond_the_log_is_reported(broker: Broker, topic: str) -> None:
    """As after a topic was recreated: a commit would be refused until the log has grown."""
    group = unique("beyond")
    commit(broker.bootstrap_servers, group, topic, {0: 10_000_000})
    (found,) = to_act_on(check(broker, group))
    assert found.level is Level.PROBLEM
    assert f"beyond the end of the log in {topic}-0" in found.what


def test_records_deleted_before_they_were_reached_are_reported(broker: Broker) -> None:
    """Retention was faster than the group."""
    topics = Topics(broker.bootstrap_servers)
    name, group = topics.create(partitions=1), unique("slow")
    topics.fill(name, 10)
    commit(broker.bootstrap_servers, group, name, {0: 1})
    topics.forget_before(name, {0: 5})
    (found,) = to_act_on(check(broker, group))
    assert f"deleted records that it has not reached in {name}-0" in found.what


def test_an_open_transaction_is_reported(broker: Broker, topic: str) -> None:
    """Another driver at work, or one that was killed, holds the group's offsets."""
    group, servers = unique("open"), broker.bootstrap_servers
    commit(servers, group, topic, {0: 1})
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": unique("tx"), "log_level": "0"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer.send_offsets_to_transaction(
        [Wire(topic, 0, 2)], consumer.consumer_group_metadata(), 30
    )
    found = check(broker, group, mode="transactional")
    producer.abort_transaction(30)
    consumer.close()
    (told,) = to_act_on(found)
    assert "a transaction on its offsets is open" in told.what


def test_a_group_of_another_kind_is_reported(broker: Broker) -> None:
    """Kafka Connect has groups too, in which no offset of a consumer belongs."""
    group = unique("connect")
    host, _, port = broker.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        join(wire, group, "connect")
        (found,) = to_act_on(check(broker, group))
    assert found.what == "it is a connect group, not a consumer group"


def join(wire: socket.socket, group: str, protocol_type: str) -> None:
    """Send a JoinGroup (version 2) as a member of another kind would, and wait for its answer."""

    def text(words: str) -> bytes:
        return struct.pack(">h", len(words)) + words.encode()

    member = text(group) + struct.pack(">ii", 30_000, 30_000) + text("") + text(protocol_type)
    protocols = struct.pack(">i", 1) + text("default") + struct.pack(">i", 0)
    request = struct.pack(">hhi", 11, 2, 7) + text("worker") + member + protocols
    deadline = time.monotonic() + 30
    while True:
        wire.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", wire.recv(4, socket.MSG_WAITALL))
        answer = wire.recv(size, socket.MSG_WAITALL)
        _, _, error = struct.unpack_from(">iih", answer)
        if error == 0:
            return
        assert time.monotonic() < deadline, error
        time.sleep(0.2)


def test_a_topic_that_is_not_there(broker: Broker) -> None:
    """A mistyped name is a problem, with what to check."""
    (found,) = to_act_on(check(broker, topics=("mistyped",)))
    assert found.about == "topic mistyped"
    assert found.what == "it does not exist, or the client may not see it"
    assert found.advice.startswith("check its name")


@pytest.mark.parametrize(
    ("days", "mode", "level"),
    [(4, "simple", Level.WARNING), (7, "simple", Level.PROBLEM), (30, "member", None)],
)
def test_the_recommit_interval_is_held_against_the_brokers_retention(
    broker: Broker, days: int, mode: str, level: Level | None
) -> None:
    """Kafka keeps offsets for 7 days, but those of a group with a live member for ever."""
    found = to_act_on(check(broker, mode=mode, recommit_interval=days * 86400.0))
    assert [one.level for one in found] == ([] if level is None else [level])
    assert all("or less" in one.advice for one in found)
