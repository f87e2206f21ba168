"""`eo-listener follow` at the command line: what it refuses, what it prints, how it ends."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.attack import surgery
from tests.broker import Broker
from tests.cli.commands import invoke
from tests.groups import positions
from tests.processes import Program
from tests.spark.checkpoint.recorded import unpack
from tests.topics import Topics, unique

COMMAND = [sys.executable, "-m", "eo_listener", "follow"]
TOPIC = "plain-4.0.0"


def service(*arguments: str) -> Program:
    return Program([*COMMAND, *arguments, "--interval", "0.2"])


@pytest.mark.slow
def test_sigterm_ends_it_also_while_kafka_is_away(tmp_path: Path) -> None:
    """Exit 0 within seconds, the offsets that could not be committed are named, no traceback."""
    folder = unpack("4.0.0", "plain", tmp_path / "c")
    with service(str(folder), "-b", "127.0.0.1:1", "-g", "g") as following:
        following.await_text("commit failed")
        began = time.monotonic()
        code, rest = following.ending(signal.SIGTERM)
    assert code == 0, rest
    assert time.monotonic() - began < 20.0
    assert f"{TOPIC}-0" in rest
    assert "Traceback" not in rest


@pytest.mark.kafka
def test_ctrl_c_ends_it_at_once(broker: Broker, topic: str, tmp_path: Path) -> None:
    """With nothing left to commit: exit 0, not a word."""
    group, folder = unique("g"), unpack("4.0.0", "plain", tmp_path / "c")
    with service(str(folder), "-b", broker.bootstrap_servers, "-g", group) as following:
        following.await_text("commits have begun")
        assert following.ending(signal.SIGINT) == (0, "")
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
    to_group = ["-b", broker.bootstrap_servers, "-g", group, "--once"]
    answer = invoke("follow", folder, *to_group)
    assert answer.exit_code == 0
    assert answer.stdout == f"{folder}: batch 2, 3 of 3 partitions in {group}\n"
    assert held(broker, group) == [24, 21, 15]
    surgery.rewind_to(folder, 0)
    back = invoke("follow", folder, *to_group, "--json")
    assert back.exit_code == 1
    (notices,) = json.loads(back.stdout)["checkpoints"]
    assert ["below" in row["problem"] for row in notices["groups"][group]] == [True] * 3
    assert held(broker, group) == [24, 21, 15]
    assert invoke("follow", folder, *to_group, "--on-rewind", "allow").exit_code == 0
    assert held(broker, group) == [8, 7, 5]
    assert invoke("follow", tmp_path / "nosuch", *to_group).exit_code == 3
    away = ["-b", "127.0.0.1:1", "-g", group, "--once", "--timeout", 2]
    assert invoke("follow", folder, *away).exit_code == 3


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["member", "transactional"])
def test_each_mode_commits(mode: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Once, again by a second client, and as a service that a signal ends."""
    group, folder = unique("g"), unpack("4.0.0", "plain", tmp_path / "c")
    common = [str(folder), "-b", broker.bootstrap_servers, "-g", group, "--mode", mode]
    for _ in range(2):
        assert invoke("follow", *common, "--once").exit_code == 0
        assert held(broker, group) == [24, 21, 15]
    with service(*common) as following:
        following.await_text("follows query")
        code, rest = following.ending(signal.SIGTERM)
    assert code == 0, rest
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
    assert invoke("follow", "--config", file, "--once").exit_code == 0
    for group in groups:
        assert held(broker, group) == [24, 21, 15]
