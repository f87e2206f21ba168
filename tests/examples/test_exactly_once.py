"""The example of exactly once runs as its README says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from eo_listener.broker import Broker, parse_rows
from tests.postgres_server import dsn, postgres
from tests.spark_session import submit_environment
from tests.topics import Topics

__all__ = ["dsn", "postgres"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once_postgres.py"


@pytest.mark.slow
def test_exactly_once_postgres(broker: Broker, dsn: str, tmp_path: Path) -> None:
    """Run twice, the second time without its checkpoint, it writes each line once."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("lines")

    def example() -> str:
        answer = subprocess.run(
            [sys.executable, str(EXAMPLE), broker.bootstrap_servers, topic, dsn],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            cwd=tmp_path,
            env=submit_environment(),
        )
        assert answer.returncode == 0, answer.stderr[-3000:]
        return answer.stdout

    topics.fill(topic, 40)
    assert f"40 lines of {topic} are in the table, each once" in example()
    topics.fill(topic, 20)
    shutil.rmtree(tmp_path / "checkpoint-lines")
    assert f"60 lines of {topic} are in the table, each once" in example()
    with psycopg.connect(dsn) as link:
        held = link.execute('SELECT topic, "partition", "offset", words FROM lines').fetchall()
    assert len(held) == len(set(held)) == 60
    assert {row[3] for row in held} == {1}
    rows = parse_rows(broker.consumer_groups(f"{topic}-to-postgres"))
    assert [row.lag for row in rows] == [0, 0, 0]


def test_without_arguments_it_says_how_to_run_it() -> None:
    """The usage, not a traceback."""
    answer = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert "examples/exactly_once_postgres.py localhost:9092 words postgresql://" in answer.stderr
    assert "Traceback" not in answer.stderr
