"""A real broker: its life, its settings, and that it never outlives its Python."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # no __all__
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.broker import KNOWN, BrokerError, GroupRow, Listener, parse_rows, settings
from tests.conftest import StartBroker
from tests.groups import shown_state
from tests.topics import Topics

pytestmark = pytest.mark.kafka


def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": "0"})


def fill(servers: str, group: str) -> None:
    """Make the topic `kept` of ten records, of which the group has committed four."""
    client = admin(servers)
    client.create_topics([NewTopic("kept", 1)])["kept"].result(timeout=20)
    Topics(servers).fill("kept", 10)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            consumer.commit(offsets=[Wire("kept", 0, 4)], asynchronous=False)
            break
        except KafkaException:  # the coordinator is still being made
            time.sleep(0.2)
    consumer.close()


@pytest.mark.parametrize("version", [KNOWN[0], pytest.param(KNOWN[1], marks=pytest.mark.slow)])
def test_data_survive_a_kill_and_a_restart(version: str, start_broker: StartBroker) -> None:
    """Address, records and committed offsets are the same; Kafka's own tool reads them."""
    started = start_broker(version=version)
    servers, before = started.bootstrap_servers, started.pids
    fill(servers, "a group")
    started.kill()
    assert started.pids == {}
    assert not psutil.pid_exists(before[1])
    started.restart()
    assert started.bootstrap_servers == servers
    assert parse_rows(started.consumer_groups("a group")) == (
        GroupRow("a group", "kept", 0, current_offset=4, log_end_offset=10, lag=6),
    )
    assert shown_state(started.consumer_groups("a group", "--state")) == ("Empty", 0)
    with pytest.raises(BrokerError, match="'nobody'"):
        started.consumer_groups("nobody")
    data = started.data
    assert "INFO" in started.log().read_text()
    started.stop()
    assert not data.exists()


@pytest.mark.slow
def test_three_nodes_live_on_without_one(start_broker: StartBroker) -> None:
    """They keep three copies, and take a killed one back."""
    started = start_broker(nodes=3)
    servers = started.bootstrap_servers
    assert servers.count(",") == 2
    fill(servers, "spread")
    started.kill(2)
    assert sorted(started.pids) == [1, 3]
    Topics(servers).fill("kept", 10)
    started.restart(2)
    assert admin(servers).list_topics(timeout=10).brokers.keys() == {1, 2, 3}
    (row,) = parse_rows(started.consumer_groups("spread"))
    assert (row.current_offset, row.log_end_offset) == (4, 20)


def test_settings_and_listeners_reach_kafka(start_broker: StartBroker) -> None:
    """Any property can be set, and a proxy advertised; a mistyped topic is not created."""
    started = start_broker(
        properties={"log.retention.ms": "60000", "offsets.topic.num.partitions": "3"},
        listeners=[Listener(name="PROXIED", advertised="127.0.0.1:9999")],
    )
    client = admin(started.bootstrap_servers)
    (future,) = client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    found = future.result(timeout=20)
    assert found["log.retention.ms"].value == "60000"
    assert found["offsets.topic.num.partitions"].value == "3"
    proxied = admin(started.addresses("PROXIED")).list_topics(timeout=10).brokers[1]
    assert f"{proxied.host}:{proxied.port}" == "127.0.0.1:9999"
    assert client.list_topics("mistyped", timeout=10).topics["mistyped"].error is not None
    assert "mistyped" not in client.list_topics(timeout=10).topics


def test_a_paused_node_does_not_answer(start_broker: StartBroker) -> None:
    """Requests time out; it answers when it goes on; and it can be stopped while it is held."""
    started = start_broker()
    client = admin(started.bootstrap_servers)
    client.list_topics(timeout=10)
    started.pause()
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    started.resume()
    assert client.list_topics(timeout=10).brokers
    (pid,) = started.pids.values()
    started.pause()
    started.stop()
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({"properties": {"num.io.threads": "many"}}, "num.io.threads"),
        ({"java_options": ["-XX:NoSuchOption"]}, "NoSuchOption"),
    ],
)
def test_what_does_not_start_is_quoted(
    options: dict[str, Any], quoted: str, start_broker: StartBroker
) -> None:
    """At once, with a log that is still there."""
    with pytest.raises(BrokerError) as caught:
        start_broker(**options)
    assert quoted in str(caught.value.cause)
    log = Path(str(caught.value.fix).rpartition(": ")[2].rstrip(")"))
    assert quoted in log.read_text()
    shutil.rmtree(log.parents[1])


@pytest.mark.slow
def test_a_port_that_is_taken_meanwhile_is_exchanged(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs a try, not the start."""
    honest, taken = settings.free_ports, list[int]()

    def once_wrong(count: int) -> list[int]:
        if taken:
            return honest(count)
        taken.append(server.getsockname()[1])
        return [taken[0], *honest(count - 1)]

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr("tests.broker.broker.free_ports", once_wrong)
        started = start_broker()
    assert taken
    assert started.bootstrap_servers != f"127.0.0.1:{taken[0]}"


PROGRAM = """
import sys, time, threading
from tests.broker import Broker
started = []
def start():
    started.append(Broker(version=sys.argv[1]))
    started[0].start()
thread = threading.Thread(target=start); thread.start(); thread.join()
print(started[0].pids[1], started[0].data, flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["exit", "SIGINT", "SIGTERM", "SIGKILL"])
def test_no_process_outlives_the_python_that_started_it(end: str) -> None:
    """Kafka ends when Python ends by itself, is interrupted, or is killed, and not sooner.

    It is started by a thread that ends at once, which must not end Kafka.
    """
    command = [sys.executable, "-c", PROGRAM, KNOWN[0], "end" if end == "exit" else "wait"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as python:
        assert python.stdout is not None
        pid, data = python.stdout.readline().split()
        if end != "exit":
            kafka = psutil.Process(int(pid))
            time.sleep(0.5)
            assert kafka.is_running()
            python.send_signal(getattr(signal, end))
            kafka.wait(timeout=20)
        _, said = python.communicate(timeout=30)
    assert not psutil.pid_exists(int(pid))
    assert Path(data).exists() == (end in ("SIGTERM", "SIGKILL"))
    assert "ResourceWarning" not in said
    shutil.rmtree(data, ignore_errors=True)


HEAD = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG       "
    "      CONSUMER-ID                                            HOST            CLIENT-ID\n"
)
MEMBERS = HEAD + (
    "g 1             t               0          5               28              23        "
    "      my app-0b1d4ed6-40d7-4f32-a8f5-0f6a0ab01d5a            /127.0.0.1      my app\n"
    "g 1             t               1          -               12              -         "
    "      -                                                      -               -\n"
)


def test_the_table_of_a_group_is_read() -> None:
    """With and without a member: `-` becomes None, and names may hold spaces."""
    assert parse_rows(f"\nConsumer group 'g 1' has no active members.\n\n{MEMBERS}") == (
        GroupRow("g 1", "t", 0, current_offset=5, log_end_offset=28, lag=23),
        GroupRow("g 1", "t", 1, current_offset=None, log_end_offset=12, lag=None),
    )
    assert parse_rows(HEAD) == ()
