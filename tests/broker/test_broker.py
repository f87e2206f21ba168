"""A real node: its life on the same data, its listeners, its settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from eo_listener.model.errors import SettingsError
from eo_listener.spark import java
from tests.broker import Broker, GroupRow, Listener, parse_rows
from tests.broker.clients import admin, commit, create, produce
from tests.broker.errors import BrokerError
from tests.conftest import StartBroker
from tests.groups import shown_state

pytestmark = pytest.mark.kafka

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'


def test_kafkas_own_tool_describes_a_group(broker: Broker) -> None:
    """A commit by librdkafka is read back through Java and its table parsed."""
    create(broker.bootstrap_servers, "described")
    produce(broker.bootstrap_servers, "described", 7)
    commit(broker.bootstrap_servers, "a group", "described", 5)
    (row,) = parse_rows(broker.consumer_groups("a group"))
    assert row == GroupRow(
        group="a group",
        topic="described",
        partition=0,
        current_offset=5,
        log_end_offset=7,
        lag=2,
        consumer_id=None,
        host=None,
        client_id=None,
    )
    assert shown_state(broker.consumer_groups("a group", "--state")) == ("Empty", 0)


def test_a_group_that_does_not_exist_is_said(broker: Broker) -> None:
    """The tool's own error is quoted in one line."""
    with pytest.raises(BrokerError, match="could not describe the group 'nobody'"):
        broker.consumer_groups("nobody")


def test_topics_are_not_made_by_asking_for_them(broker: Broker) -> None:
    """A mistyped topic is an error, not a new topic."""
    client = admin(broker.bootstrap_servers)
    assert client.list_topics("mistyped", timeout=10).topics["mistyped"].error is not None
    assert "mistyped" not in client.list_topics(timeout=10).topics


@pytest.mark.slow
def test_data_survive_a_kill_and_a_restart_from_another_python(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """Records and committed offsets, the cluster's id and the port are the same afterwards.

    The file of settings is written at every start, so that losing it loses nothing.
    """
    first = start_broker(data=tmp_path / "data")
    servers = first.bootstrap_servers
    create(servers, "kept")
    produce(servers, "kept", 10)
    commit(servers, "kept", "kept", 4)
    cluster, before = _cluster_id(servers), first.pids
    first.kill()
    assert len(first.pids) == 0
    assert not psutil.pid_exists(before[1])
    with pytest.raises(KafkaException):
        admin(servers).list_topics(timeout=1)
    first.restart()
    assert first.pids != before
    _assert_kept(first, cluster)
    first.stop()
    (tmp_path / "data" / "node-1" / "server.properties").unlink()
    second = start_broker(data=tmp_path / "data")
    assert second.bootstrap_servers == servers
    _assert_kept(second, cluster)


def _cluster_id(servers: str) -> str:
    return str(admin(servers).list_topics(timeout=10).cluster_id)


def _assert_kept(broker: Broker, cluster: str) -> None:
    assert _cluster_id(broker.bootstrap_servers) == cluster
    (row,) = parse_rows(broker.consumer_groups("kept"))
    assert (row.current_offset, row.log_end_offset, row.lag) == (4, 10, 6)


def test_settings_and_further_listeners_reach_kafka(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """Any property can be set; TLS is spoken, SASL asks for a name, a proxy is advertised."""
    keystore, certificate = make_certificate(tmp_path)
    broker = start_broker(
        properties={"log.retention.ms": "60000", "offsets.topic.num.partitions": "3"},
        listeners=[
            Listener(name="PROXIED", advertised="127.0.0.1:9999"),
            Listener(
                name="SASL",
                security_protocol="SASL_PLAINTEXT",
                properties={"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": JAAS},
            ),
            Listener(
                name="TLS",
                security_protocol="SSL",
                properties={
                    "ssl.keystore.type": "PKCS12",
                    "ssl.keystore.location": str(keystore),
                    "ssl.keystore.password": "secret",
                },
            ),
        ],
    )
    client = admin(broker.bootstrap_servers)
    (future,) = client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    settings = future.result(timeout=20)
    assert settings["log.retention.ms"].value == "60000"
    assert settings["offsets.topic.num.partitions"].value == "3"

    proxied = admin(broker.addresses("PROXIED")).list_topics(timeout=10).brokers[1]
    assert f"{proxied.host}:{proxied.port}" == "127.0.0.1:9999"

    trust = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
    assert admin(broker.addresses("TLS"), **trust).list_topics(timeout=10).brokers
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
    }
    right = admin(broker.addresses("SASL"), **login, **{"sasl.password": "secret"})
    assert right.list_topics(timeout=10).brokers
    strangers = [
        admin(broker.addresses("SASL"), **login, **{"sasl.password": "guess"}),
        admin(broker.addresses("TLS")),
    ]
    for stranger in strangers:
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=1)

    data = broker.data
    assert "INFO" in broker.log().read_text()
    broker.stop()
    assert not data.exists()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a key store (password "secret") and its certificate with the JDK's keytool."""
    keytool = java.find().executable.resolve().with_name("keytool")
    keystore, certificate = folder / "broker.p12", folder / "broker.pem"
    common = ["-keystore", str(keystore), "-storepass", "secret", "-alias", "broker"]
    make = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1"]
    show = ["-exportcert", "-rfc", "-file", str(certificate)]
    for command in (make, show):
        subprocess.run([str(keytool), *command, *common], capture_output=True, check=True)
    return keystore, certificate


def test_a_paused_node_keeps_its_connections_and_does_not_answer(
    start_broker: StartBroker,
) -> None:
    """A held broker times out instead of refusing, answers when it goes on, and can be stopped."""
    broker = start_broker()
    client = admin(broker.bootstrap_servers)
    client.list_topics(timeout=10)
    broker.pause()
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    broker.resume()
    assert client.list_topics(timeout=10).brokers
    (pid,) = broker.pids.values()
    broker.pause()
    broker.stop()
    assert not psutil.pid_exists(pid)
    with pytest.raises(BrokerError, match="not running"):
        broker.pause()


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


@pytest.mark.parametrize("end", ["exit", "SIGINT", "SIGKILL"])
def test_no_process_outlives_the_python_that_started_it(end: str, broker: Broker) -> None:
    """Kafka ends when Python ends by itself, is interrupted, or is killed, and not sooner.

    It is started by a thread that ends at once, which must not end Kafka.
    """
    what = "end" if end == "exit" else "wait"
    command = [sys.executable, "-c", PROGRAM, broker.release.version, what]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as python:
        assert python.stdout is not None
        pid, data = python.stdout.readline().split()
        kafka = psutil.Process(int(pid)) if what == "wait" else None
        if kafka is not None:
            time.sleep(0.5)
            assert kafka.is_running()
            python.send_signal(getattr(signal, end))
        python.wait(timeout=30)
    if kafka is not None:
        kafka.wait(timeout=10)
    assert not psutil.pid_exists(int(pid))
    assert Path(data).exists() == (end == "SIGKILL")
    shutil.rmtree(data, ignore_errors=True)


def test_a_node_that_is_not_there_is_said(broker: Broker) -> None:
    """Node numbers begin at one."""
    with pytest.raises(SettingsError, match="must be from 1 to 1, got 2"):
        broker.kill(2)
    assert len(broker.pids) == 1


@pytest.mark.slow
def test_three_nodes_live_on_without_one(start_broker: StartBroker) -> None:
    """Three combined nodes answer, keep three copies, and take a killed one back."""
    broker = start_broker(nodes=3)
    servers = broker.bootstrap_servers
    assert servers.count(",") == 2
    create(servers, "spread")
    produce(servers, "spread", 10)
    commit(servers, "spread", "spread", 10)
    (partition,) = (
        admin(servers).list_topics("spread", timeout=10).topics["spread"].partitions.values()
    )
    assert len(partition.replicas) == 3
    broker.kill(2)
    assert sorted(broker.pids) == [1, 3]
    produce(servers, "spread", 10, acks="all")
    broker.restart(2)
    assert admin(servers).list_topics(timeout=10).brokers.keys() == {1, 2, 3}
    (row,) = parse_rows(broker.consumer_groups("spread"))
    assert (row.current_offset, row.log_end_offset) == (10, 20)


@pytest.mark.slow
def test_the_older_release_runs_too(start_broker: StartBroker) -> None:
    """3.9.2 is formatted, started, described and restarted like the default."""
    broker = start_broker(version="3.9.2")
    create(broker.bootstrap_servers, "older")
    produce(broker.bootstrap_servers, "older", 3)
    commit(broker.bootstrap_servers, "older", "older", 1)
    broker.kill()
    broker.restart()
    (row,) = parse_rows(broker.consumer_groups("older"))
    assert (row.current_offset, row.lag) == (1, 2)
    assert shown_state(broker.consumer_groups("older", "--state")) == ("Empty", 0)
    assert "INFO" in broker.log().read_text()
