"""Who holds a lock: a zombie of ours is ended, and writes nothing later; others are named."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import closing
from dataclasses import replace

import psutil
import psycopg
import pytest

from eo_listener.errors import ForeignWriterError, SinkLockedError
from eo_listener.sinks.postgres.staging import Staging
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.bare import TABLE, drive, write
from tests.sinks.postgres.course import TP, Database, link_of, next_entry
from tests.waiting import until

RUNS = f"SELECT DISTINCT run FROM {TABLE} ORDER BY run"
LOCK = "SELECT * FROM eo_ledger FOR UPDATE"


@pytest.fixture
def db(db: Database) -> Database:
    """With sinks of little patience."""
    return replace(db, table=TABLE, given={"lock_timeout": 0.5})


# Each zombie is forked from a process that has imported what it needs.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([drive.__module__])


class Zombie:
    """A driver that was stopped at a point of its first batch."""

    def __init__(self, dsn: str, point: str) -> None:
        self._test, driver = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=drive, args=(dsn, point, driver))
        self._process.start()
        driver.close()
        assert self._answer() == "there"
        self._signal(signal.SIGSTOP)
        stopped = psutil.Process(self._process.pid)
        until(lambda: stopped.status() == psutil.STATUS_STOPPED, 10)

    def close(self) -> None:
        self._process.kill()
        self._process.join()

    def resume(self) -> tuple[str, int | None]:
        """Let it go on; return what it says at its end, and its exit code."""
        self._signal(signal.SIGCONT)
        self._test.send("go on")
        said = self._answer()
        self._process.join(60)
        return said, self._process.exitcode

    def _answer(self) -> str:
        assert self._test.poll(60)
        return str(self._test.recv())

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


@pytest.mark.parametrize("point", ["sink.begun", "sink.copying", "sink.ledger-moved"])
def test_a_zombie_with_the_lock_is_ended(db: Database, point: str) -> None:
    """A successor ends the zombie's backend after a bounded time; resumed, it writes nothing."""
    sink = db.sink()
    write(sink, next_entry(sink, run="before"))
    with closing(Zombie(db.dsn, point)) as zombie:
        begun = time.monotonic()
        write(sink, next_entry(sink, run="successor"))
        assert time.monotonic() - begun < 10
        # Where nothing but COMMIT was left to do, the zombie must look into the ledger to know.
        error = "OutcomeUnknown" if point == "sink.ledger-moved" else "RetriableSink"
        assert zombie.resume() == (f"{error}Error", 3)
    assert db.ask(RUNS) == ["before", "successor"]
    assert db.ask("SELECT run_id, next_offset FROM eo_ledger") == [("successor", 20)]


def test_a_zombie_of_the_first_batch_is_refused(db: Database) -> None:
    """Where there is no head yet to lock, two may begin, and the second to end is refused."""
    sink = db.sink()
    sink.applied(QUERY)
    with closing(Zombie(db.dsn, "sink.rows-written")) as zombie:
        write(sink, next_entry(sink, run="successor"))
        assert zombie.resume() == ("ForeignWriterError", 1)
    assert db.ask(RUNS) == ["successor"]
    assert db.ask("SELECT run_id FROM eo_ledger_history") == ["successor"]


def test_a_zombie_after_its_commit_has_written(db: Database) -> None:
    """Where the zombie's COMMIT was in flight, its successor finds the batch in the ledger."""
    with closing(Zombie(db.dsn, "sink.commit-sent")) as zombie:
        sink = db.sink()
        until(lambda: sink.applied(QUERY), 10)
        assert sink.applied(QUERY)[TP].run_id == "zombie"
        assert zombie.resume() == ("written", 0)
    assert db.ask(RUNS) == ["zombie"]


def test_one_that_waits_before_us_hides_no_zombie(db: Database) -> None:
    """Behind somebody who only waits for our own zombie, the zombie is found and ended."""
    sink = db.sink()
    write(sink, next_entry(sink, run="before"))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Lock'"
    with (
        closing(Zombie(db.dsn, "sink.begun")) as zombie,
        psycopg.connect(db.dsn, application_name="somebody", autocommit=True) as other,
    ):
        waits = threading.Thread(target=other.execute, args=(LOCK,))
        waits.start()
        until(lambda: db.ask(waiting.format(other.info.backend_pid)), 10)
        write(sink, next_entry(sink, run="successor"))
        waits.join(10)
        assert zombie.resume()[0] == "RetriableSinkError"
    assert db.ask("SELECT run_id FROM eo_ledger") == ["successor"]


def test_who_was_overtaken_before_it_began_copies_nothing(db: Database) -> None:
    """A driver whose head was moved finds out before the first row is sent."""
    sink = db.sink()
    write(sink, next_entry(sink))
    entry = next_entry(sink, run="late")
    write(sink, next_entry(sink, run="successor"))
    seen: list[str] = []
    with hooked(seen.append), pytest.raises(ForeignWriterError, match="run successor in batch 1"):
        write(sink, entry)
    assert seen == []


def test_somebody_elses_lock_is_named_and_left_alone(db: Database) -> None:
    """A lock of another program: a bounded wait, then its backend, name and address, no harm."""
    sink = db.sink()
    write(sink, next_entry(sink))
    entry = next_entry(sink)
    with psycopg.connect(db.dsn, application_name="somebody's psql") as other:
        other.execute(LOCK)
        pid = other.info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid} .somebody's psql.*127.0.0.1"):
            write(sink, entry)
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert write(sink, entry).rows == 10


def test_another_query_of_ours_is_no_zombie(db: Database) -> None:
    """A transaction of another query into the same table, however long, is never ended."""
    db.script(f"CREATE TABLE {TABLE} (id bigint, run text)")
    first, second = db.sink(), db.sink(lock_timeout=0.3)
    first.applied("another query")
    link_of(first).execute("BEGIN")
    link_of(first).execute(f"LOCK TABLE {TABLE}".encode())
    entry = next_entry(second)
    with pytest.raises(SinkLockedError, match="eo_listener"):
        write(second, entry)
    assert link_of(first).execute("SELECT 1").fetchone() == (1,)
    first.close()
    write(second, entry)


def test_a_zombie_of_another_role_is_named(db: Database) -> None:
    """What this role may not end, nor see much of, is named with its process and user."""
    first = db.sink()
    write(first, next_entry(first))
    grants = (
        "GRANT ALL ON SCHEMA {schema} TO {role}",
        "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    with db.role(*grants) as weak:
        sink = db.sink(dsn=weak, lock_timeout=0.3)
        entry = next_entry(sink)
        link_of(first).execute("BEGIN")
        link_of(first).execute(LOCK)
        pid = link_of(first).info.backend_pid
        with pytest.raises(SinkLockedError, match=f"backend {pid}.*user postgres.*may not end"):
            write(sink, entry)
        for one in (sink, first):  # its lock is in the way of what ends the role
            one.close()


def test_a_server_without_a_free_connection_ends_no_slow_statement(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nothing can show what a statement waits for, it goes on: it may wait for no lock."""
    # Looked up by a connection before, whose backend ends a moment after it is closed.
    schema = db.schema
    grant = "GRANT ALL ON SCHEMA {schema} TO {role}"
    with db.role(grant, options="CONNECTION LIMIT 1") as lonely:
        sink = db.sink(dsn=lonely, schema=schema, lock_timeout=0.3)
        assert write(sink, next_entry(sink)).rows == 10
        link_of(sink).execute("SELECT pg_sleep(1)")
        assert "too many connections for role" in caplog.text
        assert write(sink, next_entry(sink)).rows == 10
        sink.close()


def test_a_staging_table_that_is_held_is_left(db: Database) -> None:
    """One that a stopped task holds fails no batch, however short our patience; others go."""
    sink = db.sink(lock_timeout=0.2)
    sink.applied(QUERY)
    staging = Staging(writer=sink._writer(QUERY), logged=False, at_most=None)
    db.script("CREATE TABLE held (id int)", "CREATE TABLE free (id int)")
    with psycopg.connect(db.dsn) as other:
        other.execute("LOCK TABLE held")
        staging._drop(link_of(sink), ["held", "free"])
    left = "SELECT relname FROM pg_class WHERE oid IN (to_regclass('held'), to_regclass('free'))"
    assert db.ask(left) == ["held"]
    assert link_of(sink).execute("SELECT 1").fetchone() == (1,)
