"""The server dies, stands still or loses an answer; a zombie keeps its locks, and comes back."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.dataframes import DataFrames
from eo_listener.model.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.events import BatchReplayed
from eo_listener.model.ledger import Entry
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.staging import Staging
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY, heads_of
from tests.foreach_batch.overlap import Overlap
from tests.foreach_batch.stage import Plans, Run
from tests.postgres_server import PostgresServer, running, with_schema
from tests.sinks.postgres.bare import TABLE, write
from tests.sinks.postgres.course import TP, another_role, ask, at, next_entry, script

IDS = f"SELECT id FROM {TABLE} ORDER BY id"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server to be killed; each test leaves it running."""
    with running() as one:
        yield one


@pytest.fixture
def own(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """A way into a schema of the test's own on that server."""
    return with_schema(server.dsn(), re.sub(r"\W", "_", request.node.name)[-60:].lower())


def link_of(sink: PostgresSink) -> Connection:
    assert sink._kept.link is not None
    return sink._kept.link


def cut(sink: PostgresSink) -> None:
    """Break the connection off on our side, and lose what has arrived."""
    with socket.socket(fileno=os.dup(link_of(sink).pgconn.socket)) as wire:
        with contextlib.suppress(BlockingIOError):
            wire.recv(1 << 16)
        wire.shutdown(socket.SHUT_RDWR)


def stop(sink: PostgresSink) -> int:
    """Have the backend of the sink's connection stand still; returns its process id."""
    pid = link_of(sink).info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    return pid


def leave_in_doubt(sink: PostgresSink, entry: Entry) -> int:
    """Write a batch whose COMMIT reaches a backend that stands still, and lose the connection.

    Returns the backend's process id; it is still to be told to go on.
    """
    stopped: list[int] = []
    acts = {
        "sink.ledger-moved": lambda: stopped.append(stop(sink)),
        "sink.commit-sent": lambda: cut(sink),
    }
    with at(acts), pytest.raises(OutcomeUnknownError):
        write(sink, entry)
    return stopped[0]


@pytest.mark.parametrize(
    "point", ["sink.begun", "sink.copying", "sink.rows-written", "sink.ledger-moved"]
)
def test_the_server_is_killed_in_a_batch(server: PostgresServer, own: str, point: str) -> None:
    """kill -9 of PostgreSQL before COMMIT: an error that says so, and the batch follows once."""
    sink = PostgresSink(own, TABLE)
    write(sink, next_entry(sink))
    entry = next_entry(sink)
    with at({point: server.kill}), pytest.raises(SinkError, match="lost") as lost:
        write(sink, entry)
    assert not isinstance(lost.value, OutcomeUnknownError) or point == "sink.ledger-moved"
    with pytest.raises(SinkError, match="cannot be reached"):
        sink.applied(QUERY)
    server.start()
    assert sink.applied(QUERY) == {TP: entry.moves[TP].found}
    assert write(sink, entry).rows == 10
    assert ask(own, IDS) == list(range(20))
    sink.close()


def test_the_server_is_killed_at_commit(server: PostgresServer, own: str) -> None:
    """kill -9 when COMMIT was sent and not worked on: outcome unknown, and the ledger knows."""
    sink = PostgresSink(own, TABLE)
    entry = next_entry(sink)
    acts = {"sink.ledger-moved": lambda: stop(sink), "sink.commit-sent": server.kill}
    with at(acts), pytest.raises(OutcomeUnknownError):
        write(sink, entry)
    server.start()
    assert sink.applied(QUERY) == {}
    write(sink, entry)
    assert ask(own, IDS) == list(range(10))
    sink.close()


def test_the_answer_to_commit_is_lost(dsn: str) -> None:
    """Where the server has committed and the answer is lost, the ledger shows the batch."""
    sink = PostgresSink(dsn, TABLE)
    entry = next_entry(sink)

    def lose() -> None:
        ends = time.monotonic() + 20
        while not ask(dsn, IDS):
            assert time.monotonic() < ends
        cut(sink)

    with at({"sink.commit-sent": lose}), pytest.raises(OutcomeUnknownError):
        write(sink, entry)
    assert sink.applied(QUERY) == heads_of(entry)
    assert ask(dsn, IDS) == list(range(10))
    sink.close()


def test_the_ledger_is_read_when_the_commit_is_over(own: str) -> None:
    """While a COMMIT of unknown outcome is still worked on, the ledger is not read too early."""
    sink = PostgresSink(own, TABLE)
    entry = next_entry(sink)
    backend = leave_in_doubt(sink, entry)
    later = threading.Timer(0.5, os.kill, (backend, signal.SIGCONT))
    later.start()
    assert sink.applied(QUERY) == heads_of(entry)
    later.join(10)
    assert ask(own, IDS) == list(range(10))
    sink.close()


def test_a_commit_that_does_not_end_is_named(own: str) -> None:
    """A backend that never finishes its COMMIT ends in an error with its number, not in waiting."""
    sink = PostgresSink(own, TABLE, lock_timeout=0.3)
    entry = next_entry(sink)
    backend = leave_in_doubt(sink, entry)
    with pytest.raises(SinkError, match=f"backend {backend} is still committing"):
        sink.applied(QUERY)
    os.kill(backend, signal.SIGCONT)
    assert sink.applied(QUERY) in ({}, heads_of(entry))  # it was told to end, before or after
    sink.close()


@pytest.mark.slow
def test_a_server_that_stands_still_does_not_hang_the_query(own: str) -> None:
    """A stopped server answers nothing, and the batch fails within the limits that were set."""
    sink = PostgresSink(own, TABLE, statement_timeout=1, lock_timeout=1)
    entry = next_entry(sink)
    begun = time.monotonic()
    stopped: list[int] = []
    acts = {"sink.begun": lambda: stopped.append(stop(sink))}
    with at(acts), pytest.raises(SinkError, match="no answer"):
        write(sink, entry)
    assert time.monotonic() - begun < 30
    os.kill(stopped[0], signal.SIGCONT)
    assert write(sink, entry).rows == 10
    sink.close()


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
    return said


@pytest.mark.parametrize("point", ["sink.begun", "sink.copying", "sink.ledger-moved"])
def test_a_zombie_with_the_lock_is_ended(dsn: str, point: str) -> None:
    """A successor waits a bounded time, ends the stopped driver's backend, and takes over; the
    zombie, resumed, gets a typed error and has written nothing.
    """
    sink = PostgresSink(dsn, TABLE, lock_timeout=0.5)
    write(sink, next_entry(sink, run="before"))
    with zombie(dsn, point) as process:
        begun = time.monotonic()
        write(sink, next_entry(sink, run="successor"))
        assert time.monotonic() - begun < 10
        said = resume(process)
        assert process.returncode == 3
    # Where nothing but COMMIT was left to do, the zombie must look into the ledger to know.
    kind = "OutcomeUnknownError: " if point == "sink.ledger-moved" else "RetriableSinkError: "
    assert said.startswith(kind)
    assert ask(dsn, f"SELECT DISTINCT run FROM {TABLE} ORDER BY run") == ["before", "successor"]
    assert ask(dsn, "SELECT run_id, next_offset FROM eo_ledger") == [("successor", 20)]
    sink.close()


def test_a_zombie_of_the_first_batch_is_refused(dsn: str) -> None:
    """Where there is no head yet to lock, two may begin, and the second to end is refused."""
    sink = PostgresSink(dsn, TABLE)
    sink.applied(QUERY)
    with zombie(dsn, "sink.rows-written") as process:
        write(sink, next_entry(sink, run="successor"))
        assert resume(process).startswith("ForeignWriterError: ")
        assert process.returncode == 1
    assert ask(dsn, f"SELECT DISTINCT run FROM {TABLE}") == ["successor"]
    assert ask(dsn, "SELECT run_id FROM eo_ledger_history") == ["successor"]
    sink.close()


def test_who_was_overtaken_before_it_began_copies_nothing(dsn: str) -> None:
    """A driver whose head was moved finds out before the first row is sent."""
    sink = PostgresSink(dsn, TABLE)
    write(sink, next_entry(sink))
    entry = next_entry(sink, run="late")
    write(sink, next_entry(sink, run="successor"))
    seen: list[str] = []
    with hooked(seen.append), pytest.raises(ForeignWriterError, match="run successor in batch 1"):
        write(sink, entry)
    assert seen == []
    sink.close()


def test_a_zombie_after_its_commit_has_written(dsn: str) -> None:
    """Where the zombie's COMMIT was in flight, its successor finds the batch in the ledger."""
    with zombie(dsn, "sink.commit-sent") as process:
        sink = PostgresSink(dsn, TABLE)
        ends = time.monotonic() + 10
        while sink.applied(QUERY) == {}:
            assert time.monotonic() < ends
        assert sink.applied(QUERY)[TP].run_id == "zombie"
        assert resume(process) == "written\n"
    assert ask(dsn, f"SELECT DISTINCT run FROM {TABLE}") == ["zombie"]
    sink.close()


def test_somebody_elses_lock_is_named_and_left_alone(dsn: str) -> None:
    """A lock of another program: a bounded wait, then its backend, name and address, no harm."""
    sink = PostgresSink(dsn, TABLE, lock_timeout=0.5)
    write(sink, next_entry(sink))
    entry = next_entry(sink)
    with psycopg.connect(dsn, application_name="somebody's psql") as other:
        other.execute("SELECT * FROM eo_ledger FOR UPDATE")
        pid = other.info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid} .somebody's psql.*127.0.0.1"):
            write(sink, entry)
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert write(sink, entry).rows == 10
    sink.close()


def test_one_that_waits_before_us_hides_no_zombie(dsn: str) -> None:
    """Behind somebody who only waits for our own zombie, the zombie is found and ended."""
    sink = PostgresSink(dsn, TABLE, lock_timeout=0.5)
    write(sink, next_entry(sink, run="before"))
    with zombie(dsn, "sink.begun") as process:
        other = psycopg.connect(dsn, application_name="somebody", autocommit=True)
        waits = threading.Thread(target=other.execute, args=("SELECT * FROM eo_ledger FOR UPDATE",))
        waits.start()
        ends = time.monotonic() + 10
        while ask(
            dsn,
            f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {other.info.backend_pid}",
        ) != ["Lock"]:
            assert time.monotonic() < ends
        write(sink, next_entry(sink, run="successor"))
        waits.join(10)
        assert resume(process).startswith("RetriableSinkError: ")
    other.close()
    assert ask(dsn, "SELECT run_id FROM eo_ledger") == ["successor"]
    sink.close()


def test_a_zombie_of_another_role_is_named(dsn: str) -> None:
    """What this role may not end, nor see much of, is named with its process and user."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.closing(PostgresSink(dsn, TABLE)))
        write(first, next_entry(first))
        grants = (
            "GRANT ALL ON SCHEMA {schema} TO {role}",
            "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
        )
        weak = stack.enter_context(another_role(dsn, *grants))
        sink = PostgresSink(weak, TABLE, lock_timeout=0.3)
        stack.callback(first.close)  # its lock is in the way of what ends the role
        stack.callback(sink.close)
        entry = next_entry(sink)
        link_of(first).execute("BEGIN")
        link_of(first).execute("SELECT * FROM eo_ledger FOR UPDATE")
        pid = link_of(first).info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid}.*user postgres.*may not end"):
            write(sink, entry)


def test_a_server_without_a_free_connection_ends_no_slow_statement(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing can show what a statement waits for, it goes on: it may wait for no lock."""
    grant = "GRANT ALL ON SCHEMA {schema} TO {role}"
    # Looked up by a connection before, whose backend ends a moment after it is closed.
    (schema,) = ask(dsn, "SELECT current_schema()")
    with (
        another_role(dsn, grant, options="CONNECTION LIMIT 1") as lonely,
        contextlib.closing(PostgresSink(lonely, TABLE, schema=schema, lock_timeout=0.3)) as sink,
    ):
        assert write(sink, next_entry(sink)).rows == 10
        link_of(sink).execute("SELECT pg_sleep(1)")
        assert "cannot find out which session holds the lock" in caplog.text
        assert "too many connections for role" in caplog.text
        assert write(sink, next_entry(sink)).rows == 10


def test_a_prepared_transaction_is_named(server: PostgresServer, own: str) -> None:
    """A lock that no process holds, but a transaction that was prepared: it is named."""
    script(own, "ALTER SYSTEM SET max_prepared_transactions = 3")
    server.kill()
    server.start()
    sink = PostgresSink(own, TABLE, lock_timeout=0.3)
    write(sink, next_entry(sink))
    entry = next_entry(sink)
    with psycopg.connect(own, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM eo_ledger FOR UPDATE")
        other.execute("PREPARE TRANSACTION 'half'")
        with pytest.raises(SinkLockedError, match=r"'half' of postgres.*ROLLBACK PREPARED"):
            write(sink, entry)
        other.execute("ROLLBACK PREPARED 'half'")
    assert write(sink, entry).rows == 10
    sink.close()


def test_a_staging_table_that_is_held_is_left(dsn: str) -> None:
    """One that a stopped task holds fails no batch, however short our patience; others go."""
    sink = PostgresSink(dsn, TABLE, lock_timeout=0.2)
    sink.applied(QUERY)
    staging = Staging(writer=sink._writer(QUERY), logged=False, at_most=None)
    script(dsn, "CREATE TABLE held (id int)", "CREATE TABLE free (id int)")
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE held")
        staging._drop(link_of(sink), ["held", "free"])
    assert ask(
        dsn, "SELECT relname FROM pg_class WHERE oid IN (to_regclass('held'), to_regclass('free'))"
    ) == ["held"]
    assert link_of(sink).execute("SELECT 1").fetchone() == (1,)
    sink.close()


def test_a_commit_in_doubt_ends_no_other_transaction(dsn: str) -> None:
    """A backend that has gone on to another transaction, as behind a pooler, is not waited for."""
    sink = PostgresSink(dsn, TABLE, lock_timeout=30)
    write(sink, next_entry(sink))
    with psycopg.connect(dsn, autocommit=True) as stranger:
        before = link_of(sink).identity
        assert before is not None
        row = stranger.execute(
            "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert row is not None
        sink.close()
        sink._kept._unknown_commit = before._replace(pid=row[0], backend_start=row[1])
        stranger.execute("BEGIN")
        begun = time.monotonic()
        assert TP in sink.applied(QUERY)
        assert time.monotonic() - begun < 20
        assert stranger.execute("SELECT 1").fetchone() == (1,)
    sink.close()


def test_another_query_of_ours_is_no_zombie(dsn: str) -> None:
    """A transaction of another query into the same table, however long, is never ended."""
    script(dsn, f"CREATE TABLE {TABLE} (id bigint, run text)")
    first, second = (PostgresSink(dsn, TABLE, lock_timeout=0.3) for _ in range(2))
    first.applied("another query")
    link = link_of(first)
    link.execute("BEGIN")
    link.execute(f"LOCK TABLE {TABLE}".encode())
    entry = next_entry(second)
    with pytest.raises(SinkLockedError, match="eo_listener"):
        write(second, entry)
    assert link.execute("SELECT 1").fetchone() == (1,)
    first.close()
    write(second, entry)
    second.close()


@pytest.mark.spark
@pytest.mark.parametrize("number", [0, 1])
def test_a_predecessor_about_to_end(spark: SparkSession, dsn: str, number: int) -> None:
    """A restart that waits for its lock finds the batch written: a replay, and no other driver."""
    plans = Plans({0: {TP: (0, 2)}, 1: {TP: (2, 4)}})
    old, new = PostgresSink(dsn, TABLE), PostgresSink(dsn, TABLE)
    if number:
        BatchRunner(Run(plans, 0), [old], DataFrames()).run(spark.range(2), 0)
    overlap = Overlap(plans, DataFrames())
    overlap.run([old], [new], spark.range(2, 4), number)
    assert overlap.failed == []
    assert [type(event) for event in overlap.events] == [BatchReplayed]
    assert ask(dsn, f"SELECT count(*) FROM {TABLE}") == [2 + 2 * number]
    old.close()
    new.close()
