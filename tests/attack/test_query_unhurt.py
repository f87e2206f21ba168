"""A real query whose commits go through the proxy does not notice what happens to them."""

from __future__ import annotations

import random
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.events import Committed, Event
from eo_listener.offsets import TopicPartition
from tests.attack.campaign import CODES, FAULTS
from tests.attack.conftest import Attacked
from tests.attack.durable import Durable
from tests.attack.offsets_topic import audit
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import Action, Hold, Refuse, Request
from tests.topics import unique
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

STORM = 10.0  # seconds
SEED = 5


def storm(attacked: Attacked, chance: float) -> None:
    """From now on each request of the client is met, with this chance, by any fault."""
    chances = random.Random(SEED)

    def by_chance(request: Request) -> bool:
        return chances.random() < chance

    for api in ("OffsetCommit", "FindCoordinator", "OffsetFetch", "Metadata", "ListOffsets"):
        timed = [one for one in FAULTS.values() if not (isinstance(one, Hold) and not one.seconds)]
        actions: list[Action] = [*timed, *(Refuse(ERRORS[code]) for code in CODES[api])]
        chances.shuffle(actions)
        for action in actions:
            attacked.proxy.arm(api, action, times=None, choice=by_chance)


@pytest.fixture
def many_batches(spark: SparkSession) -> object:
    """Let Spark keep the log of every batch of a test."""
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "10000")
    yield
    spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@pytest.mark.alone  # it measures how fast batches follow each other
@pytest.mark.usefixtures("many_batches")
def test_a_storm_on_the_commits_does_not_reach_the_query(
    spark: SparkSession, attacked: Attacked, tmp_path: Path
) -> None:
    """Batches go on, the group ends right, and no commit was ahead of the checkpoint, or back."""
    topic, group = attacked.topics.create(partitions=3), unique("storm")
    events: list[Event] = []
    listener = OffsetCommitListener(
        bootstrap_servers=attacked.servers,
        kafka={"socket.timeout.ms": "1000"},
        observers=[events.append],
        flush_timeout=30.0,
    )
    spark.streams.addListener(listener)
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": attacked.direct, "log_level": "0"})

    def write() -> None:
        while not stop.wait(0.02):
            producer.produce(topic, b"x")
            producer.poll(0)

    writer = threading.Thread(target=write)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", attacked.direct)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("eo.commit.group", group)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        writer.start()
        until(lambda: any(isinstance(event, Committed) for event in events))
        attacked.proxy.forget_counts()
        storm(attacked, 0.05)
        started = time.time()
        time.sleep(STORM)
        ended = time.time()
        counts = attacked.proxy.counts()
        attacked.proxy.disarm()
        stop.set()
        writer.join(30)
        assert producer.flush(30) == 0
        query.processAllAvailable()
        assert query.exception() is None
        assert query.isActive
        assert listener.flush(30)
        query.stop()
    finally:
        stop.set()
        spark.streams.removeListener(listener)
        listener.close()
    faulted = sum(count.faulted for count in counts.values())
    assert faulted >= 10, counts
    durable = Durable(tmp_path)
    during = [batch.at for batch in durable.batches if started < batch.at < ended]
    assert len(during) > STORM / 2
    assert max(after - before for before, after in pairwise(during)) < 5.0
    assert attacked.offsets.held(group) == durable.batches[-1].ends
    assert sum(durable.batches[-1].ends.values()) > 100
    assert set(durable.batches[-1].ends) == {TopicPartition(topic, part) for part in range(3)}
    assert audit(attacked.offsets.commits(group), durable.bound) == ()
