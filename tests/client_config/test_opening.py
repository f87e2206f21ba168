"""Opening a cluster: what librdkafka takes, what Java must read or do, and if it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, KafkaException

from eo_listener.client_config.cluster import Cluster, translate
from eo_listener.client_config.tls import REQUEST
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff
from eo_listener.errors import JvmError, KafkaError
from eo_listener.events import CommitFailed, Committed, Event, Observers
from eo_listener.kafka.client import new_client
from eo_listener.kafka.group_stores import MODES, check, has_gssapi, open_cluster
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.protocols import GroupStore, ShimClient
from eo_listener.offsets import Position, TopicPartition
from eo_listener.testing import MemoryGroups
from tests.client_config.test_translate import BY_TICKET, BY_TOKEN, source
from tests.secured import KEY, PLANTED, Keys, Secured
from tests.waiting import until

Ways = Mapping[str, dict[str, str]]
JAVA = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "AWS_MSK_IAM"}


class StubBroker:
    """Stands for a broker where only its address is asked for."""

    def addresses(self, listener: str) -> str:
        return f"{listener.lower()}:9093"


def cluster_of(options: Mapping[str, str]) -> Cluster:
    return Cluster.from_properties({"bootstrap.servers": "127.0.0.1:9"}, translate(options))


class StubShim:
    """A shim client with one answer, which keeps what it was asked."""

    def __init__(self, answer: str | Exception | Callable[[str], str]) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer = answer

    def call(self, what: str, argument: str) -> str:
        self.asked.append((what, argument))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, str) else self.answer(argument)


@pytest.fixture(scope="module")
def ways(keys: Keys) -> Ways:
    return Secured(StubBroker(), keys).ways()  # type: ignore[arg-type]  # only addresses are asked for


def test_stores_are_read_by_java(ways: Ways, keys: Keys) -> None:
    """Each store is asked for once, with its passwords; librdkafka takes its PEM, chain and all."""
    answers = {
        "trust": {"v": 1, "certificates": keys.authority, "key": None},
        "key": {"v": 1, "certificates": keys.chain, "key": keys.open_key},
    }
    shim_client = StubShim(lambda argument: json.dumps(answers[json.loads(argument)["use"]]))
    groups = open_cluster(cluster_of(ways["mutual-jks"]), "simple", shim_client)
    groups.close()
    assert isinstance(groups, SimpleGroups)
    assert [what for what, _ in shim_client.asked] == [REQUEST, REQUEST]
    assert json.loads(shim_client.asked[1][1]) == {
        "use": "key",
        "location": keys.jks_file,
        "type": "JKS",
        "password": PLANTED + "store",
        "keyPassword": PLANTED + "key",
    }
    access = translate(ways["mutual-jks"])
    properties = dict(access.properties)
    for store in access.stores:
        properties |= store.properties(json.dumps(answers[store.use]))
    assert properties["ssl.certificate.pem"].count("BEGIN") == 2
    assert KEY not in str(properties)
    check(properties)


@pytest.mark.parametrize(
    "answer",
    [
        JvmError("the key store is no store", cause="its password is wrong"),
        "",
        "[]",
        "{",
        '{"v":2,"certificates":"planted-x","key":null}',
        '{"v":1,"certificates":"planted-x","key":null}',
        '{"v":1,"certificates":null,"key":null}',
        '{"v":1,"key":"planted-x"}',
    ],
)
def test_a_store_that_cannot_be_read(ways: Ways, answer: str | Exception) -> None:
    """It is an error that may pass, names the file, and shows neither password nor answer."""
    with pytest.raises(KafkaError, match=r"key store .*trust.jks could not be read") as caught:
        open_cluster(cluster_of(ways["tls-jks"]), "simple", StubShim(answer))
    assert caught.value.code == "_NO_STORE"
    assert caught.value.cause
    assert PLANTED not in repr(caught.value) + str(caught.value.__cause__)


def test_only_java_can_do_it() -> None:
    """A cluster that needs Java's client is committed to by that, and in mode `simple` alone."""
    groups = open_cluster(cluster_of(JAVA), "simple", StubShim("{}"))
    groups.close()
    assert isinstance(groups, JavaGroups)
    for mode in ("member", "transactional"):
        with pytest.raises(KafkaError) as caught:
            open_cluster(cluster_of(JAVA), mode, StubShim("{}"))
        assert caught.value.code == "_ONLY_SIMPLE"
        assert "kafka.sasl.mechanism" in (caught.value.cause or "")


@pytest.mark.parametrize("way", ["tls-pkcs12", None])
def test_where_there_is_no_java(ways: Ways, way: str | None) -> None:
    """Without a JVM a cluster that needs one is refused, and the error says what works without."""
    with pytest.raises(KafkaError) as caught:
        open_cluster(cluster_of(JAVA if way is None else ways[way]), "simple", None)
    assert caught.value.code == "_NO_JAVA"
    assert caught.value.cause


def test_a_cluster_that_cannot_be_opened_is_tried_again(ways: Ways) -> None:
    """The failure is reported with its cause and fix, and the commit is made once it opens."""
    shim_client: list[ShimClient] = [StubShim(JvmError("it is gone"))] * 3
    groups = MemoryGroups()

    def open_store(cluster: Cluster) -> GroupStore:
        return open_cluster(cluster, "simple", shim_client.pop()) if shim_client else groups

    position = {TopicPartition("t", 0): Position(offset=5, metadata="")}
    events: list[Event] = []
    retry = Backoff(first=0.05, longest=0.05, refused_first=0.05, refused_longest=0.05)
    committer = Committer(open_store, observers=Observers(events.append), retry=retry)
    try:
        commit = GroupOffsets(cluster=cluster_of(ways["tls-jks"]), group="g", positions=position)
        committer.offer(commit)
        until(lambda: "g" in groups.groups)
    finally:
        committer.close(1.0)
    assert groups.groups == {"g": position}
    *failed, committed = events
    assert isinstance(committed, Committed)
    assert len(failed) == 3
    for event in failed:
        assert isinstance(event, CommitFailed)
        assert event.code == "_NO_STORE"
        assert "it is gone" in (event.detail or "")
        assert "kafka.ssl.truststore" in event.fix
    assert PLANTED not in repr(events)


@pytest.mark.parametrize("mode", MODES)
def test_every_way_is_accepted(ways: Ways, mode: str) -> None:
    """librdkafka accepts the settings of each way, and loads their keys and certificates."""
    assert len(ways) == 12
    for options in ways.values():
        check(translate(options).properties, mode)


def test_tokens_are_accepted() -> None:
    """OpenID Connect with scope, extensions and the claim of the subject."""
    login = BY_TOKEN["sasl.jaas.config"].replace(";", ' scope="a b" extension_x="1";')
    more = {"sasl.oauthbearer.sub.claim.name": "azp", "sasl.jaas.config": login}
    check(translate(source({**BY_TOKEN, **more})).properties)


def test_kerberos_is_known_by_asking() -> None:
    """`has_gssapi` returns what the installed librdkafka really supports."""
    properties = dict(translate(source(BY_TICKET), gssapi=True).properties)
    settings = {**properties, "group.id": "g", "log_level": "0", "sasl.kerberos.kinit.cmd": "true"}
    if has_gssapi():
        Consumer(settings).close()
    else:
        with pytest.raises(KafkaException, match="GSSAPI"):
            Consumer(settings)


def test_ctrl_c_while_a_client_is_made_is_ctrl_c() -> None:
    """The C code of confluent-kafka reports it as a property name that is not a string."""
    error = TypeError("expected configuration property name as type unicode string")
    with pytest.raises(KeyboardInterrupt):
        new_client(Mock(side_effect=error), {"bootstrap.servers": "k:9092"})
