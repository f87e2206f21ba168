"""The note of a running broker, and what is never done on its word alone."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from eo_listener.model.errors import EoListenerError, FormatError
from tests.broker import detached
from tests.broker.errors import BrokerError
from tests.broker.record import NodeRecord, Record

NOBODY = 65534


@pytest.fixture
def other() -> Iterator[psutil.Process]:
    """A process that has nothing to do with a broker."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command) as process:
        yield psutil.Process(process.pid)
        process.kill()


def record_of(process: psutil.Process, data: Path) -> Record:
    node = NodeRecord(
        node=1, pid=process.pid, created=process.create_time(), port=9092, log="server.log"
    )
    properties = {"log.retention.ms": "60000", "ssl.key.password": "hunter2"}
    return Record(version="4.1.2", data=str(data), nodes=(node,), properties=properties)


def test_a_record_is_read_as_it_was_written(tmp_path: Path, other: psutil.Process) -> None:
    """Round trip through the file, which only its owner can read."""
    record = record_of(other, tmp_path)
    record.write()
    assert Record.read(tmp_path) == record
    assert record.bootstrap_servers == "127.0.0.1:9092"
    assert "hunter2" not in repr(record)
    assert stat.S_IMODE((tmp_path / "broker.json").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["broker.json"]  # noqa: PTH208 - names are what is meant


@pytest.fixture
def of_another_user(other: psutil.Process) -> Iterator[Path]:
    """The data folder of another user's broker; where tests are run by root, they become nobody."""
    folder = Path(
        tempfile.mkdtemp(prefix="eo-another-user-")
    )  # one below tmp_path could be entered by root alone
    record_of(other, folder).write()
    root = os.geteuid() == 0
    if not root:
        (folder / "broker.json").chmod(0)
    folder.chmod(0o555)
    if root:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_broker_of_another_user_is_left_to_them(
    of_another_user: Path, other: psutil.Process
) -> None:
    """Nobody is told to kill it or to remove its record: only whose it is."""
    for ask in (Record.read, detached.stop, detached.start):
        with pytest.raises(EoListenerError, match=r"another user|may not write") as refused:
            ask(of_another_user)
        assert "remove" not in str(refused.value)
        assert "End the" not in str(refused.value)
    assert other.is_running()


def test_a_stop_does_not_overtake_a_start(tmp_path: Path) -> None:
    """While a broker is being started, `stop` says so, and not that none was running."""
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BrokerError, match="just being started") as told:
            detached.stop(tmp_path)
    assert told.value.exit_code == 3
    assert detached.stop(tmp_path) == ()


def test_a_recycled_process_id_is_left_alone(tmp_path: Path, other: psutil.Process) -> None:
    """A process that was given the broker's old id is neither seen as running nor ended."""
    record = record_of(other, tmp_path)
    (node,) = record.nodes
    assert record.running() == (node,)
    recycled = replace(record, nodes=(replace(node, created=node.created - 60),))
    recycled.write()
    assert recycled.running() == ()
    assert detached.stop(tmp_path) == ()
    assert other.is_running()
    assert other.status() != psutil.STATUS_ZOMBIE


def test_the_recorded_process_is_ended(tmp_path: Path, other: psutil.Process) -> None:
    """With the right time of creation the process ends and the record goes."""
    record_of(other, tmp_path).write()
    assert [node.pid for node in detached.stop(tmp_path)] == [other.pid]
    assert not other.is_running()
    assert Record.read(tmp_path) is None


def test_a_process_that_is_held_is_ended_too(tmp_path: Path, other: psutil.Process) -> None:
    """A paused process cannot hear the polite request before it is woken."""
    record_of(other, tmp_path).write()
    other.suspend()
    assert len(detached.stop(tmp_path)) == 1
    assert not other.is_running()


def test_nothing_is_stopped_where_nothing_ran(tmp_path: Path) -> None:
    """An empty folder holds no broker."""
    assert Record.read(tmp_path) is None
    assert detached.stop(tmp_path) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"nodes": [{}]}',
        '{"version": "4.1.2"}',
        '{"version": "4.1.2", "data": "here", "nodes": [], "properties": 1}',
        (
            '{"version": "4.1.2", "data": "here", "properties": {}, "nodes":'
            ' [{"node": 1, "pid": "7", "created": 0.5, "port": 9092, "log": "x"}]}'
        ),
    ],
)
def test_a_damaged_record_is_said(text: str, tmp_path: Path) -> None:
    """A record that cannot be read is an error, not a broker that does not run."""
    (tmp_path / "broker.json").write_text(text)
    with pytest.raises(FormatError, match=r"broker\.json"):
        Record.read(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, None),
        ({"version": "4.1.2", "nodes": 1, "port": 9092}, None),
        ({"properties": {"log.retention.ms": "60000"}}, None),
        ({"version": "3.9.2"}, "as Kafka 4.1.2, not 3.9.2"),
        ({"nodes": 3}, "with 1 node(s), not 3"),
        ({"port": 9093}, "on port 9092, not 9093"),
        ({"properties": {"log.retention.ms": "1"}}, "with another value of the property log.reten"),
        ({"properties": {"ssl.key.password": "guess"}}, "the property ssl.key.password"),
        ({"properties": {"num.io.threads": "1"}}, "the property num.io.threads"),
    ],
)
def test_another_broker_than_the_running_one_is_seen(
    wanted: dict[str, Any], said: str | None, tmp_path: Path, other: psutil.Process
) -> None:
    """What is asked for must be as recorded, what is not named may be any; no value is told."""
    anything: dict[str, Any] = {"version": None, "nodes": None, "port": None, "properties": {}}
    difference = record_of(other, tmp_path).difference(**{**anything, **wanted})
    if said is None:
        assert difference is None
    else:
        assert said in str(difference)
        assert "guess" not in str(difference)
