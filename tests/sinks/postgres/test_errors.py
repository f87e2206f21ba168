"""What the server and libpq say, as our errors: without a server."""

from __future__ import annotations

from types import SimpleNamespace

import psycopg
import pytest
from psycopg import errors

from eo_listener.errors import RetriableSinkError, SinkError
from eo_listener.sinks.postgres.errors import (
    _POOLED,
    lost,
    message_of,
    on_standby,
    reason,
    translated,
    unreachable,
)

REACH = 'connection to server at "h", port 5432 failed: '
TRANSIENT = """\
Connection refused
FATAL:  the database system is starting up
FATAL:  the database system is shutting down
FATAL:  sorry, too many clients already
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


@pytest.mark.parametrize(
    "state", ["40001", "40P01", "57P01", "57P02", "57P03", "08006", "08003", "25006"]
)
def test_states_that_pass(state: str) -> None:
    """A conflict, a connection that ended and a server that only reads are worth another try."""
    error = translated(errors.lookup(state)("said so"), "the table", "writing")
    assert type(error) is RetriableSinkError
    assert error.cause
    assert error.fix


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        ("42501", "GRANT"),
        ("42P01", "search_path"),
        ("57014", "statement_timeout="),
        ("53100", "disk space"),
        ("53300", "max_connections"),
        ("42P10", "CREATE UNIQUE INDEX"),
        ("25P04", "transaction_timeout"),
        ("23505", ""),
        ("0A000", ""),
    ],
)
def test_states_that_stay(state: str, fix: str) -> None:
    """What the user must change goes up at once, with what to do."""
    error = translated(errors.lookup(state)("said so"), "the table", "writing")
    assert type(error) is SinkError
    assert "said so (while writing)" in error.problem
    assert fix in str(error)


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
