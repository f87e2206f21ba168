"""The listener on the client's side of Spark Connect."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from tests.bridge.submitted import run
from tests.broker import Broker, parse_rows
from tests.connect_server import remote
from tests.topics import Topics

__all__ = ["remote"]  # a fixture

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    # In 3.5 a listener is pickled, and runs in a worker of the server's.
    pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 4 brings it"),
]

CLIENT = Path(__file__).parents[2] / "examples" / "connect_client.py"


def test_a_remote_client_commits_for_its_queries(
    remote: str, broker: Broker, tmp_path: Path
) -> None:
    """The example commits all that the server has read, its last batch too, before it ends."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("words")
    topics.fill(topic, 100)
    done = run([sys.executable, str(CLIENT), remote, topics.servers, topic], tmp_path)
    assert "commits have begun" in done.stderr
    rows = parse_rows(broker.consumer_groups(f"{topic}-far"))
    assert {(row.topic, row.lag) for row in rows} == {(topic, 0)}
    assert sum(row.current_offset or 0 for row in rows) == 100
