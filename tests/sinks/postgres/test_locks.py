"""Who holds a lock: a zombie of ours is ended, and writes nothing later; others are named."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import psycopg
import pytest

from eo_listener.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
    SinkLockedError,
)
from eo_listener.testing.faults import hooked
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import ALL_TABLES, BARE, Database, link_of, next_entry
from tests.sinks.postgres.course import write_entry as write
from tests.waiting import until

RUNS = f"SELECT DISTINCT run FROM {BARE} ORDER BY run"
LOCK = "SELECT * FROM eo_ledger FOR UPDATE"


@pytest.fixture
def db(db: Database) -> Database:
    """With sinks of little patience."""
    return replace(db, table=BARE, given={"lock_timeout": 0.5})


@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("sink.begun", RetriableSinkError),
        ("sink.copying", RetriableSinkError),
        ("sink.ledger-moved", OutcomeUnknownError),  # nothing but COMMIT was left to do
    ],
)
def test_a_zombie_with_the_lock_is_ended(db: Database, point: str, error: type[SinkError]) -> None:
    """A successor ends its backend after a bounded time; the zombie goes on and writes nothing."""
    sink, zombie = db.sink(), db.sink()
    write(sink, next_entry(sink, run="before"))
    late, took = next_entry(zombie, run="zombie"), list[float]()

    def succeed() -> None:
        begun = time.monotonic()
        write(sink, next_entry(sink, run="successor"))
        took.append(time.monotonic() - begun)

    with once(point, succeed), pytest.raises(error) as caught:
        write(zombie, late)
    assert type(caught.value) is error
    assert took[0] < 10
    assert db.ask(RUNS) == ["before", "successor"]
    assert db.ask("SELECT run_id, next_offset FROM eo_ledger") == [("successor", 20)]


def test_one_that_waits_before_us_hides_no_zombie(db: Database) -> None:
    """Behind somebody who only waits for our own zombie, the zombie is found and ended."""
    sink, zombie = db.sink(), db.sink()
    write(sink, next_entry(sink, run="before"))
    late = next_entry(zombie, run="zombie")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Lock'"

    def succeed() -> None:
        with psycopg.connect(db.dsn, application_name="somebody", autocommit=True) as other:
            waits = threading.Thread(target=other.execute, args=(LOCK,))
            waits.start()
            until(lambda: db.ask(waiting.format(other.info.backend_pid)), 10)
            write(sink, next_entry(sink, run="successor"))
            waits.join(10)

    with once("sink.begun", succeed), pytest.raises(RetriableSinkError):
        write(zombie, late)
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
    db.script(f"CREATE TABLE {BARE} (id bigint, run text)")
    first, second = db.sink(), db.sink(lock_timeout=0.3)
    first.applied("another query")
    link_of(first).execute("BEGIN")
    link_of(first).execute(f"LOCK TABLE {BARE}".encode())
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
    with db.role("GRANT ALL ON SCHEMA {schema} TO {role}", ALL_TABLES) as weak:
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
