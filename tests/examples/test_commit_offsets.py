"""The examples run as their README says."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from tests.bridge.submitted import LISTENER, command, run
from tests.broker import Broker, parse_rows
from tests.examples.program import EXAMPLES, example
from tests.postgres_server import dsn, postgres
from tests.sinks.kafka.records import committed
from tests.topics import Topics, unique

__all__ = ["dsn", "postgres"]  # fixtures

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_commit_offsets(broker: Broker, tmp_path: Path) -> None:
    """The example counts the words, and the group it names ends at the log end, lag 0."""
    servers = broker.bootstrap_servers
    topic = Topics(servers).create("words")
    written = example("write_words.py", servers, topic, folder=tmp_path)
    assert written.stdout == f"wrote 40 lines to {topic}\n", written.stderr
    answer = example("commit_offsets.py", servers, topic, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr[-3000:]
    printed = re.findall(r"^ +(\d+)  (\w+)$", answer.stdout, re.MULTILINE)  # Ivy prints there too
    counted = {word: int(count) for count, word in printed}
    assert counted == {"to": 60, "be": 40, "not": 20, "or": 20, "see": 20}
    assert "commits have begun" in answer.stderr

    rows = parse_rows(broker.consumer_groups(f"{topic}-counter"))
    assert [row.lag for row in rows] == [0, 0, 0]

    status = CliRunner().invoke(app, ["status", f"{topic}-counter", "-b", servers, "--json"])
    told = json.loads(status.stdout)
    assert told["lag"] == 0
    assert {(row["query"], row["batch"]) for row in told["partitions"]} == {("words", 0)}


@pytest.mark.slow  # tests/bridge submits a plain job in each run
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
    name: str, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exits with the usage, not with a traceback."""
    monkeypatch.setattr("sys.argv", [name])
    with pytest.raises(SystemExit, match=re.escape(f"examples/{name} {arguments}")):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def run_twice(name: str, broker: Broker, target: str, shown: str, folder: Path) -> str:
    """Run an example on 40 lines, then on 20 more without its checkpoint; return the topic."""
    topics = Topics(broker.bootstrap_servers)
    topic = topics.create("lines")
    for more, lines in ((40, 40), (20, 60)):
        topics.fill(topic, more)
        answer = example(name, broker.bootstrap_servers, topic, target, folder=folder)
        assert answer.returncode == 0, answer.stderr[-3000:]
        assert f"{lines} lines of {topic} are in {shown}, each once" in answer.stdout
        (checkpoint,) = folder.glob("checkpoint-*")
        shutil.rmtree(checkpoint)
    return topic


def check_at_the_end(broker: Broker, group: str) -> None:
    rows = parse_rows(broker.consumer_groups(group))
    assert [row.lag for row in rows] == [0, 0, 0]


@pytest.mark.slow
def test_exactly_once_postgres(broker: Broker, dsn: str, tmp_path: Path) -> None:
    """Run twice, the second time without its checkpoint, it writes each line once."""
    topic = run_twice("exactly_once_postgres.py", broker, dsn, "the table", tmp_path)
    with psycopg.connect(dsn) as link:
        held = link.execute('SELECT topic, "partition", "offset", words FROM lines').fetchall()
    assert len(held) == len(set(held)) == 60
    assert {row[3] for row in held} == {1}
    check_at_the_end(broker, f"{topic}-to-postgres")


@pytest.mark.slow
def test_exactly_once_kafka(broker: Broker, tmp_path: Path) -> None:
    """Run twice, the second time without its checkpoint: a reader is shown each line once."""
    target = unique("counted")
    topic = run_twice("exactly_once_kafka.py", broker, target, target, tmp_path)
    held = [json.loads(one.value()) for one in committed(broker.bootstrap_servers, target)]
    assert len({(one["topic"], one["partition"], one["offset"]) for one in held}) == len(held) == 60
    assert {one["words"] for one in held} == {1}
    check_at_the_end(broker, f"{topic}-to-{target}")
