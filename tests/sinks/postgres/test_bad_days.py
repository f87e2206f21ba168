"""The server dies, is away, stands still, loses an answer, or is another one after a failover."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SinkError, SinkLockedError
from eo_listener.foreach_batch.sink_writer import RetryLimits, SinkWriter
from eo_listener.model.ledger import Entry
from eo_listener.sinks.postgres import PostgresSink, connection
from eo_listener.testing.made_up_entries import QUERY, heads_of, plan_of
from tests.postgres_server import PostgresServer, running, with_schema
from tests.sinks.chapters.bad_days import MortalStore, Outages, Overlaps
from tests.sinks.chapters.store import at, once
from tests.sinks.postgres.course import (
    BARE,
    PostgresStore,
    ask,
    frame_of,
    link_of,
    next_entry,
    script,
)
from tests.sinks.postgres.course import write_entry as write
from tests.waiting import until

IDS = f"SELECT id FROM {BARE} ORDER BY id"
BEFORE_COMMIT = ("sink.begun", "sink.copying", "sink.rows-written", "sink.ledger-moved")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server to be stopped and killed; each test leaves it running."""
    with running() as one:
        yield one


@pytest.fixture
def own(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """A way into a schema of the test's own on that server."""
    return with_schema(server.dsn(), re.sub(r"\W", "_", request.node.name)[-60:].lower())


class MortalPostgres(PostgresStore, MortalStore):
    points = (*BEFORE_COMMIT, "sink.commit-sent")

    def __init__(self, dsn: str, server: PostgresServer) -> None:
        super().__init__(dsn)
        self.kill, self.start = server.kill, server.start


class TestOutages(Outages):
    """kill -9 of a server, which repeats what its log has."""

    @pytest.fixture
    def mortal(self, own: str, server: PostgresServer) -> Iterator[MortalPostgres]:
        made = MortalPostgres(own, server)
        with made.opened:
            yield made


class TestOverlaps(Overlaps):
    """The predecessor has locked the heads, or is the first to write any."""


# At COMMIT


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


@contextlib.contextmanager
def opened(dsn: str, **more: float) -> Iterator[tuple[PostgresSink, Entry]]:
    with contextlib.closing(PostgresSink(dsn, BARE, **more)) as sink:  # type: ignore[arg-type]  # limits
        yield sink, next_entry(sink)


def leave_in_doubt(sink: PostgresSink, entry: Entry) -> int:
    """Have COMMIT reach a backend that stands still, lose the connection; return its process id."""
    stopped: list[int] = []
    acts = {
        "sink.ledger-moved": lambda: stopped.append(stop(sink)),
        "sink.commit-sent": lambda: cut(sink),
    }
    with at(acts), pytest.raises(OutcomeUnknownError):
        write(sink, entry)
    return stopped[0]


def test_the_answer_to_commit_is_lost(dsn: str) -> None:
    """Where the server has committed and the answer is lost, the ledger shows the batch."""
    with opened(dsn) as (sink, entry):

        def lose() -> None:
            until(lambda: ask(dsn, IDS), 20)
            cut(sink)

        with once("sink.commit-sent", lose), pytest.raises(OutcomeUnknownError):
            write(sink, entry)
        assert sink.applied(QUERY) == heads_of(entry)
    assert ask(dsn, IDS) == list(range(10))


def test_the_ledger_is_read_when_the_commit_is_over(own: str) -> None:
    """While a COMMIT of unknown outcome is still worked on, the ledger is not read too early."""
    with opened(own) as (sink, entry):
        later = threading.Timer(0.5, os.kill, (leave_in_doubt(sink, entry), signal.SIGCONT))
        later.start()
        assert sink.applied(QUERY) == heads_of(entry)
        later.join(10)
    assert ask(own, IDS) == list(range(10))


def test_a_commit_that_does_not_end_is_named(own: str) -> None:
    """A backend that never finishes its COMMIT ends in an error with its number, not in waiting."""
    with opened(own, lock_timeout=0.3) as (sink, entry):
        backend = leave_in_doubt(sink, entry)
        with pytest.raises(SinkError, match=f"backend {backend} is still committing"):
            sink.applied(QUERY)
        os.kill(backend, signal.SIGCONT)
        assert sink.applied(QUERY) in ({}, heads_of(entry))  # it was told to end, before or after


def test_a_commit_in_doubt_ends_no_other_transaction(dsn: str) -> None:
    """A backend that has gone on to another transaction, as behind a pooler, is not waited for."""
    with opened(dsn, lock_timeout=30) as (sink, entry):
        write(sink, entry)
        with psycopg.connect(dsn, autocommit=True) as stranger:
            before = link_of(sink).identity
            assert before is not None
            pid = stranger.info.backend_pid
            start = f"SELECT backend_start FROM pg_stat_activity WHERE pid = {pid}"
            sink.close()
            sink._kept._unknown_commit = before._replace(pid=pid, backend_start=ask(dsn, start)[0])
            stranger.execute("BEGIN")
            begun = time.monotonic()
            assert sink.applied(QUERY) == heads_of(entry)
            assert time.monotonic() - begun < 20
            assert stranger.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_stands_still_does_not_hang_the_query(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped server answers nothing, and the batch fails within the limits that were set."""
    monkeypatch.setattr(connection, "GRACE", 0)
    with opened(own, statement_timeout=1, lock_timeout=1) as (sink, entry):
        begun, stopped = time.monotonic(), list[int]()
        with (
            once("sink.begun", lambda: stopped.append(stop(sink))),
            pytest.raises(SinkError, match="no answer"),
        ):
            write(sink, entry)
        assert time.monotonic() - begun < 30
        os.kill(stopped[0], signal.SIGCONT)
        assert write(sink, entry).rows == 10


# Away for a while


@contextlib.contextmanager
def course(dsn: str, *acts: Callable[[], object]) -> Iterator[tuple[PostgresSink, SinkWriter]]:
    """A sink, and the steps that write into it; each wait of theirs does the next of `acts`."""
    due = list(acts)

    def sleep(seconds: float) -> None:
        if due:
            due.pop(0)()
        time.sleep(min(seconds, 0.2))

    with contextlib.closing(PostgresSink(dsn, BARE)) as sink:
        yield sink, SinkWriter(RetryLimits(timeout=120), sleep, time.monotonic)
    assert not due


def by_steps(sink: PostgresSink, steps: SinkWriter) -> int:
    """Write the next batch; return the attempts."""
    entry = next_entry(sink)
    return steps.write(sink, frame_of(entry), entry, plan_of(entry)).attempts


def halt(server: PostgresServer) -> None:
    """Stop the server as `pg_ctl stop -m fast` does."""
    server.process.send_signal(signal.SIGINT)
    server.process.wait(60)


def test_a_server_that_is_stopped(server: PostgresServer, own: str) -> None:
    """In mid-batch, and before one begins, with a kept connection and without: waited for."""
    with course(own, server.start, server.start, server.start) as (sink, steps):
        with once("sink.copying", lambda: halt(server)):
            assert by_steps(sink, steps) == 2
        halt(server)
        heads = steps.read(sink, QUERY)
        assert [head.range.until for head in heads.values()] == [10]
        sink.close()
        halt(server)
        assert steps.read(sink, QUERY) == heads
        by_steps(sink, steps)
        assert ask(own, IDS) == list(range(20))


def test_a_standby_is_neither_read_nor_written(server: PostgresServer, own: str) -> None:
    """After a failover the ledger is not taken from a standby; once it is promoted all goes on."""
    with course(own, lambda: script(server.dsn(), "SELECT pg_promote()")) as (sink, steps):
        by_steps(sink, steps)
        halt(server)
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        with pytest.raises(RetriableSinkError, match=r"is a standby.*failover"):
            sink.applied(QUERY)
        assert [head.range.until for head in steps.read(sink, QUERY).values()] == [10]
        by_steps(sink, steps)
        assert ask(own, IDS) == list(range(20))


def test_a_connection_that_only_reads_is_not_kept(dsn: str) -> None:
    """What a server says that has become read-only ends the connection: the next finds another."""
    with opened(dsn) as (sink, entry):
        with (
            once("sink.begun", lambda: link_of(sink).execute("SET TRANSACTION READ ONLY")),
            pytest.raises(RetriableSinkError, match="standby or read-only"),
        ):
            write(sink, entry)
        assert link_of(sink).closed
        assert write(sink, entry).rows == 10


def test_a_prepared_transaction_is_named(server: PostgresServer, own: str) -> None:
    """A lock that no process holds, but a transaction that was prepared: it is named."""
    script(own, "ALTER SYSTEM SET max_prepared_transactions = 3")
    server.kill()
    server.start()
    with opened(own, lock_timeout=0.3) as (sink, entry):
        write(sink, entry)
        second = next_entry(sink)
        half = ("BEGIN", "SELECT * FROM eo_ledger FOR UPDATE", "PREPARE TRANSACTION 'half'")
        script(own, *half)
        with pytest.raises(SinkLockedError, match=r"'half' of postgres.*ROLLBACK PREPARED"):
            write(sink, second)
        script(own, "ROLLBACK PREPARED 'half'")
        assert write(sink, second).rows == 10
