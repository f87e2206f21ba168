"""The sidecar beside real queries that know nothing of it, killed and restarted as it comes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eo_listener.errors import KafkaError
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.log_files import BatchOffsets
from tests import groups
from tests.attack.offsets_topic import GroupCommit, OffsetsTopic, audit
from tests.broker import Broker
from tests.listener.queries import Queries
from tests.processes import Program
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMAND = [sys.executable, "-m", "eo_listener", "follow"]


class Sidecar:
    """`eo-listener follow` on one checkpoint, as a process in each of its lives."""

    def __init__(self, checkpoint: Path, broker: Broker, group: str) -> None:
        target = [checkpoint, "-b", broker.bootstrap_servers, "-g", group]
        self._words = [*COMMAND, *target, "--interval", "0.1"]
        self.lives: list[Program] = []

    def start(self) -> None:
        self.lives.append(Program(self._words))

    def end(self, number: signal.Signals) -> int:
        with self.lives[-1] as last:
            return last.ending(number, 30)[0]

    def said(self) -> str:
        return "\n".join(line for one in self.lives for line in (*one.lines, *one.errors))


@contextmanager
def sidecar(checkpoint: Path, broker: Broker, group: str) -> Iterator[Sidecar]:
    one = Sidecar(checkpoint, broker, group)
    one.start()
    try:
        yield one
    finally:
        one.lives[-1].kill()


def total(broker: Broker, group: str) -> int:
    """The sum of what a group holds; waits for the coordinator of a group that is new."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return groups.total(broker.bootstrap_servers, group)
        except KafkaError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def advance(broker: Broker, group: str) -> None:
    before = total(broker, group)
    until(lambda: total(broker, group) > before)


def once(checkpoint: Path, broker: Broker, group: str, *more: str) -> int:
    arguments = [str(checkpoint), "-b", broker.bootstrap_servers, "-g", group, "--once", *more]
    return subprocess.run([*COMMAND, *arguments], timeout=90, check=False).returncode


def test_queries_without_any_listener(queries: Queries, topics: Topics) -> None:
    """A plain query, a union of two sources, and one with asynchronous progress: lag 0 each."""
    left, right = topics.create(), topics.create()
    for topic in (left, right):
        topics.fill(topic, 300)
    queries.drain(queries.read(subscribe=left), checkpoint="plain")
    union = queries.read(subscribe=left).union(queries.read(subscribe=right))
    queries.drain(union, checkpoint="union")
    for name, read in {"plain": [left], "union": [left, right]}.items():
        group = unique("g")
        assert once(queries.folder / name, queries.broker, group) == 0
        queries.assert_drained(group, *read)
    writer = queries.read(subscribe=left).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(queries.folder / "async"))
    writer = writer.option("asyncProgressTrackingEnabled", "true")
    query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "200").start()
    group = unique("g")
    with sidecar(queries.folder / "async", queries.broker, group):
        until(lambda: total(queries.broker, group) == 300)
        topics.fill(left, 30)
        time.sleep(0.5)
        topics.fill(left, 30)
        query.processAllAvailable()
        query.stop()
        until(lambda: total(queries.broker, group) == Durable(queries.folder / "async").end())


class Durable:
    """What a checkpoint says of each batch, read once."""

    def __init__(self, folder: Path) -> None:
        self._checkpoint = Checkpoint(str(folder))
        self._batches: dict[int, BatchOffsets] = {}

    def end(self) -> int:
        report_findings = self._checkpoint.committed().offsets
        assert report_findings is not None
        return sum(report_findings.kafka()["0"].values())

    def bound(self, commit: GroupCommit) -> int:
        """What the batch that a commit names had made durable."""
        metadata = CommitMetadata.parse(commit.metadata)
        assert metadata is not None
        assert metadata.run_id == "follow"
        batch = self._batches.get(metadata.batch_id)
        if batch is None:
            batch = self._checkpoint.offsets(metadata.batch_id)
            self._batches[metadata.batch_id] = batch
        return batch.kafka()["0"][commit.partition]


@contextmanager
def running_query(queries: Queries, topics: Topics, topic: str) -> Iterator[None]:
    queries.spark.conf.set("spark.sql.streaming.minBatchesToRetain", "100000")
    query = queries.start(queries.read(subscribe=topic), drain=False)
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(0.1):
            topics.fill(topic, 20)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join(30)
        query.processAllAvailable()
        query.stop()
        queries.spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_killed_at_random_while_the_query_runs(
    kills: int, queries: Queries, topics: Topics
) -> None:
    """Each commit is what its batch made durable, none goes back, and at the end lag is 0."""
    topic, group = topics.create(), unique("g")
    topics.fill(topic, 60)
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    checkpoint = queries.folder / "c"
    with sidecar(checkpoint, queries.broker, group) as one:
        with running_query(queries, topics, topic):
            for number in range(kills):
                # Every other kill meets the start, or the first commits; the others the later ones.
                if number % 2:
                    advance(queries.broker, group)
                time.sleep(chance.uniform(0.0, 2.0))
                assert one.end(signal.SIGKILL) == -signal.SIGKILL
                one.start()
            advance(queries.broker, group)
        end = Durable(checkpoint).end()
        until(lambda: total(queries.broker, group) == end)
        assert one.end(signal.SIGTERM) == 0, one.said()
    queries.assert_drained(group, topic)
    durable = Durable(checkpoint)
    commits = OffsetsTopic(queries.broker).commits(group)
    assert len({commit.metadata for commit in commits}) > kills // 2
    assert audit(commits, durable.bound) == (), f"seed {seed}"
    assert all(commit.offset == durable.bound(commit) for commit in commits), f"seed {seed}"
    assert "Traceback" not in one.said()
