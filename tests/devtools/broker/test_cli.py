"""`eo-listener broker` from the shell: start, find, stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from eo_listener.devtools.broker import detached
from eo_listener.devtools.broker.record import NodeRecord, Record
from tests.conftest import kafka_version
from tests.devtools.broker.clients import admin

pytestmark = pytest.mark.kafka


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = "from eo_listener.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, "broker", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
    )


def document(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found = json.loads(answer.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose broker is stopped whatever happens."""
    folder = tmp_path / "a broker"
    yield folder
    detached.stop(folder)


@pytest.mark.slow
def test_a_broker_is_started_found_and_stopped(data: Path) -> None:
    """It outlives the command, is started only once, and is gone after stop; exit codes tell."""
    options = ("--data", str(data), "--json")
    start = (
        "start",
        *options,
        "--version",
        kafka_version(),
        "--property",
        "log.retention.ms=60000",
    )
    started = run(*start)
    assert (started.returncode, started.stdout.count("\n")) == (0, 1), started.stderr
    first = document(started)
    (node,) = first["nodes"]
    assert first["running"]
    assert not first["already"]
    assert admin(first["bootstrap_servers"]).list_topics(timeout=10).brokers
    assert Path(node["log"]).exists()
    assert psutil.Process(node["pid"]).ppid() == 1 or os.getsid(node["pid"]) == node["pid"]

    again = run(*start)
    assert again.returncode == 0
    assert document(again)["already"]
    assert document(again)["nodes"] == first["nodes"]
    assert document(run("start", *options))["already"]
    for other in (
        ("--port", "9"),
        ("--version", "4.0.99"),
        ("--nodes", "2"),
        ("--property", "log.retention.ms=7"),
    ):
        refused = run("start", "--data", str(data), *other)
        assert (refused.returncode, refused.stdout) == (3, "")
        assert f"Stop it first: eo-listener broker stop --data '{data}'" in refused.stderr

    found = run("status", *options)
    assert found.returncode == 0
    assert document(found)["nodes"] == first["nodes"]
    assert str(node["pid"]) in run("status", "--data", str(data)).stdout

    stopped = run("stop", "--data", str(data))
    assert stopped.returncode == 0
    assert str(node["pid"]) in stopped.stdout
    assert not psutil.pid_exists(node["pid"])
    gone = run("status", *options)
    assert gone.returncode == 1
    assert not document(gone)["running"]
    nothing = run("stop", "--data", str(data))
    assert nothing.returncode == 0
    assert "No broker was running" in nothing.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--port", "99999"), 2, "must be from 1 to 65535, got 99999"),
        (("--version", "3.8.0"), 2, "too old"),
        (("--property", "oops"), 2, "key=value"),
        (("--property", "log.dirs=elsewhere"), 2, "Use --data"),
        (("--nodes", "0"), 2, "--nodes 1"),
        (("--data", "/dev/null/x"), 2, "--data"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    """Wrong use is said on stderr without a traceback, and nothing is started."""
    given = arguments if "--data" in arguments else ("--data", str(tmp_path / "d"), *arguments)
    answer = run("start", *given)
    assert answer.returncode == code
    assert answer.stderr.count("\n") == 1
    assert said in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("name", ["x[/y]", "x[red]y", "x:smile:y"])
def test_what_looks_like_markup_is_printed_as_it_is(name: str, tmp_path: Path) -> None:
    """The name of a folder is text: no part of it is lost, replaced or a traceback."""
    folder = tmp_path / name
    nothing = run("stop", "--data", str(folder))
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert nothing.stdout == f"No broker was running on {folder}\n"
    folder.mkdir(parents=True)
    here = psutil.Process()
    node = NodeRecord(node=1, pid=here.pid, created=here.create_time(), port=9092, log=name)
    gone = replace(node, node=2, created=here.create_time() - 60)
    Record(version="4.1.2", data=str(folder), nodes=(node, gone)).write()
    found = run("status", "--data", str(folder))
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.count(name) == 2
    assert " gone " in found.stdout


def test_missing_java_is_one_line(tmp_path: Path) -> None:
    """JAVA_HOME without a Java gives exit code 3 and the command that installs one."""
    answer = run("start", "--data", str(tmp_path / "d"), JAVA_HOME=str(tmp_path))
    assert answer.returncode == 3
    assert answer.stderr.count("\n") == 1
    assert "Java was not found" in answer.stderr
    assert "install" in answer.stderr


@pytest.mark.parametrize("command", ["start", "stop", "status"])
def test_help_shows_an_example(command: str) -> None:
    """Each command can be used from its help alone."""
    answer = run(command, "--help")
    assert answer.returncode == 0
    assert f"Example: eo-listener broker {command}" in " ".join(answer.stdout.split())
