"""A path, a file, a disk or a lock that will not do: a typed error, and nothing written."""

from __future__ import annotations

import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from eo_listener.errors import OutcomeUnknownError, SettingsError, SinkError, SinkLockedError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite import connection as sqlite_file
from eo_listener.sinks.sqlite.connection import DatabaseFile
from eo_listener.testing.made_up_entries import QUERY, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.bad_days import Overlaps
from tests.sinks.chapters.store import once
from tests.sinks.programs import holds_in_a_fork
from tests.sinks.sqlite.database import ask, next_entry, numbers, script, write


class TestOverlaps(Overlaps):
    """The predecessor has the file's lock."""


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A folder, one that is not there, and one that takes no files, whoever asks."""
    for path, error, said in (
        (tmp_path, SettingsError, "is a folder"),
        (tmp_path / "no" / "x.db", SettingsError, "mkdir -p"),
        (Path("/proc/eo.db"), SinkError, "write to the folder"),
    ):
        with pytest.raises(error, match=said):
            SqliteSink(path, "t").applied(QUERY)


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locks cannot be trusted nothing is begun."""
    kind = re.escape(sqlite_file._file_system(path.parent))
    monkeypatch.setattr(sqlite_file, "_REMOTE", re.compile(kind))
    with pytest.raises(SettingsError, match="network file system"):
        SqliteSink(path, "t").applied(QUERY)
    assert not path.exists()


def test_a_file_of_another_kind_is_reported_and_left_alone(path: Path) -> None:
    """What is no database stays as it is."""
    path.write_bytes(b"something else " * 100)
    with pytest.raises(SinkError, match="or is encrypted"):
        SqliteSink(path, "t").applied(QUERY)
    assert path.read_bytes() == b"something else " * 100


def test_a_damaged_file_is_reported(path: Path) -> None:
    """A page that was written over is noticed, with what to do."""
    sink = SqliteSink(path, "t")
    write(sink, numbers(2000), count=2000)
    sink.close()
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\xa5" * (len(whole) - 4096)
    path.write_bytes(whole)
    with pytest.raises(SinkError, match=r"\.recover"):
        write(sink, numbers(2))


def test_a_full_database_is_reported(path: Path) -> None:
    """SQLite's own "full" leaves nothing behind, and the batch fits once there is room."""
    sink = SqliteSink(path, "t")
    sink.applied(QUERY)
    connection = sink._file.connection()
    connection.execute("PRAGMA max_page_count = 10")
    frame = ArrowFrame.rows("v string", *[("x" * 100,)] * 5000)
    with pytest.raises(SinkError, match="disk is full") as caught:
        write(sink, frame, count=5000)
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert sink.applied(QUERY) == {}
    connection.execute("PRAGMA max_page_count = 100000")
    assert write(sink, frame, count=5000).rows == 5000


@contextmanager
def no_file_may_grow(beyond: int) -> Iterator[None]:
    """Let the disk fail for this process where a file would become larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fails_at_the_commit_leaves_it_open(path: Path) -> None:
    """The outcome is unknown, the ledger says it, and the batch is there once in the end."""
    sink = SqliteSink(path, "t")
    write(sink, numbers(2))
    before = sink.applied(QUERY)
    with ExitStack() as broken:

        def break_disk() -> None:
            log = path.with_name(path.name + "-wal").stat().st_size
            broken.enter_context(no_file_may_grow(beyond=log))

        with (
            once("sink.commit-sent", break_disk),
            pytest.raises(OutcomeUnknownError, match="disk I/O error"),
        ):
            write(sink, numbers(2))
    if sink.applied(QUERY) == before:
        write(sink, numbers(2))
    assert ask(path, "SELECT v FROM t ORDER BY v") == [0, 0, 1, 1]
    assert ask(path, "SELECT next_offset FROM eo_ledger") == [20]


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
        acts: list[Callable[[], Any]] = [other.rollback, str, holder.kill, str]
        steps = SinkWriter(RetryLimits(timeout=120), lambda _: acts.pop()(), time.monotonic)
        assert steps.read(sink, QUERY) == {}
        holder.wait(10)
        entry = next_entry(sink)
        other.execute("BEGIN IMMEDIATE")
        frame = ArrowFrame.rows("v bigint", (7,))
        assert steps.write(sink, frame, entry, plan_of(entry)).attempts == 3
    assert ask(table, "SELECT v FROM t") == [7]


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
