"""Opening a cluster: what Java must read or do, and what is said when it cannot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from eo_listener.client_config.cluster import Cluster, translate
from eo_listener.client_config.tls import REQUEST
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff
from eo_listener.kafka.group_stores import open_cluster
from eo_listener.kafka.java_groups import JavaGroups
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.model.errors import JvmError, KafkaError
from eo_listener.model.events import CommitFailed, Committed, Event
from eo_listener.model.observers import Observers
from eo_listener.model.offsets import Position, TopicPartition
from eo_listener.model.protocols import GroupStore, ShimClient
from eo_listener.testing import MemoryGroups
from tests.client_config.test_accepted import StubBroker
from tests.secured import PLANTED, Keys, Secured

JAVA = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "AWS_MSK_IAM"}


def cluster_of(options: Mapping[str, str]) -> Cluster:
    return Cluster.of({"bootstrap.servers": "127.0.0.1:9"}, translate(options))


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
def ways(keys: Keys) -> Mapping[str, dict[str, str]]:
    return Secured(StubBroker(), keys).ways()  # type: ignore[arg-type]  # only addresses are asked for


def test_stores_are_read_by_java(ways: Mapping[str, dict[str, str]], keys: Keys) -> None:
    """Each store is asked for once, with its passwords, and the groups open with its PEM."""
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
def test_a_store_that_cannot_be_read(
    ways: Mapping[str, dict[str, str]], answer: str | Exception
) -> None:
    """It is an error that may pass, names the file, and shows neither password nor answer."""
    with pytest.raises(KafkaError, match=r"key store .*trust.jks could not be read") as caught:
        open_cluster(cluster_of(ways["tls-jks"]), "simple", StubShim(answer))
    assert caught.value.code == "_NO_STORE"
    assert caught.value.cause
    assert PLANTED not in repr(caught.value) + str(caught.value.__cause__)


def test_only_java_can_do_it() -> None:
    """A cluster that needs Java's client is committed to by that, in the source's own words."""
    groups = open_cluster(cluster_of(JAVA), "simple", StubShim("{}"))
    groups.close()
    assert isinstance(groups, JavaGroups)


@pytest.mark.parametrize("mode", ["member", "transactional"])
def test_only_java_can_do_it_but_not_so(mode: str) -> None:
    """A commit mode other than `simple` is refused there, and the error says what to do."""
    with pytest.raises(KafkaError) as caught:
        open_cluster(cluster_of(JAVA), mode, StubShim("{}"))
    assert caught.value.code == "_ONLY_SIMPLE"
    assert "kafka.sasl.mechanism" in (caught.value.cause or "")


@pytest.mark.parametrize("way", ["tls-pkcs12", None])
def test_where_there_is_no_java(ways: Mapping[str, dict[str, str]], way: str | None) -> None:
    """Without a JVM a cluster that needs one is refused, and the error says what works without."""
    with pytest.raises(KafkaError) as caught:
        open_cluster(cluster_of(JAVA if way is None else ways[way]), "simple", None)
    assert caught.value.code == "_NO_JAVA"
    assert caught.value.cause


@contextmanager
def committing(
    open_store: Callable[[Cluster], GroupStore],
) -> Iterator[tuple[Committer, list[Event]]]:
    events: list[Event] = []
    retry = Backoff(first=0.05, longest=0.05, refused_first=0.05, refused_longest=0.05)
    committer = Committer(open_store, observers=Observers(events.append), retry=retry)
    yield committer, events
    committer.close(1.0)


def test_a_cluster_that_cannot_be_opened_is_tried_again(ways: Mapping[str, dict[str, str]]) -> None:
    """The failure is reported with its cause and fix, and the commit is made once it opens."""
    shim_client: list[ShimClient] = [StubShim(JvmError("it is gone"))] * 3
    groups = MemoryGroups()

    def open_store(cluster: Cluster) -> GroupStore:
        return open_cluster(cluster, "simple", shim_client.pop()) if shim_client else groups

    position = {TopicPartition("t", 0): Position(offset=5, metadata="")}
    with committing(open_store) as (committer, events):
        commit = GroupOffsets(cluster=cluster_of(ways["tls-jks"]), group="g", positions=position)
        committer.offer(commit)
        deadline = time.monotonic() + 20
        while "g" not in groups.groups and time.monotonic() < deadline:
            time.sleep(0.02)
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
