"""A path, a file or a disk that will not do: a typed error, and nothing written."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from eo_listener.errors import OutcomeUnknownError, SettingsError, SinkError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.sqlite import connection as sqlite_file
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.bad_days import Overlaps
from tests.sinks.chapters.store import once
from tests.sinks.sqlite.database import ask, numbers, write
from tests.sinks.sqlite.store import store

__all__ = ["store"]


class TestOverlaps(Overlaps):
    """The predecessor has the file's lock."""


def test_what_it_needs_is_named() -> None:
    """Without pyarrow the extra to install is told, when the name is first used."""
    program = "import sys; sys.modules['pyarrow'] = None; from eo_listener import SqliteSink"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Install eo-listener[sqlite]" in answer.stderr


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
