"""What the sink's arguments may be, and what Kafka's errors become. Connects to nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from eo_listener.errors import (
    EoListenerError,
    KafkaError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    SinkLockedError,
)
from eo_listener.foreach_batch.exactly_once import exactly_once
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.sinks.kafka.connection import has_delegation_token
from eo_listener.sinks.kafka.errors import Explanation

SERVERS = {"kafka.bootstrap.servers": "host:9092"}
PLAIN = {"transactions": False}
SECRET = "planted-secret"  # noqa: S105  # to be looked for where it may not be
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    f'required username="al" password="{SECRET}";',
}
EXPLAIN = Explanation(
    label="Kafka topic delays at host:9092",
    servers="host:9092",
    principal="User:al",
    transactional_id="eo-listener/delays/flights",
    topics=("delays", "dead"),
    ledger="eo-ledger",
    group="flights-group",
    transaction_timeout=600,
    sources=("flights",),
)
MANY = [f"topic-of-a-sink-with-many-of-them-{number:04}" for number in range(1000)]


@pytest.mark.parametrize(
    ("topic", "name", "key", "label"),
    [
        ("delays", None, "delays", "Kafka topic delays at host:9092"),
        (["b", "a", "b"], None, "a,b", "Kafka topic b, a at host:9092"),
        (["b", "a"], "both", "both", "Kafka topic b, a at host:9092"),
        (MANY, "many", "many", f"{MANY[4]} and 995 more at host:9092"),
    ],
)
def test_a_sink_has_a_key_and_a_label(topic: Any, name: str | None, key: str, label: str) -> None:
    """The key is the topic's name, or those of all in order, or what the user says."""
    sink = KafkaSink(SERVERS, topic, name=name)
    assert sink.key == key
    assert sink.label.endswith(label)


def test_a_name_that_makes_too_long_a_transactional_id() -> None:
    """Kafka would not answer. Without transactions there is no such id."""
    with pytest.raises(SettingsError, match="41,010"):
        KafkaSink(SERVERS, MANY)
    KafkaSink(SERVERS, MANY, transactions=False)
    sink = KafkaSink(SERVERS, "t", name="n" * 32_000)
    with pytest.raises(SettingsError, match=r"32,769 .* 32,767\."):
        sink.applied("q" * 756)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("delays", {"name": "both"}), ("cancelled", {"name": "both"})),
        (("delays", {}), ("cancelled", {"name": "delays"})),
        ((["delays", "cancelled"], {}), (["cancelled", "delays"], {})),
    ],
)
def test_two_sinks_of_one_name(first: Any, second: Any) -> None:
    """They would have one ledger, however the cluster's servers are written."""

    def sink(servers: str, topic: Any, more: dict[str, Any]) -> KafkaSink:
        return KafkaSink({"kafka.bootstrap.servers": servers}, topic, **more)

    with pytest.raises(SettingsError, match="have the same name"):
        exactly_once(sink("a:1,b:1", *first), sink("b:1, a:1", *second))
    topic, more = second
    exactly_once(sink("a:1", *first), sink("a:1", topic, {**more, "ledger_topic": "another"}))
    exactly_once(sink("a:1", *first), sink("other:1", *second))


@pytest.mark.parametrize(
    ("options", "topic", "more", "says"),
    [
        ({}, "t", {}, r"kafka\.bootstrap\.servers"),
        ({"kafka.bootstrap.servers": "host:99999"}, "t", {}, "no valid port"),
        (SERVERS, "", {}, "topic"),
        (SERVERS, [], {}, "no topic"),
        (SERVERS, "a\nb", {}, "control character"),
        (SERVERS, "t", {"dead_letters": "t"}, "different"),
        (SERVERS, "eo-ledger", {}, "different"),
        (SERVERS, "t", {"name": "a\0b"}, "control character"),
        (SERVERS, "t", {"group": " g"}, "a space"),
        (SERVERS, "t", {"write_method": "staging"}, "write_method"),
        (SERVERS, "t", {"write_method": "executors", "dead_letters": "d"}, "dead_letters="),
        (SERVERS, "t", {"timeout": 0}, "timeout must be"),
        (SERVERS, "t", {"transaction_timeout": float("nan")}, "transaction_timeout must be"),
        (SERVERS, "t", {"max_dead_letters": -1}, "max_dead_letters"),
        ({**SERVERS, "kafka.acks": "1"}, "t", {}, r"kafka\.acks"),
        ({**SERVERS, "kafka.partitioner.class": "P"}, "t", {}, r"kafka\.partitioner\.class"),
        ({**SERVERS, "kafka.partitioner.class": "P"}, "t", PLAIN, r"partitioner.*transactions=F"),
        ("host:9092", "t", {}, "must be a dict"),
        ({**SERVERS, "security.protocol": "SSL"}, "t", {}, r"Write 'kafka\.security\.protocol'"),
        ({**SERVERS, "topic": "u"}, "t", {}, "'topic'.*t"),
        ({**SERVERS, "topic": "t"}, ["t", "u"], {}, "'topic'.*t"),
        (SERVERS, None, {}, "None"),
        (SERVERS, ["t", 5], {}, "5"),
        (SERVERS, "t", {"name": 5}, "name=5 is not a valid"),
        (SERVERS, "t", {"group": ""}, "group='' is not a valid"),
        (SERVERS, "t", {"timeout": "30"}, "timeout must be"),
        (SERVERS, "t", {"transactions": 0}, "True or False"),
        (SERVERS, "t", {"id": "a"}, "id="),
        (SERVERS, "t", {"on_repeated": "accept"}, "on_repeated="),
        (SERVERS, "t", {**PLAIN, "on_repeated": "warn"}, "on_repeated must be"),
        (SERVERS, "t", {**PLAIN, "write_method": "driver"}, 'write_method="driver" cannot'),
        *(
            ({**SERVERS, "kafka.delivery.timeout.ms": ms}, "t", PLAIN, "from 1 to 900,000")
            for ms in ("0", "900001", "2147483647", "-1", "long")
        ),
        (SERVERS, "t", {**PLAIN, "group": "g"}, r"group=.*eo\.commit\.group=g"),
        (SERVERS, "t", {**PLAIN, "dead_letters": "d"}, "dead_letters="),
        (SERVERS, "t", {**PLAIN, "id": ()}, "at least one column"),
        (SERVERS, "t", {**PLAIN, "id": ("a", "a")}, "a column twice"),
    ],
)
def test_arguments_that_cannot_be(
    options: dict[str, str], topic: Any, more: dict[str, Any], says: str
) -> None:
    """Wrong arguments are refused before Kafka is asked anything."""
    with pytest.raises(SettingsError, match=says):
        KafkaSink(options, topic, **more)


def test_what_sparks_own_sink_is_given_may_stay() -> None:
    """Its option topic, if it says the same; includeHeaders, of which a column decides."""
    options = {**SERVERS, "Topic": "delays", "includeHeaders": "true"}
    assert KafkaSink(options, "delays").label == "Kafka topic delays at host:9092"


def test_secrets_are_not_shown() -> None:
    """Java's client is given them, in any case of letters; no text of the sink has them."""
    options = {"Kafka.Bootstrap.Servers": "host:9092", "kafka.linger.ms": "7", **LOGIN}
    sink = KafkaSink(options, "delays", write_method="executors", transaction_timeout=60)
    java = sink._access.java
    assert (java["linger.ms"], java["transaction.timeout.ms"]) == ("7", "60000")
    assert SECRET in java["sasl.jaas.config"]
    assert SECRET not in repr(sink) + sink.label + repr(sink._access)
    with pytest.raises(SettingsError) as caught:
        KafkaSink({**options, "kafka.transactional.id": SECRET}, "delays")
    assert SECRET not in str(caught.value) + repr(caught.value)


def test_a_cluster_that_spark_has_tokens_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink is refused before Kafka is asked, unless the options name a login themselves."""
    token = {"spark.kafka.clusters.a.auth.bootstrap.servers": "broker:9092"}
    elsewhere = {**token, "spark.kafka.clusters.a.target.bootstrap.servers.regex": "broker:.*"}
    settings: dict[str, str] = {}
    conf = SimpleNamespace(getAll=lambda: [*settings.items()])
    context = SimpleNamespace(getConf=lambda: conf)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    assert not has_delegation_token("host:9092")
    settings.update(elsewhere)
    assert not has_delegation_token("host:9092")
    assert has_delegation_token("host:9092, broker:1")
    settings.clear()
    settings.update(token)
    with pytest.raises(SettingsError, match="delegation tokens"):
        KafkaSink(SERVERS, "delays").applied("flights")
    named = KafkaSink({**SERVERS, "kafka.security.protocol": "PLAINTEXT"}, "delays")
    named._access.refuse_delegation_tokens()
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert not has_delegation_token("host:9092")


def error(code: str) -> KafkaError:
    return KafkaError(f"sending records at host:9092 failed: {code}", code=code)


ID = "--transactional-id eo-listener/delays/flights"


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("_TRANSPORT", RetriableSinkError, "_TRANSPORT"),
        ("_TIMED_OUT", RetriableSinkError, "_TIMED_OUT"),
        ("NOT_COORDINATOR", RetriableSinkError, "NOT_COORDINATOR"),
        ("CONCURRENT_TRANSACTIONS", RetriableSinkError, "CONCURRENT"),
        ("NOT_ENOUGH_REPLICAS", RetriableSinkError, "REPLICAS"),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", RetriableSinkError, "SEQUENCE"),
        ("UNKNOWN", RetriableSinkError, "UNKNOWN"),
        ("_AUTHENTICATION", SinkError, "_AUTHENTICATION"),
        ("_SSL", SinkError, "_SSL"),
        ("_NO_STORE", SinkError, "kafka.ssl.keystore.type=PEM"),
        ("POLICY_VIOLATION", SinkError, "POLICY_VIOLATION"),
        ("INVALID_TRANSACTION_TIMEOUT", SettingsError, "transaction_timeout=600"),
        ("MSG_SIZE_TOO_LARGE", SettingsError, "max.message.bytes of delays, dead"),
        ("TOPIC_AUTHORIZATION_FAILED", SinkError, "--operation Write --topic delays"),
        ("TOPIC_AUTHORIZATION_FAILED", SinkError, "--operation Read --topic flights"),
        ("INVALID_RECORD", SettingsError, "a row has no key"),
        ("GROUP_AUTHORIZATION_FAILED", SinkError, "--operation Read --group flights-group"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", SinkError, f"Write --operation Describe {ID}"),
        ("CLUSTER_AUTHORIZATION_FAILED", SinkError, "--operation Write --topic delays"),
    ],
)
def test_an_error_before_the_commit(code: str, kind: type[EoListenerError], says: str) -> None:
    """The error says whether a repetition may solve it, and if not what to do."""
    translated = EXPLAIN.translate(error(code))
    assert type(translated) is kind
    assert says in str(translated)


@pytest.mark.parametrize("transactional_id", ["eo-listener/a/b", None])
def test_an_open_transaction_is_named(transactional_id: str | None) -> None:
    """By its transactional id if that is known; and how to see it."""
    locked = EXPLAIN.locked_error(3, 17, transactional_id, 30)
    assert isinstance(locked, SinkLockedError)
    for text in ("partition 3", "offset 17", transactional_id or "", "txn list -b host:9092 --t"):
        assert text in str(locked)
