"""`starting_offsets` against a real Kafka: ledgers, groups, checkpoints and points in time."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

import pytest

from eo_listener import starting_offsets
from eo_listener.broker import Broker
from eo_listener.checkpoint import BatchOffsets, SourceOffsets
from eo_listener.errors import (
    GapError,
    KafkaError,
    PartitionVanishedError,
    SettingsError,
    TopicRecreatedError,
)
from eo_listener.kafka import ClusterReader, ConfluentGroups
from eo_listener.ledger import Head
from eo_listener.offsets import Offsets, Position, Span, TopicPartition
from eo_listener.routing import TOKENS
from eo_listener.testing import MemorySink
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker.bootstrap_servers)


def ledger(offsets: dict[TopicPartition, int], topic_id: str | None = None) -> MemorySink:
    """A sink whose ledger of query `q` stands at these offsets."""
    sink = MemorySink()
    sink.store.heads[(sink.key, "q")] = {
        tp: Head(span=Span(0, offset), topic_id=topic_id, query_id="i", run_id="r", batch_id=0)
        for tp, offset in offsets.items()
    }
    return sink


def started(topics: Topics, /, **given: Any) -> dict[str, dict[str, int]]:
    given.setdefault("bootstrap_servers", topics.servers)
    found: dict[str, dict[str, int]] = json.loads(starting_offsets(**given))
    return found


def test_from_a_ledger(topics: Topics) -> None:
    """Every partition of the ledger's topics is there, new ones as the policy says."""
    topic, other = topics.create(partitions=3), topics.create(partitions=1)
    topics.fill(topic, 30)
    sink = ledger({TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 0})
    assert started(topics, ledger=sink, query="q") == {topic: {"0": 2, "1": 0, "2": -2}}
    assert started(topics, ledger=[sink], query="q", missing="latest", topics=[topic, other]) == {
        topic: {"0": 2, "1": 0, "2": -1},
        other: {"0": -1},
    }
    wanted = {"subscribePattern": f"{topic}|nosuch"}
    assert started(topics, ledger=sink, query="q", options=wanted).keys() == {topic}
    with pytest.raises(SettingsError, match=f"no position for {topic}-2"):
        started(topics, ledger=sink, query="q", missing="fail")
    two = ledger({TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0})
    with pytest.raises(SettingsError, match="do not agree"):
        started(topics, ledger=[sink, two], query="q")
    with pytest.raises(SettingsError, match="holds nothing of query 'p'"):
        started(topics, ledger=sink, query="p")


def test_a_topic_made_anew(topics: Topics) -> None:
    """A ledger that speaks of the older topic is refused, whatever the policies say."""
    topic = topics.create(partitions=1)
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 3)
    sink = ledger({tp: 2}, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(TopicRecreatedError, match=topic):
        started(topics, ledger=sink, query="q", missing="latest", out_of_range="latest")
    with pytest.raises(PartitionVanishedError, match="nosuch"):
        started(topics, ledger=ledger({TopicPartition("nosuch", 0): 2}), query="q")


def test_from_a_group(topics: Topics) -> None:
    """A group's offsets count, with topics named or all that it holds; one without any is told."""
    topic, group = topics.create(partitions=2), unique("start")
    topics.fill(topic, 20)
    groups = ConfluentGroups({"bootstrap.servers": topics.servers})
    groups.commit(group, {TopicPartition(topic, 0): Position(offset=4)}, timeout=15)
    groups.close()
    assert started(topics, group=group) == {topic: {"0": 4, "1": -2}}
    assert started(topics, group=group, topics=topic, missing="latest") == {
        topic: {"0": 4, "1": -1}
    }
    with pytest.raises(SettingsError, match="holds no offsets"):
        started(topics, group=unique("nobody"), topics=topic)


def test_from_a_checkpoint(topics: Topics, tmp_path: Path) -> None:
    """The newest batch that is done counts, not one that was only planned."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 9)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "metadata").write_text('{"id":"0f8c2a11-0000-0000-0000-000000000000"}')
    for batch, offset in enumerate([3, 6]):
        held = SourceOffsets.of("0", Offsets({TopicPartition(topic, 0): offset}))
        planned = BatchOffsets(batch=batch, version=1, metadata="{}", sources=(held,))
        (tmp_path / "offsets" / str(batch)).write_text(planned.text())
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    assert started(topics, checkpoint=str(tmp_path)) == {topic: {"0": 3}}
    topics.forget_before(topic, {0: 5})
    with pytest.raises(GapError, match="out_of_range"):
        started(topics, checkpoint=str(tmp_path))
    assert started(topics, checkpoint=str(tmp_path), out_of_range="earliest") == {topic: {"0": -2}}
    with pytest.raises(SettingsError, match="Spark goes on from it and ignores startingOffsets"):
        started(topics, checkpoint=str(tmp_path), checkpoint_location=str(tmp_path))
    with pytest.raises(SettingsError, match="has no batch that is done"):
        started(topics, checkpoint=str(tmp_path / "nosuch"))


def test_from_a_time(topics: Topics) -> None:
    """The first record of that time or later, and the end of a log that has none."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 4)
    time.sleep(0.05)
    when = dt.datetime.now(dt.timezone.utc)
    time.sleep(0.05)
    assert started(topics, timestamp=when, topics=topic) == {topic: {"0": 4}}
    topics.fill(topic, 4)
    assert started(topics, timestamp=when, topics=topic) == {topic: {"0": 4}}
    assert started(topics, timestamp=0, topics=topic) == {topic: {"0": 0}}
    later = int(time.time() * 1000) + 3_600_000
    assert started(topics, timestamp=later, topics=topic) == {topic: {"0": 8}}
    reader = ClusterReader({"bootstrap.servers": topics.servers})
    assert reader.log_ends([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 8}
    reader.close()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "exactly one of"),
        ({"group": "g", "timestamp": 1}, "exactly one of"),
        ({"group": "g", "missing": "none"}, "missing is 'none'"),
        ({"group": "g", "out_of_range": "none"}, "out_of_range is 'none'"),
        ({"group": "g", "bootstrap_servers": ""}, "bootstrap servers"),
        ({"group": "g", "options": {TOKENS: "one"}}, "cannot be listed from Python"),
        ({"group": "g", "topics": []}, "names none"),
        ({"group": "g", "topics": "a,,b"}, "names none"),
        ({"group": "g", "options": {"subscribePattern": "("}}, "pattern"),
        ({"timestamp": 1}, "which topics"),
        ({"timestamp": -1, "topics": "t"}, "no time"),
        ({"timestamp": "noon", "topics": "t"}, "no time"),
        ({"timestamp": dt.datetime(2026, 1, 1), "topics": "t"}, "no time zone"),  # noqa: DTZ001  # the mistake
        ({"ledger": MemorySink()}, "by the name of the query"),
        ({"ledger": [], "query": "q"}, "by the name of the query"),
        ({"group": "g", "topics": "no-such-topic"}, "Kafka has no topic no-such-topic"),
    ],
)
def test_bad_input(topics: Topics, given: dict[str, Any], problem: str) -> None:
    """Each mistake is a SettingsError that says what to give."""
    with pytest.raises(SettingsError, match=problem) as raised:
        starting_offsets(**{"bootstrap_servers": topics.servers, **given})
    assert raised.value.fix


def test_a_kafka_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a typed error after a bounded time."""
    monkeypatch.setattr("eo_listener.starting.cluster._TIMEOUT", 1.0)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        starting_offsets(group="g", topics="t", bootstrap_servers="127.0.0.1:1")
