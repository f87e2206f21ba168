"""`starting_offsets` against a real Kafka: ledgers, groups, checkpoints and points in time."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Wire
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eo_listener import starting_offsets
from eo_listener.errors import (
    JvmError,
    KafkaError,
    SettingsError,
)
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.offsets import Position, TopicPartition
from tests.foreach_batch.starting_offsets.test_arguments import ledger
from tests.topics import Topics, unique

pytestmark = pytest.mark.kafka


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


def test_from_a_group(topics: Topics) -> None:
    """A group's offsets count, with topics named or all that it holds; one without any is told."""
    topic, group = topics.create(partitions=2), unique("start")
    topics.fill(topic, 20)
    groups = SimpleGroups({"bootstrap.servers": topics.servers})
    groups.commit(group, {TopicPartition(topic, 0): Position(offset=4)}, timeout=15)
    groups.close()
    assert started(topics, group=group) == {topic: {"0": 4, "1": -2}}
    assert started(topics, group=group, topics=topic, missing="latest") == {
        topic: {"0": 4, "1": -1}
    }
    with pytest.raises(SettingsError, match="holds no offsets"):
        started(topics, group=unique("nobody"), topics=topic)


def test_from_a_group_in_the_midst_of_a_transaction(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the transaction is over nobody knows where the group stands: that is waited for."""
    topic, group = topics.create(partitions=1), unique("start")
    topics.fill(topic, 20)
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": group})
    producer = Producer({"bootstrap.servers": topics.servers, "transactional.id": group})
    producer.init_transactions(30)
    for offset in (4, 9):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [Wire(topic, 0, offset)], consumer.consumer_group_metadata(), 30
        )
        if offset == 4:
            producer.commit_transaction(30)
    with monkeypatch.context() as patch:
        patch.setattr("eo_listener.foreach_batch.starting_offsets.source_cluster._TIMEOUT", 3.0)
        with pytest.raises(KafkaError, match="open for 3 s") as caught:
            started(topics, group=group, topics=topic)
    assert caught.value.code == "UNSTABLE_OFFSET_COMMIT"
    ending = threading.Timer(1.0, producer.commit_transaction, (30,))
    ending.start()
    assert started(topics, group=group, topics=topic) == {topic: {"0": 9}}
    ending.join()
    consumer.close()


def test_single_partitions_and_patterns(topics: Topics) -> None:
    """What `assign` names is all there is; a pattern takes every topic but Kafka's own."""
    topic, inner = topics.create(partitions=2), topics.create(prefix="__mine", partitions=1)
    topics.fill(topic, 6)
    assign = {"assign": json.dumps({topic: [1]})}
    assert started(topics, timestamp=0, options=assign) == {topic: {"1": 0}}
    sink = ledger({TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2})
    assert started(topics, ledger=sink, query="q", options=assign) == {topic: {"1": 2}}
    inside = {"subscribePattern": "__mine.*"}
    assert inner in started(topics, timestamp=0, options=inside)
    with pytest.raises(SettingsError, match=f"no partition {topic}-7"):
        started(topics, timestamp=0, options={"assign": json.dumps({topic: [7]})})
    for hidden in ("nosuch.*", "__consumer_offsets"):
        with pytest.raises(SettingsError, match="Kafka has no topic that matches"):
            started(topics, ledger=sink, query="q", options={"subscribePattern": hidden})


def test_a_location_without_a_scheme(
    topics: Topics, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is where Spark's default file system has it, and not known where there is no Spark."""
    (tmp_path / "metadata").write_text("{}")
    (tmp_path / "offsets").mkdir()
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    topic = topics.create(partitions=1)
    with pytest.raises(SettingsError, match="checkpoint already exists"):
        started(topics, timestamp=0, topics=topic, checkpoint_location=str(tmp_path))
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "nosuch://node/")
    try:
        with pytest.raises(JvmError, match="failed to find the file system of"):
            started(topics, timestamp=0, topics=topic, checkpoint_location=str(tmp_path))
        with pytest.raises(JvmError, match="failed to find the file system of"):
            started(topics, checkpoint=str(tmp_path))
    finally:
        settings.set("fs.defaultFS", before)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    with pytest.raises(SettingsError, match="which file system /x"):
        started(topics, timestamp=0, topics=topic, checkpoint_location="/x")


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


def test_a_topic_that_there_is_not(topics: Topics) -> None:
    """It is named, since a misspelt one would be a query that reads nothing."""
    with pytest.raises(SettingsError, match="Kafka has no topic no-such-topic"):
        started(topics, group="g", topics="no-such-topic")


def test_a_kafka_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a typed error after a bounded time."""
    monkeypatch.setattr("eo_listener.foreach_batch.starting_offsets.source_cluster._TIMEOUT", 1.0)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        starting_offsets(group="g", topics="t", bootstrap_servers="127.0.0.1:1")
