"""Queries that read files, tables or a rate into sinks: each batch of their checkpoint once."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from eo_listener import SqliteSink, exactly_once, starting_offsets
from eo_listener.events import BatchReplayed, Event
from eo_listener.model.planned_batch import BATCHES
from eo_listener.sinks.kafka import KafkaSink
from eo_listener.testing import MemorySink
from tests.attack import surgery
from tests.foreach_batch.conftest import LEFT_SOCKETS, Jobs
from tests.postgres_server import dsn, postgres
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

__all__ = ["dsn", "postgres"]  # fixtures

pytestmark = [pytest.mark.kafka, pytest.mark.spark, LEFT_SOCKETS]


class Folder:
    """A folder of JSON files of one row each, with the numbers 0, 1, 2, ..."""

    def __init__(self, path: Path, first: int = 0) -> None:
        self.path = path
        self.next = first
        path.mkdir()

    def add(self, files: int) -> None:
        """Put more files there."""
        for number in range(self.next, self.next + files):
            written = self.path / f".{number}"
            written.write_text(json.dumps({"n": number}))
            written.rename(self.path / f"{number}.json")
        self.next += files

    def read(self, jobs: Jobs) -> DataFrame:
        """A stream of it, a file a batch."""
        reader = jobs.spark.readStream.schema("n int").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.path))


class Table:
    """A table of numbers in SQLite."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.sink = SqliteSink(str(file), "t")

    def numbers(self) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.file)) as link:
            return sorted(n for (n,) in link.execute("SELECT n FROM t"))

    def batches(self) -> int:
        """How many batches of the checkpoint the ledger has."""
        return self.sink.applied("q")[BATCHES].range.until


@pytest.fixture
def files(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "in")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path / "t.sqlite")
    yield made
    made.sink.close()


def query_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def consent_of(text: str) -> str:
    """What the text of a NewCheckpointError says to give."""
    named = re.search(r'exactly_once\(sink, new_checkpoint="([0-9a-f-]{36} after \w+)"\)', text)
    assert named is not None, text
    return named[1]


def test_each_file_once_over_restarts_and_replays(jobs: Jobs, files: Folder, table: Table) -> None:
    """Whatever batch is repeated, and with new files beside it: each row is there once."""
    events: list[Event] = []
    function = exactly_once(table.sink, observers=[events.append])
    for _ in range(3):
        files.add(2)
        jobs.drain(files.read(jobs), function)
        surgery.before_commit(jobs.checkpoint())
        assert table.numbers() == list(range(files.next))
        assert table.batches() == files.next
    jobs.drain(files.read(jobs), function)
    assert table.numbers() == list(range(6))
    assert [e.batch_id for e in events if isinstance(e, BatchReplayed)] == [1, 3, 5]


def test_a_new_checkpoint_is_refused_until_it_is_named(
    jobs: Jobs, files: Folder, table: Table
) -> None:
    """Its numbers mean nothing to the ledger, and consent holds for one checkpoint alone."""
    files.add(3)
    jobs.drain(files.read(jobs), exactly_once(table.sink))
    text = jobs.failure(files.read(jobs), exactly_once(table.sink), checkpoint="new")
    assert "NewCheckpointError: batch 0" in text
    head = table.sink.applied("q")[BATCHES]
    assert consent_of(text) == f"{query_id(jobs.checkpoint('new'))} after {head.topic_id}"
    assert table.numbers() == [0, 1, 2]
    shutil.rmtree(jobs.checkpoint("new"))
    for file in files.path.iterdir():
        file.unlink()
    files.add(2)
    text = jobs.failure(files.read(jobs), exactly_once(table.sink), checkpoint="new")
    consent = consent_of(text)
    assert query_id(jobs.checkpoint("new")) in consent
    function = exactly_once(table.sink, new_checkpoint=consent)
    for _ in range(2):  # over a replay too
        jobs.drain(files.read(jobs), function, checkpoint="new")
        assert table.numbers() == [0, 1, 2, 3, 4]
        assert table.batches() == 2
        surgery.before_commit(jobs.checkpoint("new"))
    text = jobs.failure(files.read(jobs), function, checkpoint="newest")
    assert "NewCheckpointError" in text
    files.add(1)
    text = jobs.failure(files.read(jobs), function)  # a driver of the first checkpoint
    assert "NewCheckpointError" in text
    assert table.numbers() == [0, 1, 2, 3, 4]


def test_a_batch_that_is_planned_again_is_no_replay(
    jobs: Jobs, files: Folder, table: Table, tmp_path: Path
) -> None:
    """The same number of the same checkpoint with other files in it: refused, no file is lost."""
    files.add(2)
    function = exactly_once(table.sink)
    jobs.drain(files.read(jobs), function)
    backup = surgery.copy(jobs.checkpoint(), tmp_path / "backup")
    files.add(1)
    jobs.drain(files.read(jobs), function)
    shutil.copytree(jobs.checkpoint(), tmp_path / "whole")
    surgery.before_offsets(jobs.checkpoint())
    files.add(1)
    for checkpoint in (jobs.checkpoint(), backup):  # of the copy the offsets have the same text
        text = jobs.failure(files.read(jobs), function, checkpoint=checkpoint.name)
        assert "OverlapError: batch 2" in text
        assert "planned at another time: checkpoint:batches-0 2..3" in text
        assert table.numbers() == [0, 1, 2]
    jobs.drain(files.read(jobs), function, checkpoint="whole")
    assert table.numbers() == [0, 1, 2, 3]


def test_several_of_them_count_together(
    jobs: Jobs, files: Folder, table: Table, tmp_path: Path
) -> None:
    """Files of two folders, one of them read twice as one source, and a rate: one head."""
    more = Folder(tmp_path / "more", first=100)
    rate = (
        jobs.spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .selectExpr("int(10000 + value) AS n")
    )
    once = files.read(jobs)
    data = once.union(more.read(jobs)).union(rate).union(once)
    for count in range(1, 4):
        files.add(count % 2)
        more.add(1)
        jobs.drain(data, exactly_once(table.sink))
        surgery.before_commit(jobs.checkpoint())
        batches = len(surgery.batches(jobs.checkpoint(), "offsets"))
        assert table.sink.applied("q").keys() == {BATCHES}
        assert table.batches() == batches
        other = [*range(100, more.next), *range(10_000, 10_000 + batches)]
        assert table.numbers() == sorted([*range(files.next)] * 2) + other


def test_a_source_that_forgets_is_refused(jobs: Jobs) -> None:
    """What a socket sent is gone after a restart: refused before anything is written."""
    sink = MemorySink()
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        data = jobs.spark.readStream.format("socket").option("host", host).option("port", port)
        query = jobs.start(data.load(), exactly_once(sink), drain=False)
        with server.accept()[0] as link:
            link.sendall(b"one\n")
            with pytest.raises(Exception, match="a batch twice"):  # by version
                query.awaitTermination(60)
    assert not sink.rows


def test_a_group_beside_files(jobs: Jobs, topics: Topics, files: Folder) -> None:
    """group= moves what is of Kafka; where nothing is, it is refused."""
    source, target = topics.create(partitions=1), topics.create("target", 1)
    group = unique("group")
    options = {"kafka.bootstrap.servers": topics.servers}
    sink = KafkaSink(options, target, ledger_topic=unique("ledger"), group=group)
    files.add(1)
    alone = files.read(jobs).selectExpr("string(n) AS value")
    assert "does not read from Kafka" in jobs.failure(alone, exactly_once(sink))
    topics.fill(source, 3)
    both = jobs.read(source).select("value").union(alone)
    jobs.drain(both, exactly_once(sink), checkpoint="both")
    files.add(1)
    jobs.drain(both, exactly_once(sink), checkpoint="both")
    assert len(committed(topics.servers, target)) == 5
    start = starting_offsets(
        group=group, topics=source, bootstrap_servers=topics.servers, missing="fail"
    )
    assert json.loads(start) == {source: {"0": 3}}
    sink.close()
