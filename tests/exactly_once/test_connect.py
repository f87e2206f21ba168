"""exactly_once in a query of a Spark Connect client: it runs in a process of the server's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from eo_listener.broker import ports
from eo_listener.offsets import Span, TopicPartition
from tests.attack import surgery
from tests.bridge.submitted import command, environment, until
from tests.bridge.test_programs import SERVER, is_open
from tests.exactly_once.file_sink import FileSink
from tests.topics import Topics

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 4 brings its server"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    port = ports.assign(1, {"connect": None}, {})[1]["connect"]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.streaming.streamingQueryListeners": "",
        "spark.pyspark.python": sys.executable,
    }
    found = {**environment(), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "log").open("wb") as log:
        words = [*command("spark-submit", conf=conf), "--class", SERVER]
        server = subprocess.Popen(words, stderr=log, stdout=log, cwd=tmp_path, env=found)
    until(lambda: is_open(port) or server.poll() is not None, 90)
    yield f"sc://127.0.0.1:{port}"
    server.terminate()
    server.wait(60)


def run(remote: str, servers: str, topic: str, folder: Path, mode: str) -> str:
    """Run the client to its end, and give what it printed."""
    arguments = [remote, servers, topic, str(folder), mode]
    done = subprocess.run(
        [sys.executable, "-m", "tests.exactly_once.far_query", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
        env={**environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_a_far_query(remote: str, topics: Topics, tmp_path: Path) -> None:
    """Planned by the checkpoint it names: each row once, over a replay too; without it, refused."""
    topic = topics.create(partitions=1)
    topics.fill(topic, 10)
    sink = FileSink(tmp_path / "sink")
    said = run(remote, topics.servers, topic, tmp_path, "bare")
    assert "SettingsError" in said
    assert "exactly_once(..., checkpoint=" in said
    assert sink.read() == ([], {})
    run(remote, topics.servers, topic, tmp_path, "named")
    assert len(sink.read()[0]) == 10
    surgery.before_commit(tmp_path / "checkpoint")
    topics.fill(topic, 10)
    run(remote, topics.servers, topic, tmp_path, "asking")
    rows, ledger = sink.read()
    assert [row[1] for row in rows] == list(range(20))
    (head,) = ledger["far"].values()
    assert ledger["far"].keys() == {TopicPartition(topic, 0)}
    assert head.span == Span(10, 20)
    assert head.topic_id is not None
