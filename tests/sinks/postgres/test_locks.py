"""Who holds a lock: a zombie of ours is ended, and writes nothing later; others are named."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg
import pytest

from eo_listener.model.errors import ForeignWriterError, SinkLockedError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.staging import Staging
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.bare import TABLE, write
from tests.sinks.postgres.course import TP, another_role, ask, next_entry, script

RUNS = f"SELECT DISTINCT run FROM {TABLE} ORDER BY run"
LOCK = "SELECT * FROM eo_ledger FOR UPDATE"


@pytest.fixture
def opened(dsn: str) -> Iterator[Callable[..., PostgresSink]]:
    """Opens sinks."""
    with contextlib.ExitStack() as stack:

        def make(**more: Any) -> PostgresSink:
            given = {"dsn": dsn, "table": TABLE, "lock_timeout": 0.5, **more}
            return stack.enter_context(contextlib.closing(PostgresSink(**given)))

        yield make


def link_of(sink: PostgresSink) -> Connection:
    assert sink._kept.link is not None
    return sink._kept.link


@contextlib.contextmanager
def zombie(dsn: str, point: str) -> Iterator[subprocess.Popen[str]]:
    """A driver that was stopped at `point`; it goes on when a line is written to it."""
    command = [sys.executable, "-m", "tests.sinks.postgres.bare", dsn, point]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGSTOP)
        ends = time.monotonic() + 10
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < ends
            time.sleep(0.01)
        try:
            yield process
        finally:
            process.kill()


def resume(process: subprocess.Popen[str]) -> str:
    """Let it go on, and return what it says at its end."""
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate("\n", timeout=60)
    return said.partition(":")[0]


@pytest.mark.parametrize("point", ["sink.begun", "sink.copying", "sink.ledger-moved"])
def test_a_zombie_with_the_lock_is_ended(
    dsn: str, opened: Callable[..., PostgresSink], point: str
) -> None:
    """A successor waits a bounded time, ends the stopped driver's backend, and takes over; the
    zombie, resumed, gets a typed error and has written nothing.
    """
    sink = opened()
    write(sink, next_entry(sink, run="before"))
    with zombie(dsn, point) as process:
        begun = time.monotonic()
        write(sink, next_entry(sink, run="successor"))
        assert time.monotonic() - begun < 10
        # Where nothing but COMMIT was left to do, the zombie must look into the ledger to know.
        is_unknown = point == "sink.ledger-moved"
        assert resume(process) == ("OutcomeUnknownError" if is_unknown else "RetriableSinkError")
        assert process.returncode == 3
    assert ask(dsn, RUNS) == ["before", "successor"]
    assert ask(dsn, "SELECT run_id, next_offset FROM eo_ledger") == [("successor", 20)]


def test_a_zombie_of_the_first_batch_is_refused(
    dsn: str, opened: Callable[..., PostgresSink]
) -> None:
    """Where there is no head yet to lock, two may begin, and the second to end is refused."""
    sink = opened()
    sink.applied(QUERY)
    with zombie(dsn, "sink.rows-written") as process:
        write(sink, next_entry(sink, run="successor"))
        assert resume(process) == "ForeignWriterError"
        assert process.returncode == 1
    assert ask(dsn, RUNS) == ["successor"]
    assert ask(dsn, "SELECT run_id FROM eo_ledger_history") == ["successor"]


def test_a_zombie_after_its_commit_has_written(
    dsn: str, opened: Callable[..., PostgresSink]
) -> None:
    """Where the zombie's COMMIT was in flight, its successor finds the batch in the ledger."""
    with zombie(dsn, "sink.commit-sent") as process:
        sink, ends = opened(), time.monotonic() + 10
        while sink.applied(QUERY) == {}:
            assert time.monotonic() < ends
        assert sink.applied(QUERY)[TP].run_id == "zombie"
        assert resume(process) == "written\n"
    assert ask(dsn, RUNS) == ["zombie"]


def test_one_that_waits_before_us_hides_no_zombie(
    dsn: str, opened: Callable[..., PostgresSink]
) -> None:
    """Behind somebody who only waits for our own zombie, the zombie is found and ended."""
    sink = opened()
    write(sink, next_entry(sink, run="before"))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Lock'"
    with (
        zombie(dsn, "sink.begun") as process,
        psycopg.connect(dsn, application_name="somebody", autocommit=True) as other,
    ):
        waits = threading.Thread(target=other.execute, args=(LOCK,))
        waits.start()
        ends = time.monotonic() + 10
        while not ask(dsn, waiting.format(other.info.backend_pid)):
            assert time.monotonic() < ends
        write(sink, next_entry(sink, run="successor"))
        waits.join(10)
        assert resume(process) == "RetriableSinkError"
    assert ask(dsn, "SELECT run_id FROM eo_ledger") == ["successor"]


def test_who_was_overtaken_before_it_began_copies_nothing(
    opened: Callable[..., PostgresSink],
) -> None:
    """A driver whose head was moved finds out before the first row is sent."""
    sink = opened()
    write(sink, next_entry(sink))
    entry = next_entry(sink, run="late")
    write(sink, next_entry(sink, run="successor"))
    seen: list[str] = []
    with hooked(seen.append), pytest.raises(ForeignWriterError, match="run successor in batch 1"):
        write(sink, entry)
    assert seen == []


def test_somebody_elses_lock_is_named_and_left_alone(
    dsn: str, opened: Callable[..., PostgresSink]
) -> None:
    """A lock of another program: a bounded wait, then its backend, name and address, no harm."""
    sink = opened()
    write(sink, next_entry(sink))
    entry = next_entry(sink)
    with psycopg.connect(dsn, application_name="somebody's psql") as other:
        other.execute(LOCK)
        pid = other.info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid} .somebody's psql.*127.0.0.1"):
            write(sink, entry)
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert write(sink, entry).rows == 10


def test_another_query_of_ours_is_no_zombie(dsn: str, opened: Callable[..., PostgresSink]) -> None:
    """A transaction of another query into the same table, however long, is never ended."""
    script(dsn, f"CREATE TABLE {TABLE} (id bigint, run text)")
    first, second = opened(), opened(lock_timeout=0.3)
    first.applied("another query")
    link_of(first).execute("BEGIN")
    link_of(first).execute(f"LOCK TABLE {TABLE}".encode())
    entry = next_entry(second)
    with pytest.raises(SinkLockedError, match="eo_listener"):
        write(second, entry)
    assert link_of(first).execute("SELECT 1").fetchone() == (1,)
    first.close()
    write(second, entry)


def test_a_zombie_of_another_role_is_named(dsn: str, opened: Callable[..., PostgresSink]) -> None:
    """What this role may not end, nor see much of, is named with its process and user."""
    first = opened()
    write(first, next_entry(first))
    grants = (
        "GRANT ALL ON SCHEMA {schema} TO {role}",
        "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    with another_role(dsn, *grants) as weak:
        sink = opened(dsn=weak, lock_timeout=0.3)
        entry = next_entry(sink)
        link_of(first).execute("BEGIN")
        link_of(first).execute(LOCK)
        pid = link_of(first).info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid}.*user postgres.*may not end"):
            write(sink, entry)
        for one in (sink, first):  # its lock is in the way of what ends the role
            one.close()


def test_a_server_without_a_free_connection_ends_no_slow_statement(
    dsn: str, opened: Callable[..., PostgresSink], caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing can show what a statement waits for, it goes on: it may wait for no lock."""
    # Looked up by a connection before, whose backend ends a moment after it is closed.
    (schema,) = ask(dsn, "SELECT current_schema()")
    grant = "GRANT ALL ON SCHEMA {schema} TO {role}"
    with another_role(dsn, grant, options="CONNECTION LIMIT 1") as lonely:
        sink = opened(dsn=lonely, schema=schema, lock_timeout=0.3)
        assert write(sink, next_entry(sink)).rows == 10
        link_of(sink).execute("SELECT pg_sleep(1)")
        assert "cannot find out which session holds the lock" in caplog.text
        assert "too many connections for role" in caplog.text
        assert write(sink, next_entry(sink)).rows == 10
        sink.close()


def test_a_staging_table_that_is_held_is_left(
    dsn: str, opened: Callable[..., PostgresSink]
) -> None:
    """One that a stopped task holds fails no batch, however short our patience; others go."""
    sink = opened(lock_timeout=0.2)
    sink.applied(QUERY)
    staging = Staging(writer=sink._writer(QUERY), logged=False, at_most=None)
    script(dsn, "CREATE TABLE held (id int)", "CREATE TABLE free (id int)")
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE held")
        staging._drop(link_of(sink), ["held", "free"])
    left = "SELECT relname FROM pg_class WHERE oid IN (to_regclass('held'), to_regclass('free'))"
    assert ask(dsn, left) == ["held"]
    assert link_of(sink).execute("SELECT 1").fetchone() == (1,)
