"""Commits and readings through Spark's own kafka-clients, against a real coordinator."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.errors import JvmError, KafkaError, SettingsError
from eo_listener.kafka.java_groups import NO_JVM, UNANSWERED, JavaGroups
from eo_listener.kafka.logs import UNREADABLE, ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.kafka_errors import explain
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Position, TopicPartition
from eo_listener.spark.jvm.calls import JvmShimClient
from tests.broker import Broker, Listener, parse_rows
from tests.conftest import kafka_version
from tests.groups import insist
from tests.store_facts import (
    at,
    test_a_snapshot_leaves_out_what_does_not_exist,
    test_a_snapshot_shows_a_topic_change,
    test_a_snapshot_shows_where_group_and_logs_stand,
    test_one_deleted_topic_does_not_hide_that_the_others_landed,
    test_what_is_committed_is_read_back,
)
from tests.topics import Topics, unique
from tests.waiting import until

__all__ = [
    "test_a_snapshot_leaves_out_what_does_not_exist",
    "test_a_snapshot_shows_a_topic_change",
    "test_a_snapshot_shows_where_group_and_logs_stand",
    "test_one_deleted_topic_does_not_hide_that_the_others_landed",
    "test_what_is_committed_is_read_back",
]

pytestmark = pytest.mark.spark

T = TopicPartition
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OWNER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="owner" password="hunter2";',
}


@pytest.fixture
def store(spark: SparkSession, broker: Broker) -> Iterator[GroupStore]:
    store = JavaGroups(JvmShimClient(), {"bootstrap.servers": broker.bootstrap_servers})
    yield store
    store.close()


@pytest.fixture
def reader(broker: Broker) -> Iterator[ClusterReader]:
    reader = ClusterReader({"bootstrap.servers": broker.bootstrap_servers})
    yield reader
    reader.close()


def open_admins(spark: SparkSession) -> int:
    """How many Admins of ours the JVM has open: one without a broker ends a moment later."""
    view: Any = spark._jvm
    threads = view.java.lang.Thread.getAllStackTraces().keySet()
    return sum("| eo-listener-" in str(thread.getName()) for thread in threads)


def test_metadata_is_kept_as_it_is(store: GroupStore, topics: Topics, broker: Broker) -> None:
    """Each partition has its own text, whatever is in it; librdkafka's NUL is not shown."""
    topic, group = topics.create(), unique("g")
    texts = ['{"v":1,"q":"a\\b"}', "\u00fc\U0001f600\n\t'", ""]
    wanted = {T(topic, p): Position(offset=p, metadata=text) for p, text in enumerate(texts)}
    insist(store, group, wanted)
    assert store.snapshot(group, wanted, timeout=8).positions == wanted
    other = SimpleGroups({"bootstrap.servers": broker.bootstrap_servers})
    try:
        assert other.snapshot(group, wanted, timeout=8).positions == wanted
        insist(other, group, at(9, T(topic, 0)))
    finally:
        other.close()
    held = store.snapshot(group, [T(topic, 0)], timeout=8).positions
    assert held == at(9, T(topic, 0))


def test_nobody_at_the_address(spark: SparkSession) -> None:
    """The error comes in time, and its code stands for an unknown outcome."""
    store = JavaGroups(JvmShimClient(), {"bootstrap.servers": "127.0.0.1:1"})
    for ask in (
        lambda: store.commit("g", at(5, T("t", 0)), timeout=1),
        lambda: store.snapshot("g", [T("t", 0)], timeout=1),
    ):
        began = time.monotonic()
        with pytest.raises(KafkaError) as failed:
            ask()
        assert time.monotonic() - began < 10
        assert failed.value.code == UNANSWERED
        assert explain(UNANSWERED).outcome_unknown
        assert (failed.value.cause or "").startswith("no broker")
    store.close()
    until(lambda: not open_admins(spark), 20)


@pytest.mark.parametrize(
    ("more", "error", "code"),
    [
        ({"sasl.login.refresh.window.factor": "hunter2"}, SettingsError, None),
        (OWNER, KafkaError, "_AUTHENTICATION"),
    ],
)
def test_no_error_holds_a_secret(
    spark: SparkSession,
    broker: Broker,
    more: Mapping[str, str],
    error: type[Exception],
    code: str | None,
) -> None:
    """A bad setting, and a login at a listener that has none: neither error quotes a value."""
    store = JavaGroups(JvmShimClient(), {"bootstrap.servers": broker.bootstrap_servers, **more})
    with pytest.raises(error) as failed:
        store.commit("g", at(5, T("t", 0)), timeout=1.5)
    assert getattr(failed.value, "code", None) == code
    assert "hunter2" not in f"{failed.value!s}{failed.value!r}{store!r}"
    store.close()


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A broker of this module, which may be ended; its listener LOGIN knows delegation tokens."""
    login = Listener(
        name="LOGIN",
        security_protocol="SASL_PLAINTEXT",
        properties={
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "plain.sasl.jaas.config": f'{PLAIN} required user_owner="hunter2";',
            "scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        },
    )
    secret = {"delegation.token.secret.key": "hunter2"}
    with Broker(version=kafka_version(), listeners=[login], properties=secret) as running:
        yield running


def give_token(spark: SparkSession, servers: str) -> None:
    """Have Spark hold a delegation token for these brokers alone, for the life of the session."""
    jvm: Any = spark._jvm
    owner = jvm.java.util.HashMap()
    for name, value in {"bootstrap.servers": servers, **OWNER}.items():
        owner.put(name, value)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(owner)
    made = admin.createDelegationToken().delegationToken().get()
    admin.close()
    settings = {
        "auth.bootstrap.servers": servers,
        "target.bootstrap.servers.regex": re.escape(servers),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.token.mechanism": "SCRAM-SHA-256",
    }
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    for name, value in settings.items():
        conf.set(f"spark.kafka.clusters.own.{name}", value)
    text = jvm.org.apache.hadoop.io.Text
    made_out = jvm.org.apache.hadoop.security.token.Token(
        made.tokenInfo().tokenId().encode(),
        made.hmacAsBase64String().encode(),
        text("KAFKA_DELEGATION_TOKEN"),
        text("kafka.server.delegation.token.own"),
    )
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(made_out)


def test_a_query_logs_in_by_token(spark: SparkSession, own_broker: Broker, tmp_path: Path) -> None:
    """The listener, given nothing, commits by the token by which the source reads."""
    topics = Topics(own_broker.bootstrap_servers)
    topic, group = topics.create(partitions=1), unique("g")
    topics.fill(topic, 10)
    servers = own_broker.addresses("LOGIN")
    listener = OffsetCommitListener()
    spark.streams.addListener(listener)
    give_token(spark, servers)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("eo.commit.group", group)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert listener.flush()
    spark.streams.removeListener(listener)
    listener.close()
    rows = parse_rows(own_broker.consumer_groups(group))
    assert [(row.current_offset, row.lag) for row in rows] == [(10, 0)]


@pytest.mark.slow
def test_a_broker_that_goes_and_comes_back(spark: SparkSession, own_broker: Broker) -> None:
    """One store goes on through a hung, a killed and a restarted broker, each call in its time."""
    topic = Topics(own_broker.bootstrap_servers).create()
    store = JavaGroups(JvmShimClient(), {"bootstrap.servers": own_broker.bootstrap_servers})
    insist(store, "g", at(1, T(topic, 0)))
    own_broker.pause()
    try:
        began = time.monotonic()
        with pytest.raises(KafkaError) as failed:
            store.commit("g", at(2, T(topic, 0)), timeout=1)
        assert failed.value.code == UNANSWERED
        with pytest.raises(KafkaError):
            store.snapshot("g", [T(topic, 0)], timeout=1)
        assert time.monotonic() - began < 10
    finally:
        own_broker.resume()
    insist(store, "g", at(3, T(topic, 0)))
    own_broker.kill()
    with pytest.raises(KafkaError) as failed:
        store.commit("g", at(4, T(topic, 0)), timeout=1)
    assert explain(failed.value.code).outcome_unknown
    own_broker.restart()
    insist(store, "g", at(5, T(topic, 0)))
    assert store.snapshot("g", [T(topic, 0)], timeout=8).positions == at(5, T(topic, 0))
    store.close()
    until(lambda: not open_admins(spark), 20)


def test_groups_share_a_client(spark: SparkSession, store: GroupStore, topics: Topics) -> None:
    """However many groups a cluster has, its threads and connections are those of one Admin."""
    topic, before = topics.create(), open_admins(spark)
    for _ in range(5):
        insist(store, unique("g"), at(3, T(topic, 0)))
    assert open_admins(spark) <= before + 1


class Slow:
    """A shim client that answer when they are let."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.go = threading.Event()

    def call(self, what: str, argument: str) -> str:
        if what == "groups.commit":
            self.asked.append(json.loads(argument)["topics"]["t"][0][1])
            assert self.go.wait(30)
        return '{"v":1,"topics":{"t":{"0":null}}}'


@pytest.mark.parametrize("hangs", [False, True])
def test_a_newer_commit_waits_for_an_older_one(hangs: bool) -> None:
    """While a call that was given up is out, nothing else is asked; closing waits some seconds."""
    shim_client = Slow()
    store = JavaGroups(shim_client, {})
    for offset in (1, 2):
        with pytest.raises(KafkaError) as failed:
            store.commit("g", at(offset, T("t", 0)), timeout=0.2)
        assert failed.value.code == UNANSWERED
    assert shim_client.asked == [1]
    if not hangs:
        shim_client.go.set()
        assert store.commit("g", at(3, T("t", 0)), timeout=5) == {T("t", 0): None}
        assert shim_client.asked == [1, 3]
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < 10
    shim_client.go.set()


class Broken:
    """A shim client whose JVM has gone, or whose shim is another one."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    def call(self, what: str, argument: str) -> str:
        if self.answer is None:
            raise JvmError("Spark's JVM could not be asked", cause="it may have ended")
        return self.answer


@pytest.mark.parametrize(
    ("answer", "cause"), [(None, "it may have ended"), ('{"v":2}', "`eo-listener jar`")]
)
def test_a_jvm_that_has_gone_or_another_shim(answer: str | None, cause: str) -> None:
    """It is a Kafka error of its own kind, of unknown outcome, with the reason."""
    store = JavaGroups(Broken(answer), {"bootstrap.servers": "x:1"})
    with pytest.raises(KafkaError) as failed:
        store.commit("g", at(1, T("t", 0)), timeout=1)
    assert failed.value.code == NO_JVM
    assert cause in (failed.value.cause or "")
    assert explain(NO_JVM).outcome_unknown
    assert not explain(NO_JVM).lasting
    store.close()


def test_a_partition_that_the_shim_leaves_out_is_not_confirmed() -> None:
    """Whether or not the others are."""
    store = JavaGroups(Broken('{"v":1,"topics":{"t":{"1":null}}}'), {})
    assert store.commit("g", at(1, T("t", 0), T("t", 1)), timeout=1) == {T("t", 1): None}
    store.close()


@pytest.mark.slow
def test_metadata_that_another_client_left_does_no_harm(
    spark: SparkSession, broker: Broker, reader: ClusterReader
) -> None:
    """librdkafka reads past a text without a NUL, and finds chance there; the offset is right."""
    topic, group = Topics(broker.bootstrap_servers).create(partitions=1), unique("g")
    shim_client = JvmShimClient()
    for offset, length in enumerate(range(8, 121, 8), 1):
        asked = {
            "client": "foreign",
            "properties": {"bootstrap.servers": broker.bootstrap_servers},
            "timeoutMs": 10_000,
            "group": group,
            "metadata": ["x" * length],
            "topics": {topic: [[0, offset, 0]]},
        }
        told = json.loads(shim_client.call("groups.commit", json.dumps(asked)))
        assert told.get("topics", {topic: {"0": None}}) == {topic: {"0": None}}
        for _ in range(20):
            (held,) = reader.group(group, [T(topic, 0)]).values()
            assert held.offset == offset
            assert held.metadata.startswith(("x" * length, UNREADABLE))
    shim_client.call("groups.close", json.dumps({"client": "foreign"}))
