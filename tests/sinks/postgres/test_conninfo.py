"""Ways in that are wrong are clear errors, and the dsn's secrets are nowhere to be read."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from copy import copy as shallow_copy

import pytest

from eo_listener.model.errors import EoListenerError, RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.postgres import PostgresSink, connection
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.testing.made_up_entries import entry_of
from tests.postgres_server import PostgresServer
from tests.sinks.postgres.course import another_role, ask, script

Open = Callable[..., PostgresSink]
SECRET = "s3cret%40word"  # noqa: S105  # the test looks for it
PLAIN = "s3cret@word"


@pytest.fixture
def opened(dsn: str) -> Iterator[Open]:
    """Opens sinks on the table t."""
    with contextlib.ExitStack() as stack:
        yield lambda way=dsn: stack.enter_context(contextlib.closing(PostgresSink(way, "t")))


def link_of(sink: PostgresSink) -> Connection:
    """Its connection, which it opens if it has none."""
    sink.applied("q")
    assert sink._kept.link is not None
    return sink._kept.link


def end_connections(dsn: str) -> None:
    """Have the server end those of the sinks."""
    script(
        dsn,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'eo_listener%t' AND pid <> pg_backend_pid()",
    )


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/flights",
        f"postgresql://me:{PLAIN}@127.0.0.1:1/flights",
        f"host=127.0.0.1 port=1 password={SECRET}",
        f"host=127.0.0.1 passwort={SECRET}",
        f"postgresql://me:{SECRET}@127.0.0.1:port/x",
        f"{SECRET}",
        f"host=127.0.0.1 port=1 password={SECRET} sslmode=nonsense",
    ],
)
def test_no_secret_is_shown(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with a dsn, its password is in no message, repr, traceback or log."""
    caplog.set_level(logging.DEBUG, logger="eo_listener")
    said = []
    try:
        sink = PostgresSink(dsn, "t", connect_timeout=1)
        said += [repr(sink), str(sink), sink.label, sink.key, repr(sink._kept.access)]
        sink.applied("q")
    except EoListenerError:
        said.append(traceback.format_exc())
    else:
        pytest.fail("nobody should have answered")
    said.append(caplog.text)
    for text in said:
        assert "s3cret" not in text
        assert "word" not in text.replace("password", "")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:s3/cretword@127.0.0.1:1/flights",
        "postgresql://me:12/s3cretword@127.0.0.1:1/flights",
        "postgresql://me:12/s3@cretword@127.0.0.1:1/flights",
        "postgresql://me:s3:e/cretword@127.0.0.1:1/flights",
    ],
)
def test_a_password_that_tears_the_uri_is_refused(dsn: str) -> None:
    """A password that libpq would take for a port or a database is refused, and not told."""
    with pytest.raises(SettingsError, match="%XX") as refused:
        PostgresSink(dsn, "t")
    assert "s3" not in str(refused.value)
    assert "word" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    ("dsn", "environment", "place"),
    [
        ("host=h dbname=d", {}, "h/d"),
        ("postgresql://h:5432/d", {"PGHOST": "other", "PGPORT": "1"}, "h/d"),
        ("dbname=d", {}, "localhost/d"),
        ("dbname=d", {"PGHOST": "h", "PGPORT": "6432"}, "h:6432/d"),
        ("", {"PGHOST": "h", "PGDATABASE": "d"}, "h/d"),
        ("host=/run/postgresql dbname=d", {}, "/run/postgresql/d"),
        ("service=one", {"PGHOST": "h"}, "service one"),
        ("service=two dbname=d", {"PGHOST": "h"}, "service two/d"),
        ("", {"PGSERVICE": "one"}, "service one"),
    ],
)
def test_a_place_is_where_libpq_connects(
    dsn: str, environment: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place has one name, and what the environment or a service adds is in it."""
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert PostgresSink(dsn, "t").label == f"PostgreSQL table t at {place}"


def test_a_database_may_have_any_name() -> None:
    """A database with a slash is fine where the dsn is no URI; several ports are fine in one."""
    assert "h/a/b" in PostgresSink("host=h dbname=a/b", "t").label
    assert "h:1,2/d" in PostgresSink("postgresql://h:1,h:2/d", "t").label.replace("h,h", "h")


@pytest.mark.parametrize(
    ("user", "database", "said"),
    [
        ("postgres", "nosuch", 'database "nosuch" does not exist'),
        ("nobody", "postgres", 'role "nobody" does not exist'),
        ("checked:wrong", "postgres", 'password authentication failed for user "checked"'),
    ],
)
def test_a_wrong_way_in_is_named(
    postgres: PostgresServer, user: str, database: str, said: str
) -> None:
    """A missing database, an unknown role and a wrong password each say so, in one line."""
    script(
        postgres.dsn(),
        "DROP ROLE IF EXISTS checked",
        "CREATE ROLE checked LOGIN PASSWORD 'right'",
    )
    with pytest.raises(SinkError, match=said) as failed:
        PostgresSink(postgres.dsn(user, database), "t").applied("q")
    assert "\n" not in str(failed.value)
    assert failed.value.__cause__ is None
    script(postgres.dsn(), "DROP ROLE checked")


def test_a_server_that_never_answers(postgres: PostgresServer) -> None:
    """An address that takes the connection and says nothing is given up after connect_timeout."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(SinkError, match="timeout"):
            PostgresSink(f"host=127.0.0.1 port={port}", "t", connect_timeout=2).applied("q")


def test_a_server_that_falls_silent_behind_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lets us in and answers nothing more, as a paused pooler, is given up too."""
    monkeypatch.setattr(connection, "GRACE", 0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def let_in() -> None:
            with server.accept()[0] as client:
                client.recv(1 << 16)
                client.sendall(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")  # welcome; ready
                while client.recv(1 << 16):
                    pass

        porter = threading.Thread(target=let_in)
        porter.start()
        dsn = f"host=127.0.0.1 port={server.getsockname()[1]} sslmode=disable gssencmode=disable"
        sink = PostgresSink(dsn, "t", statement_timeout=0.2, lock_timeout=0.2)
        with pytest.raises(SinkError, match="no answer"):
            sink.applied("q")
        porter.join(5)
        assert not porter.is_alive()


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "insert"},
        {"mode": "upsert"},
        {"keys": "id"},
        {"write_method": "executors"},
        {"lock_timeout": 0},
        {"write_method": "staging", "atomicity": "partition"},
        {"write_method": "driver", "atomicity": "partition"},
        {"atomicity": "row"},
        {"executor_rows": -1},
        {"max_connections": 0},
        {"dead_letters": "t"},
    ],
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, object]) -> None:
    """What can never work is a SettingsError when the sink is made."""
    with pytest.raises(SettingsError):
        PostgresSink("host=127.0.0.1", "t", **wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_a_connection_that_was_closed_is_opened_again(dsn: str, opened: Open) -> None:
    """A server or firewall that ends idle connections is no reason to fail the next batch."""
    sink = opened()
    link_of(sink)
    end_connections(dsn)
    assert sink.applied("q") == {}


def test_a_sink_travels_without_its_connection(dsn: str, opened: Open) -> None:
    """A sink that was used can be pickled and copied; the copy opens its own connection."""
    sink = opened()
    link = link_of(sink)
    with contextlib.closing(pickle.loads(pickle.dumps(sink))) as copy:  # noqa: S301  # made here
        assert link_of(copy) is not link
    shallow_copy(sink).close()
    assert not link.closed
    assert ask(dsn, "SELECT count(*) FROM eo_ledger") == [0]


def test_a_fork_has_a_connection_of_its_own(opened: Open) -> None:
    """A child neither uses nor ends its parent's connection."""
    sink = opened()
    link = link_of(sink)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if link_of(sink) is not link else 2
            sink.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert link.execute("SELECT 1").fetchone() == (1,)


def in_batch(sink: PostgresSink, *settings: str) -> list[str]:
    """What the server's settings are within a transaction of a batch."""
    link, writer = link_of(sink), sink._writer("q")
    with writer.transaction(link, entry_of({}, {}, query="q")):
        found = [link.execute(f"SHOW {one}".encode()).fetchone() for one in settings]
    return [str(row[0]) for row in found if row is not None]


def test_time_limits_of_the_role_do_not_end_a_batch(dsn: str, opened: Open) -> None:
    """An idle_in_transaction limit of the role is no limit for Spark's work in a batch."""
    sink = opened(f"{dsn}%20-cidle_in_transaction_session_timeout%3D200")
    names = ("idle_in_transaction_session_timeout", "statement_timeout")
    assert in_batch(sink, *names) == ["0", "10min"]


def test_settings_of_the_role_do_not_change_what_is_read_or_promised(
    dsn: str, opened: Open
) -> None:
    """Another style of dates is no matter, COMMIT waits for the disk, and an idle link stays."""
    settings = ("DateStyle = 'SQL, DMY'", "synchronous_commit = off", "idle_session_timeout = 100")
    altered = [f"ALTER ROLE {{role}} SET {one}" for one in settings]
    with another_role(dsn, *altered, options="SUPERUSER") as odd:
        sink = opened(odd)
        link = link_of(sink)
        time.sleep(0.3)
        assert in_batch(sink, "synchronous_commit") == ["on"]
        assert link.execute("SELECT now()").fetchone() is not None
        assert link_of(sink) is link
        sink.close()


class Tokens:
    """A function that gives a dsn with a token, as those of clouds and vaults are written."""

    def __init__(self, *dsns: object) -> None:
        self.dsns = list(dsns)
        self.called = 0

    def __call__(self) -> str:
        self.called += 1
        given = self.dsns.pop(0) if len(self.dsns) > 1 else self.dsns[0]
        if isinstance(given, Exception):
            raise given
        return given  # type: ignore[return-value]  # some are wrong on purpose


def test_a_function_gives_the_dsn_of_each_connection(dsn: str, opened: Open) -> None:
    """It is called whenever a connection is made, and never before: a token may have expired."""
    tokens = Tokens(dsn)
    sink = opened(tokens)
    assert tokens.called == 0
    link_of(sink)
    before = tokens.called
    link_of(sink)
    assert tokens.called == before
    end_connections(dsn)
    assert sink.applied("q") == {}
    assert tokens.called == before + 1
    with contextlib.closing(pickle.loads(pickle.dumps(sink))) as copy:  # noqa: S301  # made here
        link_of(copy)
        assert copy._kept.access.dsn.called == tokens.called + 1


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (RuntimeError(f"token {PLAIN} refused"), RetriableSinkError, "has raised RuntimeError"),
        (None, SettingsError, "returned NoneType"),
        (f"host=127.0.0.1 passwort={PLAIN}", SettingsError, "not a connection string"),
        ("postgresql://me:s3/cretword@127.0.0.1:1/flights", SettingsError, "%XX"),
        (f"host=127.0.0.1 port=1 password={PLAIN}", RetriableSinkError, "cannot be reached"),
    ],
)
def test_no_secret_of_a_function_is_reported(
    given: object, error: type[EoListenerError], match: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a function raises or returns, its secret is in no message, repr or traceback."""
    caplog.set_level(logging.DEBUG, logger="eo_listener")
    sink = PostgresSink(Tokens(given), "t", connect_timeout=1)
    with pytest.raises(error, match=match) as failed:
        sink.applied("q")
    said = ["".join(traceback.format_exception(failed.value)), repr(sink), sink.label]
    for text in (*said, sink.key, repr(sink._kept.access), caplog.text):
        assert "s3" not in text
        assert "cret" not in text.replace("secret", "")


def test_a_pooler_that_lends_a_backend_for_each_transaction(
    dsn: str, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It is noticed when another backend serves a transaction; nothing prepared is relied upon,
    and nobody's connection is ended by its name any more.
    """
    sink, seen = opened(), list[bool]()
    link = link_of(sink)
    assert link.prepare_threshold is None
    for pooled in (False, True, True):
        if pooled:
            assert link.identity is not None
            link.identity = link.identity._replace(pid=1)  # as a pooler's next transaction shows it
        with sink._writer("q").transaction(link, entry_of({}, {}, query="q")):
            seen.append(link.shared)
            assert link.backend == link.info.backend_pid
    assert seen == [False, True, True]
    assert caplog.text.count("transaction mode") == 1
    assert ask(dsn, "SELECT count(*) FROM pg_prepared_statements") == [0]
