"""What a check of a real broker finds: each trap once."""

from __future__ import annotations

import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Wire

from eo_listener.client_config.identities import sink_transactional_id
from eo_listener.model.check_finding import CheckFinding, Severity, to_act_on
from eo_listener.preflight import child_process
from eo_listener.preflight.facts import Request
from eo_listener.sinks.kafka import KafkaSink
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.groups import await_assignment, commit
from tests.topics import Topics, in_transaction, send_offset, unique

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of two partitions with 10 records each."""
    topics = Topics(broker.bootstrap_servers)
    name = topics.create(partitions=2)
    topics.fill(name, 20)
    return name


@contextmanager
def live_member(broker: Broker, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    settings = {"group.id": group, "group.protocol": protocol, "client.id": "somebody"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    consumer.subscribe([topic])
    with closing(consumer):
        await_assignment(consumer)
        yield consumer


@contextmanager
def open_transaction(broker: Broker, group: str, topic: str) -> Iterator[None]:
    """A transaction on the offsets of a group, by a driver at work or one that was killed."""
    servers = broker.bootstrap_servers
    commit(servers, group, topic, {0: 1})
    producer = in_transaction(servers)
    send_offset(producer, servers, group, topic, 2)
    yield
    producer.abort_transaction(30)


@contextmanager
def connect_worker(broker: Broker, group: str) -> Iterator[None]:
    host, _, port = broker.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        join(wire, group, "connect")
        yield


PROTOCOLS = ["classic", *([] if kafka_version().startswith("3.") else ["consumer"])]
Found = dict[str, list[CheckFinding]]


@pytest.fixture(scope="module")
def found(broker: Broker, topic: str) -> dict[str, Found]:
    """What one check of all groups finds, by mode and by what is in the way."""
    topics = Topics(broker.bootstrap_servers)
    group = {
        name: unique(name)
        for name in ("fine", "new", "left", "beyond", "slow", "open", "connect", *PROTOCOLS)
    }
    commit(broker.bootstrap_servers, group["fine"], topic, {0: 1, 1: 2})
    commit(broker.bootstrap_servers, group["beyond"], topic, {0: 10_000_000})
    emptied = topics.create(partitions=1)
    topics.fill(emptied, 10)
    commit(broker.bootstrap_servers, group["slow"], emptied, {0: 1})
    topics.forget_before(emptied, {0: 5})
    with live_member(broker, group["left"], topic, "classic") as consumer:
        consumer.commit(offsets=[Wire(topic, 0, 1)], asynchronous=False)
    with ExitStack() as stack:
        stack.enter_context(open_transaction(broker, group["open"], topic))
        stack.enter_context(connect_worker(broker, group["connect"]))
        for protocol in PROTOCOLS:
            stack.enter_context(live_member(broker, group[protocol], topic, protocol))
        findings = {
            mode: child_process.run(  # as the command does: the requests can end a process
                Request(
                    properties={"bootstrap.servers": broker.bootstrap_servers},
                    groups=tuple(group.values()),
                    topics=(topic, "mistyped"),
                    mode=mode,
                    recommit_interval=3600.0,
                )
            ).findings
            for mode in ("simple", "transactional")
        }
    about = {f"group {full}": name for name, full in group.items()}
    about |= {f"topic {topic}": "topic", "topic mistyped": "mistyped"}
    by_mode: dict[str, Found] = {}
    for mode, every in findings.items():
        of_mode = by_mode.setdefault(mode, defaultdict(list))
        for one in every:
            of_mode[about.get(one.about, "cluster")].append(one)
    return by_mode


def test_all_is_well(found: dict[str, Found]) -> None:
    """A group of ours within its logs, a new one, a topic, Kafka's own retention."""
    simple = found["simple"]
    for name, facts in {
        "cluster": ("1 broker", "offsets.retention.minutes is 10080 (7 d)"),
        "topic": ("2 partitions", "Read"),
        "fine": ("no members (Empty)", "holds 2 offsets", "by odd"),
        "new": ("does not exist yet",),
    }.items():
        assert not to_act_on(simple[name])
        whats = " ".join(one.what for one in simple[name])
        assert not [fact for fact in facts if fact not in whats], whats


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_refuses_simple_commits(
    found: dict[str, Found], protocol: str
) -> None:
    """By either protocol of Kafka; a transaction may commit beside them."""
    (refused,) = to_act_on(found["simple"][protocol])
    assert refused.level is Severity.PROBLEM
    assert "1 member (somebody at 127.0.0.1)" in refused.what
    beside = found["transactional"][protocol]
    assert [one.level for one in to_act_on(beside)] == [Severity.WARNING]
    (untried,) = [one for one in beside if "transactional id" in one.what]
    rights = "--operation Write --operation Describe --transactional-id eo-listener-"
    assert rights + untried.about.removeprefix("group ") in untried.advice


@pytest.mark.parametrize(
    ("name", "mode", "level", "words"),
    [
        ("left", "simple", Severity.WARNING, "expire together"),  # as a classic group's offsets do
        ("left", "simple", Severity.WARNING, "another program"),
        ("beyond", "simple", Severity.PROBLEM, "beyond the end"),  # as after a topic was recreated
        ("slow", "simple", Severity.WARNING, "deleted records"),
        ("open", "transactional", Severity.WARNING, "transaction"),
        ("connect", "simple", Severity.PROBLEM, "connect group"),
        ("mistyped", "simple", Severity.PROBLEM, "does not exist"),
    ],
)
def test_what_is_in_the_way(
    found: dict[str, Found], name: str, mode: str, level: Severity, words: str
) -> None:
    """Each trap is found on a real broker, and nothing else of that group or topic."""
    acts = to_act_on(found[mode][name])
    assert [one.level for one in acts if words in one.what] == [level]
    assert len(acts) == (2 if name == "left" else 1)
    assert all(one.advice for one in acts)


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


def test_a_query_that_runs_is_not_fenced(broker: Broker) -> None:
    """The right to its transactional id is tried, and its transaction goes on; all is well."""
    servers = broker.bootstrap_servers
    target = Topics(servers).create("target", 2)
    settings = {"bootstrap.servers": servers, "log_level": 0}
    own = sink_transactional_id(target, "q")
    live = Producer({**settings, "transactional.id": own})
    live.init_transactions(30)
    begin(live, target)
    ledger, group = unique("ledger"), unique("g")
    options = {"kafka.bootstrap.servers": servers}
    found = KafkaSink(options, target, ledger_topic=ledger, group=group).check("q")
    assert not to_act_on(found)
    of_group = [one.what for one in found if one.about == f"group {group}"]
    assert any("(Read)" in what for what in of_group)
    assert not any("transactional id" in what for what in of_group)  # that of the sink is another
    whats = {one.about: one.what for one in found}
    assert "2 partitions" in whats[f"topic {target}"]
    assert "(Write)" in whats[f"topic {target}"]
    assert "does not exist yet" in whats[f"ledger {ledger}"]
    assert "(Write)" in whats[f"transactional id {own}"]
    assert any("transaction.max.timeout.ms is 900000" in one.what for one in found)
    live.commit_transaction(30)
    Producer({**settings, "transactional.id": own}).init_transactions(30)
    with pytest.raises(KafkaException, match="_FENCED"):  # as it would be, had the check taken it
        begin(live, target)


def begin(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush(30)
