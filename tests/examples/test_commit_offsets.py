"""The examples run as their README says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bridge.submitted import LISTENER, command, run
from tests.broker import Broker, parse_rows
from tests.examples.program import EXAMPLES, example
from tests.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_commit_offsets(broker: Broker, tmp_path: Path) -> None:
    """The example counts the words, and the group it names ends at the log end, lag 0."""
    servers = broker.bootstrap_servers
    topic = Topics(servers).create("words")
    written = example("write_words.py", servers, topic, folder=tmp_path)
    assert written.stdout == f"40 lines are in {topic}\n", written.stderr
    answer = example("commit_offsets.py", servers, topic, folder=tmp_path)
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


def test_by_configuration(broker: Broker, tmp_path: Path) -> None:
    """The plain job is committed, to the group of the template in the example's properties."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("words")
    topics.fill(topic, 50)
    words = command("spark-submit")
    ((key, listener),) = LISTENER.items()
    place = words.index(f"{key}={listener}")
    del words[place - 1 : place + 1]  # the file has it
    words += ["--properties-file", str(EXAMPLES / "spark-defaults.conf")]
    words += [str(EXAMPLES / "plain_job.py"), broker.bootstrap_servers, topic]
    run(words, tmp_path)
    rows = parse_rows(broker.consumer_groups("spark-plain"))
    assert sum(row.current_offset or 0 for row in rows if row.topic == topic) == 50


@pytest.mark.slow
def test_lines_that_were_not_written_are_no_success(tmp_path: Path) -> None:
    """Without a broker: how many, and exit status 1."""
    answer = example("write_words.py", "127.0.0.1:1", "words", folder=tmp_path)
    assert answer.returncode == 1
    assert "40 of 40 lines could not be written" in answer.stderr


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_words.py", "localhost:9092 words"),
        ("commit_offsets.py", "localhost:9092 words"),
        ("plain_job.py", "localhost:9092 words"),
        ("connect_client.py", "sc://localhost:15002 localhost:9092 words"),
        ("exactly_once_postgres.py", "localhost:9092 words postgresql://"),
        ("exactly_once_kafka.py", "localhost:9092 words words-counted"),
    ],
)
def test_without_arguments_an_example_says_how_to_run_it(
    name: str, arguments: str, tmp_path: Path
) -> None:
    """The usage, not a traceback."""
    answer = example(name, folder=tmp_path)
    assert answer.returncode == 1
    assert f"examples/{name} {arguments}" in answer.stderr
    assert "Traceback" not in answer.stderr
