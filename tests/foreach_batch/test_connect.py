"""exactly_once in a query of a Spark Connect client: it runs in a process of the server's."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path

import psycopg
import pyspark
import pytest

from eo_listener.offsets import TopicPartition
from tests.attack import surgery
from tests.bridge.submitted import run
from tests.connect_server import remote
from tests.foreach_batch.file_sink import FileSink
from tests.postgres_server import dsn, postgres
from tests.sinks.kafka.records import committed
from tests.topics import Topics

__all__ = ["dsn", "postgres", "remote"]  # fixtures

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 4 brings its server"),
]

CLIENT = [sys.executable, "-m", "tests.foreach_batch.far_query"]


def test_a_far_query(remote: str, topics: Topics, tmp_path: Path) -> None:
    """Planned by the checkpoint it names: each row once, over a replay too; without it, refused."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = FileSink(tmp_path / "sink")
    client = [*CLIENT, remote, topics.servers, topic, str(tmp_path)]
    said = run([*client, "bare"], tmp_path).stdout
    assert "SettingsError" in said
    assert "exactly_once(..., checkpoint=" in said
    assert sink.read() == ([], {})
    run([*client, "named"], tmp_path)
    assert len(sink.read()[0]) == 10
    surgery.before_commit(tmp_path / "checkpoint")
    topics.fill(topic, 10)
    run([*client, "asking"], tmp_path)
    rows, ledger = sink.read()
    assert [row[1] for row in rows] == list(range(20))
    (head,) = ledger["far"].values()
    assert ledger["far"].keys() == {TopicPartition(topic, 0)}
    assert head.range == (10, 20)
    assert head.topic_id is not None


def test_a_far_function_that_leaves_out_empty_batches(
    remote: str, topics: Topics, tmp_path: Path
) -> None:
    """Its first batch with rows starts where the checkpoint says that the query began."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = FileSink(tmp_path / "sink")
    client = [*CLIENT, remote, topics.servers, topic, str(tmp_path), "quiet"]
    run(client, tmp_path)
    assert sink.read() == ([], {})
    topics.fill(topic, 5)
    said = run(client, tmp_path).stdout
    assert [row[1] for row in sink.read()[0]] == list(range(10, 15)), said


def test_a_far_query_of_files(remote: str, tmp_path: Path) -> None:
    """Counted by the checkpoint: each row once, over replays; a new checkpoint is refused."""
    source, file = tmp_path / "in", tmp_path / "t.sqlite"
    source.mkdir()
    client = [*CLIENT, remote, "none", str(source), str(tmp_path), "files", str(file)]

    def rows() -> list[str]:
        with contextlib.closing(sqlite3.connect(file)) as link:
            return [value for (value,) in link.execute("SELECT value FROM t ORDER BY 1")]

    for count in (1, 2, 3):
        (source / f"{count}.txt").write_text(f"{count}\n")
        said = run(client, tmp_path).stdout
        assert rows() == [str(number + 1) for number in range(count)], said
        surgery.before_commit(tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "checkpoint")
    assert "NewCheckpointError" in run(client, tmp_path).stdout
    assert rows() == ["1", "2", "3"]


def rows_of(where: str, servers: str) -> list[str]:
    """The values that a sink has under this address."""
    if where.startswith("kafka:"):
        found = committed(servers, where.removeprefix("kafka:"))
        return sorted(str(int(one.value())) for one in found)
    query = "SELECT value FROM t ORDER BY 1"
    if "://" in where:
        with psycopg.connect(where) as link:
            return [value for (value,) in link.execute(query.encode())]
    with contextlib.closing(sqlite3.connect(where)) as link:
        return [value for (value,) in link.execute(query)]


@pytest.mark.parametrize("store", ["sqlite", "postgres", "kafka"])
def test_a_far_query_into_our_sinks(
    remote: str, topics: Topics, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """They take the rows of Connect, Kafka's through the function's own process: once each."""
    topic = topics.create(partitions=1)
    where = {
        "sqlite": lambda: str(tmp_path / "t.sqlite"),
        "postgres": lambda: str(request.getfixturevalue("dsn")),
        "kafka": lambda: f"kafka:{topics.create('target', 2)}",
    }[store]()
    for times in (1, 2):
        topics.fill(topic, 10)
        said = run(
            [*CLIENT, remote, topics.servers, topic, str(tmp_path), "asking", where], tmp_path
        )
        assert rows_of(where, topics.servers) == sorted([*map(str, range(10))] * times), said.stdout
        surgery.before_commit(tmp_path / "checkpoint")
