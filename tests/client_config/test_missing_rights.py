"""Missing rights: named by `txn`, and by a committer; of one topic they hold up no other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from eo_listener.cli import app
from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.errors import EoListenerError, KafkaError
from eo_listener.events import CommitFailed, Event, Observers
from eo_listener.kafka.group_stores import open_cluster
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Position, TopicPartition
from eo_listener.spark.jvm.calls import JvmShimClient
from tests import hanging
from tests.client_config.test_locked_doors import MODES, QUICK
from tests.groups import commit_all, positions
from tests.secured import PASSWORDS, PLAIN_MODULE, Secured, jaas
from tests.topics import Topics, in_transaction, unique
from tests.waiting import until

pytestmark = pytest.mark.kafka

T = TopicPartition


class GroupAndTopics:
    """A group and three topics: bob may read one, describe one, see one not, and all else."""

    def __init__(self, secured: Secured) -> None:
        self.secured = secured
        topics = Topics(secured.broker.bootstrap_servers)
        self.group = unique("g")
        self.free, self.seen, self.hidden = (T(topics.create(partitions=1), 0) for _ in range(3))
        for tp in (self.free, self.seen, self.hidden):
            topics.fill(tp.topic, 5)
        secured.allow("bob", "GROUP", self.group, "READ")
        secured.allow("bob", "TOPIC", self.free.topic, "READ")
        secured.allow("bob", "TOPIC", self.seen.topic, "DESCRIBE")
        for right in ("WRITE", "DESCRIBE"):
            secured.allow("bob", "TRANSACTIONAL_ID", f"eo-listener-{self.group}", right)

    @property
    def wanted(self) -> dict[TopicPartition, Position]:
        return {tp: Position(offset=4) for tp in (self.free, self.seen, self.hidden)}

    @property
    def held(self) -> dict[TopicPartition, int]:
        found = positions(self.secured.broker.bootstrap_servers, self.group)
        return {tp: position.offset for tp, position in found.items()}

    def until(self, *held: TopicPartition) -> None:
        """Wait until the group holds just these."""
        until(lambda: self.held == dict.fromkeys(held, 4), what=lambda: self.held)


@pytest.mark.parametrize("mode", MODES)
def test_the_others_are_committed(secured: Secured, mode: str) -> None:
    """Each refused topic is named alone, with the right that it lacks; it lands when it has it."""
    place, events = GroupAndTopics(secured), list[Event]()
    cluster = Cluster.from_properties(secured.as_bob())
    committer = Committer(
        lambda cluster: open_cluster(cluster, mode, None),
        observers=Observers(events.append),
        retry=QUICK,
    )
    try:
        committer.offer(GroupOffsets(cluster=cluster, group=place.group, positions=place.wanted))
        place.until(place.free)
        told = [one for one in events if isinstance(one, CommitFailed)]
        denied = [one for one in told if one.code == "TOPIC_AUTHORIZATION_FAILED"]
        assert not [one for one in denied if place.free in one.errors]
        assert not [one for one in denied if place.free.topic in one.fix]
        assert any(one.fix.endswith(f"Read --topic {place.hidden.topic}") for one in denied)
        for tp in (place.seen, place.hidden):
            secured.allow("bob", "TOPIC", tp.topic, "READ")
        place.until(place.free, place.seen, place.hidden)
        assert committer.flush(30)
    finally:
        committer.close(1)


def test_a_topic_that_is_not_shown_is_named(secured: Secured, tmp_path: Path) -> None:
    """Kafka leaves it out of all that the group holds; who asks for it by name is told why."""
    place = GroupAndTopics(secured)
    commit_all(secured.broker.bootstrap_servers, place.group, dict.fromkeys(place.wanted, 4))
    login, properties = tmp_path / "bob", secured.as_bob()
    servers = properties.pop("bootstrap.servers")
    login.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    words = [place.group, "-b", servers, "-X", f"@{login}"]
    found = CliRunner().invoke(app, ["group", "export", *words])
    assert found.exit_code == 0
    assert place.hidden.topic not in found.stdout  # nothing can be known of it
    command = ["group", "export", *words, "--topic", place.free.topic]
    error = CliRunner().invoke(app, [*command, "--topic", place.hidden.topic]).exception
    assert isinstance(error, KafkaError)
    assert place.hidden.topic in error.problem
    assert f"--operation Describe --topic {place.hidden.topic}" in str(error.fix)
    assert "User:bob" in str(error.fix)


@pytest.fixture
def java(secured: Secured, spark: SparkSession) -> Iterator[GroupStore]:  # its JVM
    store = JavaGroups(
        JvmShimClient(),
        {
            "bootstrap.servers": secured.broker.addresses("PLAIN"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas(PLAIN_MODULE, "bob"),
        },
    )
    yield store
    store.close()


@pytest.mark.spark
def test_by_java_too(secured: Secured, java: GroupStore) -> None:
    """A snapshot names the topic that it may not read, and has the others; so does a commit."""
    place = GroupAndTopics(secured)
    refused = "TOPIC_AUTHORIZATION_FAILED"
    # The group's coordinator is made at its first use.
    answer = until(lambda: java.commit(place.group, place.wanted, timeout=8), despite=KafkaError)
    assert answer == {place.free: None, place.seen: refused, place.hidden: refused}
    snapshot = java.snapshot(place.group, place.wanted, timeout=8)
    assert snapshot.errors == {place.hidden.topic: refused}
    assert snapshot.positions == {place.free: place.wanted[place.free]}
    assert snapshot.ends.keys() == snapshot.starts.keys() == {place.free, place.seen}
    assert snapshot.topic_ids.keys() == {place.free.topic, place.seen.topic}
    with pytest.raises(KafkaError) as failed:
        snapshot.whole()
    assert failed.value.code == refused


ACL = "--allow-principal User:carol --operation"


@pytest.mark.slow
def test_what_is_missing_is_named_until_it_is_ended(secured: Secured) -> None:
    """Without Describe on every id none is said to hang; without Write on its id none is ended."""
    inside, producer_id = secured.broker.bootstrap_servers, 800_000_000 + os.getpid()
    topic, name = Topics(inside).create(partitions=1), f"open-{producer_id}"
    with hanging.unverified(inside):
        hanging.append(inside, TopicPartition(topic, 0), producer_id, written=1_600_000_000_000)
    producer = in_transaction(inside, name)
    producer.produce(topic, value="open", partition=0)
    assert producer.flush(30) == 0
    login = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": secured.keys.authority_file,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "carol",
        "sasl.password": PASSWORDS["carol"],
    }
    more = ["-b", secured.broker.addresses("SCRAM")]
    more += [word for key, text in login.items() for word in ("-X", f"{key}={text}")]
    more += ["--kafka-clients", str(secured.broker.release.jars[0].parent)]

    def run(*words: str) -> Any:
        answer = CliRunner().invoke(app, ["txn", *words, *more, "--json"])
        if isinstance(answer.exception, EoListenerError):
            raise answer.exception
        assert PASSWORDS["carol"] not in answer.stdout
        return json.loads(answer.stdout)

    for found in run("list", "-t", topic)["transactions"]:
        assert found["verdict"] == "not known"
        assert f"{ACL} Describe --transactional-id '*'" in found["why_not_known"]
    secured.allow("carol", "TRANSACTIONAL_ID", "*", "DESCRIBE")
    hangs, is_open = run("list", "-t", topic)["transactions"]
    assert (hangs["verdict"], is_open["transactional_id"]) == ("hanging", name)
    abort = ("abort", "--transactional-id", name, "--watch", "0", "--execute")
    with pytest.raises(KafkaError, match=f"{ACL} Write --transactional-id {name}"):
        run(*abort)
    assert len(run("list", "-t", topic)["transactions"]) == 2, "nothing was changed"
    secured.allow("carol", "TRANSACTIONAL_ID", name, "WRITE")
    assert run(*abort)["not_ended"] == {}
    (hangs,) = run("list", "-t", topic)["transactions"]
    assert hangs["verdict"] == "hanging"
