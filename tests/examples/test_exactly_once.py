"""The examples of exactly once run as their README says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psycopg
import pytest

from tests.broker import Broker, parse_rows
from tests.examples.program import example
from tests.postgres_server import dsn, postgres
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

__all__ = ["dsn", "postgres"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.slow
def test_exactly_once_postgres(broker: Broker, dsn: str, tmp_path: Path) -> None:
    """Run twice, the second time without its checkpoint, it writes each line once."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("lines")

    def run() -> str:
        arguments = (broker.bootstrap_servers, topic, dsn)
        answer = example("exactly_once_postgres.py", *arguments, folder=tmp_path)
        assert answer.returncode == 0, answer.stderr[-3000:]
        return answer.stdout

    topics.fill(topic, 40)
    assert f"40 lines of {topic} are in the table, each once" in run()
    topics.fill(topic, 20)
    shutil.rmtree(tmp_path / "checkpoint-lines")
    assert f"60 lines of {topic} are in the table, each once" in run()
    with psycopg.connect(dsn) as link:
        held = link.execute('SELECT topic, "partition", "offset", words FROM lines').fetchall()
    assert len(held) == len(set(held)) == 60
    assert {row[3] for row in held} == {1}
    rows = parse_rows(broker.consumer_groups(f"{topic}-to-postgres"))
    assert [row.lag for row in rows] == [0, 0, 0]


@pytest.mark.slow
def test_exactly_once_kafka(broker: Broker, tmp_path: Path) -> None:
    """Run twice, the second time without its checkpoint: a reader is shown each line once."""
    topics = Topics(broker.bootstrap_servers)
    topic, target = topics.create("lines"), unique("counted")

    def run() -> str:
        arguments = (broker.bootstrap_servers, topic, target)
        answer = example("exactly_once_kafka.py", *arguments, folder=tmp_path)
        assert answer.returncode == 0, answer.stderr[-3000:]
        return answer.stdout

    topics.fill(topic, 40)
    assert f"40 lines of {topic} are in {target}, each once" in run()
    topics.fill(topic, 20)
    shutil.rmtree(tmp_path / "checkpoint-words")
    assert f"60 lines of {topic} are in {target}, each once" in run()
    held = [json.loads(one.value()) for one in committed(broker.bootstrap_servers, target)]
    assert len({(one["topic"], one["partition"], one["offset"]) for one in held}) == len(held) == 60
    assert {one["words"] for one in held} == {1}
    rows = parse_rows(broker.consumer_groups(f"{topic}-to-{target}"))
    assert [row.lag for row in rows] == [0, 0, 0]
