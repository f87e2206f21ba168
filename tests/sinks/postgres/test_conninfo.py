"""Ways in that are wrong are clear errors, and the dsn's secrets are nowhere to be read."""

from __future__ import annotations

import contextlib
import logging
import pickle
import socket
import time
import traceback
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import errors

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.errors import (
    _POOLED,
    lost,
    message_of,
    on_standby,
    reason,
    translated,
    unreachable,
)
from eo_listener.testing.made_up_entries import entry_of
from tests.postgres_server import PostgresServer
from tests.sinks.postgres.course import Database, link_of, script
from tests.sinks.programs import holds_in_a_fork

SECRET = "s3cret%40hid7q"  # noqa: S105  # the test looks for it
PLAIN = "s3cret@hid7q"
TORN = ("s3/", "12/s3", "12/s3@", "s3:e/")


def used(sink: PostgresSink) -> Connection:
    """Its connection, which it opens if it has none."""
    sink.applied("q")
    return link_of(sink)


def end_connections(dsn: str) -> None:
    """Have the server end those of the sinks."""
    script(
        dsn,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'eo_listener%t' AND pid <> pg_backend_pid()",
    )


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


UNREACHED = f"host=127.0.0.1 port=1 password={PLAIN}"


@pytest.mark.parametrize("is_function", [False, True])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (f"postgresql://me:{SECRET}@127.0.0.1:1/flights", RetriableSinkError),
        (f"postgresql://me:{PLAIN}@127.0.0.1:1/flights", SettingsError),
        (UNREACHED, RetriableSinkError),
        (f"{UNREACHED} sslmode=nonsense", SinkError),
        (f"host=127.0.0.1 passwort={PLAIN}", SettingsError),
        (f"postgresql://me:{SECRET}@127.0.0.1:port/x", SettingsError),
        (SECRET, SettingsError),
        # What libpq would take for a port or a database:
        *((f"postgresql://me:{torn}crethid7q@127.0.0.1:1/x", SettingsError) for torn in TORN),
    ],
)
def test_no_secret_is_shown(
    given: str, error: type[SinkError], is_function: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with a dsn, its password is in no message, repr, traceback or log."""
    caplog.set_level(logging.DEBUG, logger="eo_listener")
    sinks: list[PostgresSink] = []

    def use() -> None:
        way = Tokens(given) if is_function else given
        sinks.append(PostgresSink(way, "t", connect_timeout=1))
        sinks[0].applied("q")

    with pytest.raises(error) as failed:
        use()
    said = [(repr(one), one.label, one.key, repr(one._kept.access)) for one in sinks]
    assert type(failed.value) is error
    if given.endswith("crethid7q@127.0.0.1:1/x"):
        assert "%XX" in str(failed.value.fix)
    for text in (str(said), *traceback.format_exception(failed.value), caplog.text):
        assert "s3" not in text
        assert "hid7q" not in text
        assert "cret" not in text.replace("secret", "")


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (RuntimeError(f"token {PLAIN} refused"), RetriableSinkError, "raised RuntimeError"),
        (None, SettingsError, "returned NoneType"),
    ],
)
def test_what_a_function_raises_or_returns_is_not_shown(
    given: object, error: type[SinkError], match: str
) -> None:
    """It may have a secret too."""
    with pytest.raises(error, match=match) as failed:
        PostgresSink(Tokens(given), "t").applied("q")
    assert "s3" not in "".join(traceback.format_exception(failed.value))


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
        ("host=h dbname=a/b", {}, "h/a/b"),
        ("postgresql://h:1,h:2/d", {}, "h,h:1,2/d"),
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


@pytest.mark.parametrize(
    ("user", "database", "said"),
    [
        ("postgres", "nosuch", 'database "nosuch"'),
        ("nobody", "postgres", 'role "nobody"'),
        ("checked:wrong", "postgres", 'user "checked"'),
    ],
)
def test_a_wrong_way_in_is_named(
    postgres: PostgresServer, user: str, database: str, said: str
) -> None:
    """A database, a role or a password that is wrong is named in one line, and not waited for."""
    script(
        postgres.dsn(), "DROP ROLE IF EXISTS checked", "CREATE ROLE checked LOGIN PASSWORD 'right'"
    )
    with pytest.raises(SinkError, match=said) as failed:
        PostgresSink(postgres.dsn(user, database), "t").applied("q")
    assert type(failed.value) is SinkError
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


@pytest.mark.parametrize(
    "wrong", [{"mode": "insert"}, {"lock_timeout": 0}, {"atomicity": "row"}, {"max_connections": 0}]
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, Any]) -> None:
    """What can never work is a SettingsError when the sink is made."""
    with pytest.raises(SettingsError):
        PostgresSink("host=127.0.0.1", "t", **wrong)


def test_a_fork_has_a_connection_of_its_own(db: Database) -> None:
    """A child neither uses nor ends its parent's connection."""
    sink = db.sink()
    link = used(sink)

    def has_its_own() -> bool:
        is_its_own = used(sink) is not link
        sink.close()
        return is_its_own

    assert holds_in_a_fork(has_its_own)
    assert link.execute("SELECT 1").fetchone() == (1,)


def in_batch(sink: PostgresSink, *settings: str) -> list[str]:
    link, writer = used(sink), sink._writer("q")
    with writer.transaction(link, entry_of({}, {}, query="q")):
        found = [link.execute(f"SHOW {one}".encode()).fetchone() for one in settings]
    return [str(row[0]) for row in found if row is not None]


def test_settings_of_the_role_do_not_change_what_is_read_or_promised(db: Database) -> None:
    """Dates are read in any style, COMMIT waits for the disk, and no idleness ends a batch."""
    settings = ("DateStyle = 'SQL, DMY'", "synchronous_commit = off", "idle_session_timeout = 400")
    idle = "idle_in_transaction_session_timeout"
    altered = [f"ALTER ROLE {{role}} SET {one}" for one in (*settings, f"{idle} = 200")]
    with db.role(*altered, options="SUPERUSER") as odd:
        sink = db.sink(dsn=odd)
        link = used(sink)
        time.sleep(0.6)
        assert in_batch(sink, "synchronous_commit", idle, "statement_timeout") == [
            *("on", "0", "10min")
        ]
        assert link.execute("SELECT now()").fetchone() is not None
        assert used(sink) is link
        sink.close()


def test_a_function_gives_the_dsn_of_each_connection(db: Database) -> None:
    """It is called whenever a connection is made, which may have been ended, and never before."""
    tokens = Tokens(db.dsn)
    sink = db.sink(dsn=tokens)
    assert tokens.called == 0
    used(sink)
    before = tokens.called
    used(sink)
    assert tokens.called == before
    end_connections(db.dsn)
    assert sink.applied("q") == {}
    assert tokens.called == before + 1
    with contextlib.closing(pickle.loads(pickle.dumps(sink))) as copy:  # noqa: S301  # made here
        used(copy)
        assert copy._kept.access.dsn.called == tokens.called + 1


def test_a_pooler_that_lends_a_backend_for_each_transaction(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """It is noticed; nothing prepared is relied upon, and no connection is ended by its name."""
    sink, seen = db.sink(), list[bool]()
    link = used(sink)
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
    assert db.ask("SELECT count(*) FROM pg_prepared_statements") == [0]


REACH = 'connection to server at "h", port 5432 failed: '
TRANSIENT = """\
Connection refused
FATAL:  the database system is starting up
FATAL:  the database system is shutting down
FATAL:  sorry, too many clients already
FATAL:  too many connections for role "me"
FATAL:  das Datenbanksystem startet
session is read-only
timeout expired"""
STAYS = """\
FATAL:  password authentication failed for user "me"
FATAL:  database "flights" does not exist
FATAL:  role "me" is not permitted to log in
FATAL:  no pg_hba.conf entry for host "h", user "me", database "d", no encryption
fe_sendauth: no password supplied
server does not support SSL, but SSL was required
SSL error: certificate verify failed
invalid sslmode value: "nonsense"
FATAL:  permission denied for database "d"
FATAL:  unsupported startup parameter in options: "x\""""
ELSE = (
    "failed to resolve host 'db.example': [Errno -2] Name or service not known",
    "server closed the connection unexpectedly",
    "no answer for 620 seconds",
)


@pytest.mark.parametrize("said", [*(REACH + one for one in TRANSIENT.splitlines()), *ELSE])
def test_what_may_pass_is_tried_again(said: str) -> None:
    """A server that is down, starting, full or not yet found may answer in a moment."""
    error = unreachable("the table", said)
    assert isinstance(error, RetriableSinkError)
    assert said in str(error)
    assert error.cause
    assert error.fix


@pytest.mark.parametrize("said", STAYS.splitlines())
def test_what_waiting_does_not_cure_is_not_tried_again(said: str) -> None:
    """A wrong dsn stays wrong: the query is told at once."""
    error = unreachable("the table", REACH + said)
    assert type(error) is SinkError
    assert "psql" in str(error)


PASSES = ("40001", "40P01", "57P01", "57P02", "57P03", "08006", "08003", "25006")


@pytest.mark.parametrize(
    ("state", "kind", "fix"),
    [
        # A conflict, a connection that ended and a server that only reads: worth another try.
        *((state, RetriableSinkError, "") for state in PASSES),
        # What the user must change goes up at once.
        ("42501", SinkError, "GRANT"),
        ("42P01", SinkError, "search_path"),
        ("57014", SinkError, "statement_timeout="),
        ("53100", SinkError, "disk space"),
        ("53300", SinkError, "max_connections"),
        ("42P10", SinkError, "CREATE UNIQUE INDEX"),
        ("25P04", SinkError, "transaction_timeout"),
        ("23505", SinkError, ""),
        ("0A000", SinkError, ""),
    ],
)
def test_what_a_state_means(state: str, kind: type[SinkError], fix: str) -> None:
    """Whether another try helps, and what to do."""
    error = translated(errors.lookup(state)("said so"), "the table", "writing")
    assert type(error) is kind
    assert fix in str(error)
    if kind is SinkError:
        assert "said so (while writing)" in error.problem
    else:
        assert error.cause
        assert error.fix


def test_statement_mode_of_a_pooler_is_refused() -> None:
    """PgBouncer's answer to BEGIN looks like a lost connection, and no waiting helps."""
    said = errors.ProtocolViolation(f"transaction blocks {_POOLED}")
    error = translated(said, "the table", "writing")
    assert type(error) is SinkError
    assert "pool_mode = session" in str(error)


def test_a_lost_connection_quotes_no_row() -> None:
    """The server's last message comes with its context, in the language of the server."""
    text = (
        "consuming input failed: terminating connection due to administrator command\n"
        'KONTEXT:  COPY c, Zeile 6: "5\tsecret"\nserver closed the connection unexpectedly'
    )
    error = translated(psycopg.OperationalError(text), "the table", "writing")
    assert type(error) is RetriableSinkError
    assert "administrator" in str(error)
    assert "secret" not in str(error)
    hosts = "".join(f'connection to server at "{host}" failed: x\n\thint\n' for host in "ab")
    assert message_of(psycopg.OperationalError(hosts)).count("connection to server") == 2


def test_what_counts_as_lost() -> None:
    """Without a SQLSTATE only what the connection itself reports; a refusal is none."""
    assert lost(psycopg.OperationalError("the connection is closed"))
    assert lost(psycopg.InterfaceError("connection already closed"))
    assert not lost(psycopg.ProgrammingError("can't adapt"))
    assert not lost(errors.QueryCanceled("timeout"))
    assert lost(errors.AdminShutdown("terminating connection"))
    assert lost(errors.lookup("08006")("gone"))
    assert not on_standby(errors.FeatureNotSupported("no"))
    assert on_standby(errors.ReadOnlySqlTransaction("cannot execute UPDATE"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.InvalidTextRepresentation('invalid input syntax for type integer: "se"cret"'),
            'invalid input syntax for type integer: "..."',
        ),
        (
            errors.CharacterNotInRepertoire('invalid byte sequence for encoding "UTF8": 0xff 0x5e'),
            'invalid byte sequence for encoding "...": "..."',
        ),
        (errors.NumericValueOutOfRange("numeric field overflow"), "numeric field overflow"),
        (
            errors.UniqueViolation('duplicate key value violates unique constraint "t_pkey"'),
            'duplicate key value violates unique constraint "t_pkey"',
        ),
        (errors.RaiseException("secret of Mr. Smith is wrong"), "SQLSTATE P0001"),
        (errors.ExternalRoutineException("secret"), "SQLSTATE 38000"),
    ],
)
def test_a_reason_for_logs_holds_no_value(error: psycopg.Error, text: str) -> None:
    """What the server quotes of a row, and what a user's function says, stays out of errors."""
    redacted = reason(error, values=False)
    assert redacted.endswith(text)
    assert "secret" not in redacted
    assert reason(error) == str(error)
    assert redacted in str(translated(error, "t", "writing"))


MODE = SimpleNamespace(  # as much of a server's report as is read
    message_primary="said so", source_function="check_transaction_read_only", constraint_name=None
)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (errors.FeatureNotSupported, RetriableSinkError),  # of a standby, to BEGIN READ WRITE
        (errors.ActiveSqlTransaction, SinkError),  # of a primary, to SET after the first query
    ],
)
def test_a_standby_is_distinguished_from_a_primary_that_refuses_a_mode(
    kind: type[psycopg.Error], answer: type[SinkError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both answers come from one part of the server."""
    monkeypatch.setattr(kind, "diag", MODE)
    assert type(translated(kind(), "t", "beginning")) is answer
