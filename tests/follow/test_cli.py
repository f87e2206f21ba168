"""`eo-listener follow` at the command line: what it refuses, what it prints, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eo_listener.cli import app
from eo_listener.model.errors import EoListenerError
from tests.attack import surgery
from tests.broker import Broker
from tests.groups import positions
from tests.spark.checkpoint.recorded import unpack
from tests.topics import Topics, unique

COMMAND = [sys.executable, "-m", "eo_listener", "follow"]
TOPIC = "plain-4.0.0"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, ["no checkpoint is named"]),
        (["/c", "-g", "g"], 2, ["no Kafka is named", "-b HOST:PORT"]),
        (["/c", "-b", "h:1"], 2, ["no group is named", "-g GROUP"]),
        (["/c", "-b", "h", "-g", "g"], 2, ["must be host:port"]),
        (["/c", "-b", "h:1", "-g", " "], 2, ["must have 1 to"]),
        (["/c", "-b", "h:1", "-g", "t="], 2, ["must have 1 to"]),
        (["/c", "-b", "h:1", "-g", "g", "-g", "h"], 2, ["two groups"]),
        (["/c", "/c/", "-b", "h:1", "-g", "g"], 2, ["named twice"]),
        (["/c", "/d", "-b", "h:1", "-g", "g", "--name", "q"], 2, ["--name", "--config"]),
        (["/c", "-b", "h:1", "-g", "g", "-X", "nosuch=1"], 2, ["nosuch"]),
        (["/c", "-b", "h:1", "-g", "g", "--interval", "0"], 2, ["--interval", "seconds"]),
        (["/c", "-b", "h:1", "-g", "g", "--interval", "nan"], 2, ["--interval", "seconds"]),
        (["/c", "-b", "h:1", "-g", "g", "--recommit-interval", "-1"], 2, ["--recommit-interval"]),
        (["/c", "-b", "h:1", "-g", "g", "--guard", "maybe"], 2, ["withhold, warn"]),
        (["/c", "-b", "h:1", "-g", "g", "--on-rewind", "x"], 2, ["refuse, allow"]),
        (["/c", "-b", "h:1", "-g", "g", "--mode", "x"], 2, ["simple, member, transactional"]),
        (["/c", "-b", "h:1", "-g", "g", "--json"], 2, ["--once"]),
        (["/c", "-b", "h:1", "-g", "g", "--storage", "x"], 2, ["key=value"]),
        (["/c", "--config", "x.toml"], 2, ["does not go with"]),
        (["--config", "nosuch.toml"], 2, ["nosuch.toml", "does not exist"]),
        (["s3a://b/c", "-b", "h:1", "-g", "g"], 3, ["pip install s3fs"]),
        (["nosuch://b/c", "-b", "h:1", "-g", "g"], 2, ["nosuch://"]),
        (["", "-b", "h:1", "-g", "g"], 2, ["must be a folder or a URL"]),
    ],
)
def test_bad_input_is_refused(arguments: list[str], code: int, words: list[str]) -> None:
    """What is wrong and what to type, before anything is read or connected to."""
    answer = CliRunner().invoke(app, ["follow", *arguments])
    error = answer.exception
    assert isinstance(error, EoListenerError)
    assert error.exit_code == code
    for word in words:
        assert word in str(error)


def test_bad_input_is_one_line() -> None:
    """On stderr, without a traceback."""
    answer = run("s3a://b/c", "-b", "h:1", "-g", "g")
    assert answer.returncode == 3
    assert answer.stdout == ""
    (line,) = answer.stderr.strip().splitlines()
    assert "pip install s3fs" in line


@contextmanager
def service(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a service; what a failed test has left of it is killed."""
    words, pipe = [*COMMAND, *arguments, "--interval", "0.2"], subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as following:
        try:
            yield following
        finally:
            following.kill()


def read_until(following: subprocess.Popen[str], words: str) -> None:
    assert following.stderr is not None
    for line in following.stderr:
        if words in line:
            return
    raise AssertionError(words)


def test_sigterm_ends_it_also_while_kafka_is_away(tmp_path: Path) -> None:
    """Exit 0 within seconds, the offsets that could not be committed are named, no traceback."""
    folder = unpack("4.0.0", "plain", tmp_path / "c")
    with service(str(folder), "-b", "127.0.0.1:1", "-g", "g") as following:
        read_until(following, "commit failed")
        began = time.monotonic()
        following.send_signal(signal.SIGTERM)
        _, rest = following.communicate(timeout=60)
    assert following.returncode == 0, rest
    assert time.monotonic() - began < 20.0
    assert "closed before these offsets were confirmed" in rest
    assert "Traceback" not in rest


@pytest.mark.kafka
def test_ctrl_c_ends_it_at_once(broker: Broker, topic: str, tmp_path: Path) -> None:
    """With nothing left to commit: exit 0, not a word."""
    group, folder = unique("g"), unpack("4.0.0", "plain", tmp_path / "c")
    with service(str(folder), "-b", broker.bootstrap_servers, "-g", group) as following:
        read_until(following, "commits have begun")
        following.send_signal(signal.SIGINT)
        _, rest = following.communicate(timeout=60)
    assert (following.returncode, rest) == (0, "")
    assert held(broker, group) == [24, 21, 15]


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """The topic that the recorded checkpoint reads, with records enough."""
    topics = Topics(broker.bootstrap_servers)
    topics.create_as(TOPIC, 3)
    topics.fill(TOPIC, 120)
    return TOPIC


def held(broker: Broker, group: str) -> list[int]:
    report_findings = positions(broker.bootstrap_servers, group)
    return [one.offset for _, one in sorted(report_findings.items())]


@pytest.mark.kafka
def test_once_commits_and_says_so(broker: Broker, topic: str, tmp_path: Path) -> None:
    """A line or a document a checkpoint; 0 when all is confirmed, 1 or 3 when not."""
    group, folder = unique("g"), unpack("4.0.0", "plain", tmp_path / "c")
    servers = broker.bootstrap_servers
    answer = run(str(folder), "-b", servers, "-g", group, "--once")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"{folder}: batch 2, 3 of 3 partitions in {group}\n"
    assert held(broker, group) == [24, 21, 15]
    surgery.rewind_to(folder, 0)
    back = run(str(folder), "-b", servers, "-g", group, "--once", "--json")
    assert back.returncode == 1
    (notices,) = json.loads(back.stdout)["checkpoints"]
    assert {row["problem"] for row in notices["groups"][group]} == {"below what the group holds"}
    assert held(broker, group) == [24, 21, 15]
    allowed = run(str(folder), "-b", servers, "-g", group, "--once", "--on-rewind", "allow")
    assert allowed.returncode == 0, allowed.stderr
    assert held(broker, group) == [8, 7, 5]
    absent = run(str(tmp_path / "nosuch"), "-b", servers, "-g", group, "--once")
    assert absent.returncode == 3
    away = run(str(folder), "-b", "127.0.0.1:1", "-g", group, "--once", "--timeout", "4")
    assert away.returncode == 3
    for one in (absent, away):
        assert "Traceback" not in one.stderr


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["member", "transactional"])
def test_each_mode_commits(mode: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Once, again by a second process, and as a service that a signal ends."""
    group, folder = unique("g"), unpack("4.0.0", "plain", tmp_path / "c")
    common = [str(folder), "-b", broker.bootstrap_servers, "-g", group, "--mode", mode]
    for _ in range(2):
        answer = run(*common, "--once")
        assert answer.returncode == 0, answer.stderr
        assert held(broker, group) == [24, 21, 15]
    with service(*common) as following:
        read_until(following, "follows query")
        following.send_signal(signal.SIGTERM)
        _, rest = following.communicate(timeout=60)
    assert following.returncode == 0, rest
    assert "Traceback" not in rest


@pytest.mark.kafka
def test_a_config_file_has_many_checkpoints(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Each with a group of its own, in one process."""
    groups = [unique("g"), unique("g")]
    lines = [f'bootstrap_servers = "{broker.bootstrap_servers}"']
    for group in groups:
        folder = unpack("4.0.0", "plain", tmp_path / group)
        lines.append(f'[[checkpoint]]\nlocation = "{folder}"\ngroup = "{group}"')
    file = tmp_path / "follow.toml"
    file.write_text("\n".join(lines))
    answer = run("--config", str(file), "--once")
    assert answer.returncode == 0, answer.stderr
    for group in groups:
        assert held(broker, group) == [24, 21, 15]
