"""A real broker: its life, its settings, and that it never outlives its Python."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from eo_listener.offsets import TopicPartition
from tests.broker import KNOWN, BrokerError, GroupRow, parse_rows, settings
from tests.conftest import StartBroker
from tests.groups import commit_all, shown_state
from tests.processes import Program
from tests.topics import Topics

pytestmark = pytest.mark.kafka


def fill(servers: str, group: str) -> None:
    """Make the topic `kept` of ten records, of which the group has committed four."""
    topics = Topics(servers)
    topics.create_as("kept", 1)
    topics.fill("kept", 10)
    commit_all(servers, group, {TopicPartition("kept", 0): 4})


@pytest.mark.parametrize("version", [KNOWN[0], pytest.param(KNOWN[1], marks=pytest.mark.slow)])
def test_data_survive_a_kill_and_a_restart(version: str, start_broker: StartBroker) -> None:
    """Address, records and committed offsets are the same; Kafka's own tool reads them."""
    started = start_broker(version=version)
    servers, before = started.bootstrap_servers, started.pids
    fill(servers, "a group")
    started.kill()
    assert started.pids == {}
    assert not psutil.pid_exists(before[1])
    started.restart()
    assert started.bootstrap_servers == servers
    assert parse_rows(started.consumer_groups("a group")) == (
        GroupRow("a group", "kept", 0, current_offset=4, log_end_offset=10, lag=6),
    )
    assert shown_state(started.consumer_groups("a group", "--state")) == ("Empty", 0)
    with pytest.raises(BrokerError, match="'nobody'"):
        started.consumer_groups("nobody")
    data = started.data
    assert "INFO" in started.log().read_text()
    started.stop()
    assert not data.exists()


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        ({"properties": {"num.io.threads": "many"}}, "num.io.threads"),
        ({"java_options": ["-XX:NoSuchOption"]}, "NoSuchOption"),
    ],
)
def test_what_does_not_start_is_quoted(
    options: dict[str, Any], quoted: str, start_broker: StartBroker
) -> None:
    """At once, with a log that is still there."""
    with pytest.raises(BrokerError) as caught:
        start_broker(**options)
    assert quoted in str(caught.value.cause)
    log = Path(str(caught.value.fix).rpartition(": ")[2].rstrip(")"))
    assert quoted in log.read_text()
    shutil.rmtree(log.parents[1])


def as_program(port: int, folder: Path) -> Program:
    words = [sys.executable, "-m", "tests.broker", "--port", port]
    return Program(words, env={**os.environ, "TMPDIR": str(folder)})


@pytest.mark.parametrize("end", [pytest.param("SIGINT", marks=pytest.mark.slow), "SIGTERM"])
def test_the_program_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    """Whichever signal ends it, and however often: no process and no data folder."""
    with as_program(settings.free_port(), tmp_path) as program:
        program.await_line("Kafka ")
        children = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(getattr(signal, end))
        assert program.ending(getattr(signal, end)) == (0, "")
    assert (len(program.lines), program.errors) == (1, [])
    assert not psutil.wait_procs(children, timeout=20)[1]
    assert [*tmp_path.iterdir()] == []


def test_a_named_port_that_is_in_use_is_one_line(tmp_path: Path) -> None:
    """No other is taken instead, and no data folder stays."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with as_program(port, tmp_path) as program:
            assert program.ending()[0] == 3
    assert (program.lines, len(program.errors)) == ([], 1)
    assert str(port) in program.errors[0]
    assert [*tmp_path.iterdir()] == []


PROGRAM = """
import sys, time, threading
from tests.broker import Broker
started = []
def start():
    started.append(Broker(version=sys.argv[1]))
    started[0].start()
thread = threading.Thread(target=start); thread.start(); thread.join()
print(started[0].pids[1], started[0].data, flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["exit", "SIGINT", "SIGTERM", "SIGKILL"])
def test_no_process_outlives_the_python_that_started_it(end: str) -> None:
    """And none ends sooner, such as with the thread that has started it."""
    command = [sys.executable, "-c", PROGRAM, KNOWN[0], "end" if end == "exit" else "wait"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with Program(command, env=environment) as python:
        pid, data = python.await_line("", 60).split()
        if end != "exit":
            kafka = psutil.Process(int(pid))
            time.sleep(0.5)
            assert kafka.is_running()
            python.send_signal(getattr(signal, end))
            kafka.wait(timeout=20)
        python.ending()
    assert not psutil.pid_exists(int(pid))
    assert Path(data).exists() == (end in ("SIGTERM", "SIGKILL"))
    assert "ResourceWarning" not in "".join(python.errors)
    shutil.rmtree(data, ignore_errors=True)
