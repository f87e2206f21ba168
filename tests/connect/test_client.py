"""The listener on the client's side of Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from eo_listener.broker import Broker, parse_rows, ports
from tests.bridge.submitted import command, environment, until
from tests.bridge.test_programs import SERVER, is_open
from tests.topics import Topics

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    # In 3.5 a listener is pickled, and runs in a worker of the server's.
    pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 4 brings it"),
]

CLIENT = Path(__file__).parents[2] / "examples" / "connect_client.py"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server that knows nothing of us."""
    port = ports.assign(1, {"connect": None}, {})[1]["connect"]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.streaming.streamingQueryListeners": "",
    }
    with (tmp_path / "log").open("wb") as log:
        words = [*command("spark-submit", conf=conf), "--class", SERVER]
        server = subprocess.Popen(words, stderr=log, cwd=tmp_path, env=environment())
    until(lambda: is_open(port) or server.poll() is not None, 90)
    yield f"sc://127.0.0.1:{port}"
    server.terminate()
    server.wait(60)


def test_a_remote_client_commits_for_its_queries(
    remote: str, broker: Broker, tmp_path: Path
) -> None:
    """The example commits all that the server has read, its last batch too, before it ends."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("words")
    topics.fill(topic, 100)
    arguments = [remote, broker.bootstrap_servers, topic]
    done = subprocess.run(
        [sys.executable, str(CLIENT), *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "commits have begun" in done.stderr
    rows = parse_rows(broker.consumer_groups(f"{topic}-far"))
    assert {(row.topic, row.lag) for row in rows} == {(topic, 0)}
    assert sum(row.current_offset or 0 for row in rows) == 100
