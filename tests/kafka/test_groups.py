"""Commits and readings against a real coordinator, on good days and bad."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException, Producer

from eo_listener.errors import KafkaError, SettingsError
from eo_listener.kafka import logs, simple_groups
from eo_listener.kafka.client import Client, to_wire
from eo_listener.kafka.group_stores import check
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.many_groups import ManyGroups
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.offsets import TopicPartition
from tests.broker import Broker
from tests.groups import commit, insist
from tests.store_facts import (
    at,
    test_a_snapshot_leaves_out_what_does_not_exist,
    test_a_snapshot_shows_a_topic_change,
    test_a_snapshot_shows_where_group_and_logs_stand,
    test_one_deleted_topic_does_not_hide_that_the_others_landed,
    test_what_is_committed_is_read_back,
)
from tests.topics import Topics, in_transaction, unique
from tests.waiting import until

__all__ = [
    "test_a_snapshot_leaves_out_what_does_not_exist",
    "test_a_snapshot_shows_a_topic_change",
    "test_a_snapshot_shows_where_group_and_logs_stand",
    "test_one_deleted_topic_does_not_hide_that_the_others_landed",
    "test_what_is_committed_is_read_back",
]

pytestmark = pytest.mark.kafka

T = TopicPartition


@pytest.fixture
def store(broker: Broker) -> Iterator[SimpleGroups]:
    store = SimpleGroups({"bootstrap.servers": broker.bootstrap_servers})
    yield store
    store.close()


@pytest.fixture
def reader(broker: Broker) -> Iterator[ClusterReader]:
    reader = ClusterReader({"bootstrap.servers": broker.bootstrap_servers})
    yield reader
    reader.close()


def test_nobody_at_the_address_is_said_with_its_reason() -> None:
    """Within the time-out, by commit and by snapshot; closing does not wait for long."""
    store = SimpleGroups({"bootstrap.servers": "127.0.0.1:1"})
    for ask in (
        lambda: store.commit("g", at(5, T("t", 0), T("t", 1)), timeout=1.5),
        lambda: store.snapshot("g", [T("t", 0)], timeout=1.5),
    ):
        started = time.monotonic()
        with pytest.raises(KafkaError) as failed:
            ask()
        assert time.monotonic() - started < 5
        assert failed.value.code == "_TRANSPORT"
        assert "Connection refused" in (failed.value.cause or "")
    started = time.monotonic()
    store.close()
    assert time.monotonic() - started < 7


@pytest.mark.slow
def test_after_an_outage_no_old_complaint_stays(start_broker: Callable[..., Broker]) -> None:
    """After a success a later failure is not reported with the reason of an earlier one."""
    broker = start_broker()
    topic = Topics(broker.bootstrap_servers).create()
    store = SimpleGroups({"bootstrap.servers": broker.bootstrap_servers})
    insist(store, "g", at(1, T(topic, 0)))
    broker.kill()
    with pytest.raises(KafkaError):
        store.commit("g", at(2, T(topic, 0)), timeout=6)
    broker.restart()
    insist(store, "g", at(3, T(topic, 0)))
    with pytest.raises(KafkaError) as failed:
        store.commit("g", at(4, T("nosuch", 0)), timeout=8)
    assert failed.value.code == "UNKNOWN_TOPIC_OR_PART"
    assert "refused" not in (failed.value.cause or "")
    store.close()


def test_many_groups_keep_a_bounded_number_of_clients(
    store: SimpleGroups, topics: Topics, reader: ClusterReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the number that is kept, groups take turns, and each is committed all the same."""
    monkeypatch.setattr(simple_groups, "LIMIT", 5)
    topic = topics.create()
    groups = [unique("g") for _ in range(12)]
    for group in groups:
        insist(store, group, at(3, T(topic, 0)))
    assert len(store._clients) <= 5
    kept = dict(store._clients)
    insist(store, groups[-1], at(3, T(topic, 0)))
    assert store._clients == kept
    for group in (groups[0], groups[-1]):
        assert reader.group(group, [T(topic, 0)]) == at(3, T(topic, 0))


@contextmanager
def transaction_on(servers: str, group: str, topic: str) -> Iterator[Producer]:
    """A transaction that moves the group to 5, open; ended here where it is not before."""
    producer = in_transaction(servers, group)
    client = Client({"bootstrap.servers": servers}, group)
    member = client.consumer.consumer_group_metadata()
    client.close()
    producer.send_offsets_to_transaction(to_wire(at(5, T(topic, 0))), member, 30)
    try:
        yield producer
    finally:
        with suppress(KafkaException):  # it was committed
            producer.abort_transaction(30)


def test_what_is_being_committed_in_a_transaction_is_waited_for(
    store: SimpleGroups, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer is answered a moment before readers see it."""
    monkeypatch.setattr(simple_groups, "_SETTLE", 30.0)
    topic, group, asked = topics.create(), unique("g"), threading.Event()
    insist(store, group, at(1, T(topic, 0)))
    ask = logs.group_offsets

    def asks(*question: Any) -> logs.GroupOffsets:
        asked.set()
        return ask(*question)

    monkeypatch.setattr(simple_groups, "group_offsets", asks)
    with transaction_on(topics.servers, group, topic) as producer, ThreadPoolExecutor(1) as pool:
        found = pool.submit(store.snapshot, group, [T(topic, 0)], timeout=60)
        assert asked.wait(30)
        producer.commit_transaction(30)
        assert found.result(60).positions == at(5, T(topic, 0))


def test_a_transaction_that_stays_open_holds_no_reading_up(
    store: SimpleGroups, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver may have been killed; the group is what it was before."""
    monkeypatch.setattr(simple_groups, "_SETTLE", 0.5)
    topic, group = topics.create(), unique("g")
    insist(store, group, at(1, T(topic, 0)))
    with transaction_on(topics.servers, group, topic):
        assert store.snapshot(group, [T(topic, 0)], timeout=30).positions == at(1, T(topic, 0))


def test_the_log_end_counts_an_open_transaction(topics: Topics, reader: ClusterReader) -> None:
    """Lag is what is in the log, also what cannot be read yet; what is gone has none, and not 0."""
    topic = topics.create(partitions=1)
    producer = in_transaction(topics.servers)
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    try:
        assert reader.log_ends([T(topic, 0), T("nosuch", 0)]) == {T(topic, 0): 10}
    finally:
        producer.abort_transaction(30)


@pytest.mark.parametrize(
    ("mode", "properties"),
    [
        ("simple", {"session.timeout.ms": "never"}),
        ("member", {"group.protocol": "consumer", "session.timeout.ms": "6000"}),
        ("transactional", {"transaction.timeout.ms": "never"}),
    ],
)
def test_settings_are_checked_for_their_mode(mode: str, properties: Mapping[str, str]) -> None:
    """What only one mode's client refuses is refused before anything connects."""
    check({}, mode)
    with pytest.raises(SettingsError, match="does not accept"):
        check(properties, mode)


def test_settings_that_no_client_takes() -> None:
    """Refused when the client is opened, without the value."""
    with pytest.raises(SettingsError) as refused:
        SimpleGroups({"bootstrap.servers": "x:1", "sasl.nosuch": "hunter2"}).commit(
            "g", at(1, T("t", 0)), timeout=1
        )
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("apart", [False, True])
def test_offsets_and_metadata(apart: bool, broker: Broker) -> None:
    """As they were committed; nothing for a group that does not exist."""
    servers, group = broker.bootstrap_servers, unique("g")
    topic = Topics(servers).create(partitions=2)
    commit(servers, group, topic, {0: 3, 1: 5})
    with closing(ManyGroups({"bootstrap.servers": servers}, apart=apart)) as many:
        assert group in many.names()
        found = many.read([group, "nosuch"])
    assert {tp: at.offset for tp, at in found[group].positions.items()} == {
        TopicPartition(topic, 0): 3,
        TopicPartition(topic, 1): 5,
    }
    assert all("odd [/red] name" in at.metadata for at in found[group].positions.values())
    assert (found["nosuch"].positions, found["nosuch"].error) == ({}, None)


def test_a_process_that_dies_is_replaced(broker: Broker) -> None:
    """As librdkafka may end it: one reading fails, the next one succeeds."""
    with closing(ManyGroups({"bootstrap.servers": broker.bootstrap_servers}, apart=True)) as many:
        many.names()
        child = many._process.pid
        assert child is not None
        os.kill(child, signal.SIGKILL)
        with pytest.raises(KafkaError, match="failed: _DESTROY"):
            many.names()
        many.names()
        assert many._process.pid != child


@pytest.mark.parametrize("apart", [False, True])
def test_a_cluster_that_is_away(apart: bool) -> None:
    """An error of Kafka's, from whichever process has asked."""
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    with closing(ManyGroups(properties, apart=apart, timeout=1.0)) as many:
        with pytest.raises(KafkaError, match="listing groups at 127"):
            many.names()
        assert many.read(["g"])["g"].error is not None


def test_the_end_waits_for_no_answer() -> None:
    """A Ctrl-C while Kafka is away ends the command at once."""
    many = ManyGroups({"bootstrap.servers": "127.0.0.1:1"}, apart=True, timeout=60.0)

    def ask() -> None:
        with pytest.raises(KafkaError):
            many.names()

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: many._process.pid)
    time.sleep(0.5)  # by now it waits
    begun = time.monotonic()
    many.close()
    asking.join(30)
    assert not asking.is_alive()
    assert time.monotonic() - begun < 20


_STARTER = """
import os, time
from eo_listener.kafka.separate_process import SeparateProcess

if __name__ == "__main__":
    process = SeparateProcess()
    print(process.call(os.getpid), flush=True)
    time.sleep(60)
"""


def test_the_process_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """A pool's worker would wait forever, and hold what the program had open."""
    program = tmp_path / "program.py"
    program.write_text(_STARTER)
    started = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    worker = psutil.Process(int(started.stdout.readline()))
    started.kill()
    started.communicate(timeout=30)  # which the worker would hold up
    worker.wait(timeout=30)
