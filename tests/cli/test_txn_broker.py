"""`eo-listener txn` against a broker: what is open, whose it is, and its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import Result

from eo_listener.cli import java_client
from eo_listener.errors import SettingsError
from eo_listener.spark.java import Java
from eo_listener.spark.shim_process import ShimProcess
from tests.broker import Broker
from tests.cli.commands import invoke
from tests.topics import Topics, in_transaction, send_offset, unique

pytestmark = pytest.mark.kafka

QUICK = ["--watch", "0", "--execute", "--json"]


class Kept:
    """The shim's process of the first command, for all: a JVM takes a second to start."""

    started: ShimProcess | None = None

    def __init__(self, java: Java, jars: Sequence[Path]) -> None:
        if Kept.started is None:
            Kept.started = ShimProcess(java, jars)

    def call(self, what: str, argument: str) -> str:
        assert Kept.started is not None
        return Kept.started.call(what, argument)

    def close(self) -> None:
        """Stay for the next command."""

    @staticmethod
    def end() -> None:
        if Kept.started is not None:
            Kept.started.close()
            Kept.started = None


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    """One JVM for the commands of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_client, "ShimProcess", Kept)
        yield
    Kept.end()


def run(broker: Broker, *words: str) -> Result:
    clients = ["--kafka-clients", str(broker.release.jars[0].parent)] if words[0] == "txn" else []
    return invoke(*words, "-b", broker.bootstrap_servers, *clients)


def listed(broker: Broker, *words: str) -> tuple[int, list[Mapping[str, Any]]]:
    answer = run(broker, "txn", "list", "--json", *words)
    found: list[Mapping[str, Any]] = json.loads(answer.stdout)["transactions"]
    return answer.exit_code, found


@contextmanager
def left_open(broker: Broker, name: str, topic: str, group: str) -> Iterator[Producer]:
    """A producer that has sent a record, and offsets of a group, and stands still."""
    producer = in_transaction(broker.bootstrap_servers, name)
    producer.produce(topic, value="open", partition=0)
    send_offset(producer, broker.bootstrap_servers, group, topic, 1)
    assert producer.flush(30) == 0
    yield producer


def test_one_of_ours_is_found_and_fenced(broker: Broker) -> None:
    """By topic and by group, and `status` says how; after the abort readers go on at once."""
    topics = Topics(broker.bootstrap_servers)
    topic, group, query = topics.create(partitions=1), unique("g"), unique("it's")
    name = f"eo-listener/{topic}/{query.replace(chr(39), '%27')}"
    with left_open(broker, name, topic, group) as producer:
        topics.fill(topic, 1)
        began = time.time() * 1000
        code, (found,) = listed(broker, "-t", topic, "-g", group)
        assert code == 0
        assert found["ours"] == {"sink": topic, "query": query, "group": None}
        assert (found["verdict"], found["timeout"]) == ("open", 60.0)
        assert abs(found["since"] - began) < 60_000
        where = {one["topic"]: one for one in found["partitions"]}
        assert set(where) == {topic, "__consumer_offsets"}
        assert (where[topic]["start_offset"], where[topic]["holds"]) == (0, True)
        command = ("txn", "abort", "--transactional-id", name)
        assert json.loads(run(broker, *command, "--json").stdout)["executed"] is False
        assert listed(broker, "-t", topic)[1], "a dry run"
        done = json.loads(run(broker, *command, *QUICK).stdout)
        assert (done["ended"], done["not_ended"]) == (True, {})
        assert listed(broker, "-t", topic, "-g", group) == (0, [])
        with pytest.raises(KafkaException, match=r"fenced|FENCED"):
            producer.commit_transaction(30)
    assert json.loads(run(broker, *command, "--json").stdout)["transaction"] is None
    with pytest.raises(SettingsError):
        run(broker, "txn", "abort", "--transactional-id", unique("nosuch"))


def test_status_says_what_to_type(broker: Broker) -> None:
    """Where an open transaction holds a group's partition up."""
    servers = broker.bootstrap_servers
    topic, group, other = Topics(servers).create(partitions=1), unique("g"), unique("g")
    with left_open(broker, unique("tx"), topic, group) as producer:
        producer.commit_transaction(30)
        assert "txn list" not in run(broker, "status", group).stdout
    with left_open(broker, unique("tx"), topic, other) as producer:
        said = run(broker, "status", group).stdout
        assert f"eo-listener txn list -b {servers} --group {group}" in said
        producer.abort_transaction(30)
