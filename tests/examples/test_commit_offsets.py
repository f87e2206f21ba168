"""The examples run as their README says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from eo_listener.broker import Broker, parse_rows
from tests.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_commit_offsets(broker: Broker, tmp_path: Path) -> None:
    """The example counts the words, and the group it names ends at the log end, lag 0."""
    servers = broker.bootstrap_servers
    topic = Topics(servers).create("words")
    producer = Producer({"bootstrap.servers": servers})
    for line in ["to be or not to be", "to see"] * 20:
        producer.produce(topic, line)
    assert producer.flush(30) == 0

    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / "commit_offsets.py"), servers, topic],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    printed = re.findall(r"^ +(\d+)  (\w+)$", answer.stdout, re.MULTILINE)  # Ivy prints there too
    assert {word: int(count) for count, word in printed} == {
        "to": 60,
        "be": 40,
        "not": 20,
        "or": 20,
        "see": 20,
    }
    assert "commits have begun" in answer.stderr

    rows = parse_rows(broker.consumer_groups(f"{topic}-counter"))
    assert [row.lag for row in rows] == [0, 0, 0]

    status = subprocess.run(
        [
            sys.executable,
            "-m",
            "eo_listener",
            "status",
            f"{topic}-counter",
            "-b",
            servers,
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(status.stdout)
    assert told["lag"] == 0
    assert {(row["query"], row["batch"]) for row in told["partitions"]} == {("words", 0)}
