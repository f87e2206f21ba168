"""Somebody else holds the file's lock: a bounded wait, then an error that says who."""

from __future__ import annotations

import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from eo_listener.errors import SinkLockedError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite.connection import DatabaseFile
from eo_listener.testing.made_up_entries import QUERY, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.programs import holds_in_a_fork
from tests.sinks.sqlite.database import ask, next_entry, numbers, script, write

Process = subprocess.Popen[str]
HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO t VALUES (-1)")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["WAL", "DELETE"])
def table(path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with a table, in each journal mode."""
    script(path, f"PRAGMA journal_mode = {request.param}; CREATE TABLE t (v)")
    return path


@pytest.fixture
def holder(table: Path) -> Iterator[Process]:
    """A process that holds the lock."""
    command = [sys.executable, "-c", HOLDER, str(table)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_file_that_is_locked_for_a_while(table: Path, holder: Process) -> None:
    """Longer than busy_timeout, shorter than retry_timeout: read and written when it is free."""
    sink = SqliteSink(table, "t", busy_timeout=0.1)
    with closing(sqlite3.connect(table, isolation_level=None)) as other:
        acts: list[Callable[[], object]] = [other.rollback, str, holder.kill, str]
        steps = SinkWriter(RetryLimits(timeout=120), lambda _: _done(acts.pop()), time.monotonic)
        assert steps.read(sink, QUERY) == {}
        holder.wait(10)
        entry = next_entry(sink)
        other.execute("BEGIN IMMEDIATE")
        frame = ArrowFrame.rows("v bigint", (7,))
        assert steps.write(sink, frame, entry, plan_of(entry)).attempts == 3
    assert ask(table, "SELECT v FROM t") == [7]


def _done(act: Callable[[], object]) -> None:
    act()


def test_a_stopped_holder_is_named(table: Path, holder: Process) -> None:
    """A zombie that was stopped in its transaction blocks for a bounded time; ending it helps."""
    sink = SqliteSink(table, "t", busy_timeout=0.3)
    with pytest.raises(SinkLockedError):  # it has no ledger yet, and may not make one
        sink.applied(QUERY)
    holder.send_signal(signal.SIGSTOP)
    while psutil.Process(holder.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    begun = time.monotonic()
    with pytest.raises(SinkLockedError, match="stopped") as caught:
        sink.applied(QUERY)
    assert time.monotonic() - begun < 10
    assert str(caught.value.fix) == f"Run kill -9 {holder.pid}"
    assert "BEGIN IMMEDIATE" not in str(caught.value)  # arguments may hold secrets
    holder.kill()
    holder.wait(10)
    assert write(sink, numbers(2)).rows == 2
    assert ask(table, "SELECT v FROM t") == [0, 1]


def test_a_reader_that_stays_does_not_block_a_new_file(path: Path) -> None:
    """With the log that a new file gets, a reader in a long transaction is no obstacle."""
    sink = SqliteSink(path, "t", busy_timeout=0.2)
    write(sink, numbers(2))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        write(sink, numbers(2))
        assert reader.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
    assert ask(path, "SELECT count(*) FROM t") == [4]


def test_a_reader_at_the_commit_is_reported(path: Path) -> None:
    """With a rollback journal a reader holds COMMIT up: nothing is written, and that is known."""
    script(path, "PRAGMA journal_mode = DELETE; CREATE TABLE t (v); INSERT INTO t VALUES (7)")
    sink = SqliteSink(path, "t", busy_timeout=0.2)
    sink.applied(QUERY)
    frame = numbers(2)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT v FROM t").fetchall() == [(7,)]
        with pytest.raises(SinkLockedError):
            write(sink, frame)
    assert sink.applied(QUERY) == {}
    write(sink, frame)
    assert ask(path, "SELECT v FROM t ORDER BY v") == [0, 1, 7]


def test_a_fork_has_a_connection_of_its_own(path: Path) -> None:
    """A child neither uses nor closes its parent's connection."""
    file = DatabaseFile(path, create=True, busy_timeout=1, foreign_keys=True)
    parents = file.connection()
    parents.execute("CREATE TABLE t (v)")
    parents.execute("BEGIN IMMEDIATE")

    def has_its_own() -> bool:
        own = file.connection()
        is_its_own = own is not parents and own.execute("SELECT * FROM t").fetchall() == []
        file.close()
        return is_its_own

    assert holds_in_a_fork(has_its_own)
    parents.execute("INSERT INTO t VALUES (1)")
    with (
        closing(sqlite3.connect(path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError),
    ):
        other.execute("BEGIN IMMEDIATE")  # the parent's lock still holds
    parents.execute("COMMIT")
    file.close()


def test_a_sink_in_use_can_be_sent_elsewhere(path: Path) -> None:
    """Pickled while its file is open, it opens it again where it arrives."""
    sink = SqliteSink(path, "t")
    sink.applied(QUERY)
    sent = pickle.loads(pickle.dumps(sink))  # noqa: S301  # our own
    assert sent.applied(QUERY) == {}
    assert sent.label == sink.label
    assert sent._file.connection() is not sink._file.connection()
    for one in (sent, sink):
        one.close()
