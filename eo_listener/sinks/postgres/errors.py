"""Translates errors of the server and of libpq into our errors, with cause and fix."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from eo_listener.errors import RetriableSinkError, SinkError, SinkLockedError

REFUSED: Final = (
    psycopg.DataError,
    psycopg.IntegrityError,
    errors.ProgramLimitExceeded,
    errors.RaiseException,
    errors.AssertFailure,
    errors.NoDataFound,
    errors.TooManyRows,
)
"""The errors that mean a row was refused for its values.

They are those of classes 22 and 23, those for values that psycopg cannot send or that are too large
for a page or an index (54000), and those that a trigger raises (P0001 to P0004).
"""

_VALUES: Final = re.compile(
    "[\"'\u00ab\u00bb\u201c\u201e].*[\"'\u00ab\u00bb\u201d]|0x[0-9a-f]{2}( 0x[0-9a-f]{2})*",
    re.DOTALL,
)
"""Parts of an error text of class 22 that may be a value: quoted text, and bytes."""

_OF_HOSTS: Final = "connection to server"  # libpq writes a line for each host that it has tried
_RAISED: Final = "exec_stmt_raise"  # the server's own function that runs RAISE of PL/pgSQL
_POOLED: Final = "not allowed in statement pooling mode"
_CONFLICT: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_WRONG: Final = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied",
    "pg_hba.conf rejects",
    "invalid ",
    "unsupported",
    "does not support",
    "certificate",
    "private key",
    "no such user",
    "no such database",
)
"""Parts of libpq's texts for failed connections that waiting does not cure; they lack a SQLSTATE.

If a server reports such an error in another language, the error counts as temporary.
"""

_ROOM: Final = "Close other connections, or raise max_connections or the role's CONNECTION LIMIT"
_FULL: Final = ("too many", "connection slots")
_FIXES: Final = {
    "42501": "GRANT the missing privilege to the role of the dsn, or use another role",
    "42P01": "Check the name, schema= and the search_path of the role",
    "57014": "Raise statement_timeout=, or write smaller batches (maxOffsetsPerTrigger)",
    "25P04": "Raise transaction_timeout of the role, or write smaller batches",
    "53100": "Free disk space on the server; the batch is written again after a restart",
    "53300": _ROOM,
    "55000": "If a publication of the table needs it: ALTER TABLE ... REPLICA IDENTITY FULL",
    "42P10": "CREATE UNIQUE INDEX on the columns of keys=, or make them the primary key",
}


def message_of(error: psycopg.Error) -> str:
    """Return the server's message in one line, without its context, which quotes rows."""
    text = error.diag.message_primary
    if text is None:
        # libpq's own error contains the server's last message, which has a CONTEXT.
        first, *lines = str(error).strip().splitlines() or [type(error).__name__]
        text = " ".join((first, *(line for line in lines if line.startswith(_OF_HOSTS))))
    return " ".join(text.split())


def reason(error: psycopg.Error, *, values: bool = True) -> str:
    """Return why a row was refused, for display; if `values` is False, the text may be logged.

    In an error of class 22, the text that the server quotes is a value; in other errors it is a
    name. An error that a user's function in the database raises may contain any text.
    """
    text = message_of(error)
    if not values and _is_users(error):
        text = f"a trigger or function of the database raised SQLSTATE {error.sqlstate}"
    elif not values and isinstance(error, psycopg.DataError):
        text = _VALUES.sub('"..."', text)
    name = error.diag.constraint_name
    return text if name is None or name in text else f"{text} ({name})"


def _is_users(error: psycopg.Error) -> bool:
    raised = (error.sqlstate or "").startswith(("P0", "38", "39"))
    return raised or error.diag.source_function == _RAISED


def lost(error: psycopg.Error) -> bool:
    """Return True if `error` means a lost connection, False if the server refused the statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(("08", "57P"))


def on_standby(error: psycopg.Error) -> bool:
    """Return True if `error` shows that the server is, or has become, read-only."""
    read_only = errors.ReadOnlySqlTransaction
    return isinstance(error, read_only) or (
        # A standby refuses BEGIN READ WRITE with this error; no other statement of ours gets 0A000
        # there.
        isinstance(error, errors.FeatureNotSupported)
        and error.diag.source_function == "check_transaction_read_only"
    )


def left_out(label: str, wrote: int, sent: int) -> SinkError:
    """Return the error for a table that took fewer or more rows than the sink sent."""
    return SinkError(
        f"{label} accepted {wrote} of {sent} rows, so nothing was written",
        cause="a trigger or rule of the table skips rows or writes other rows",
        fix="Drop the trigger or rule, filter such rows in the transform, or write them with "
        "apply=",
    )


def translated(error: psycopg.Error, label: str, doing: str) -> SinkError:
    """Return the error to raise for `error`; nothing of the transaction was written.

    `doing` completes the phrase "while ...". Raise the result with `from None`: the context of
    `error` may quote rows.
    """
    problem = f"{label}: {reason(error, values=False)} (while {doing})"
    if isinstance(error, _CONFLICT):
        return RetriableSinkError(
            problem,
            cause="another transaction changed the same rows at the same time",
            fix="Find the other writer of the table, or raise retry_timeout= of exactly_once",
        )
    if isinstance(error, errors.LockNotAvailable):
        return SinkLockedError(problem, cause="another transaction holds a lock", fix=_BUSY)
    if on_standby(error):
        return standby(label)
    if _POOLED in message_of(error):
        return SinkError(
            problem,
            cause="PgBouncer runs in statement mode, which has no transactions",
            fix="Set pool_mode = session for this database and user, or connect to the "
            "server directly",
        )
    if lost(error):
        return RetriableSinkError(
            f"{label}: the connection was lost while {doing} ({message_of(error)})",
            cause="the server went down or restarted, or a newer driver ended this connection",
            fix="Restart the query when the server is up: it continues from the ledger",
        )
    return SinkError(problem, fix=_FIXES.get(error.sqlstate or ""))


def unreachable(label: str, text: str) -> SinkError:
    """Return the error for a failed attempt to connect; `text` must hold no secret."""
    problem = f"cannot connect to {label}: {text}"
    if any(part in text for part in _WRONG):
        return SinkError(
            problem,
            cause="the server, database, user or password in the dsn is wrong",
            fix="Correct the dsn. To test it: psql \"DSN\" -c 'SELECT 1'",
        )
    if any(part in text for part in _FULL):
        return RetriableSinkError(
            problem, cause="the server or the role has no free connection", fix=_ROOM
        )
    return RetriableSinkError(
        problem,
        cause="the server is down, starting up or shutting down, or the dsn names the wrong server",
        fix="Test the connection: psql \"DSN\" -c 'SELECT 1'. After a restart the query continues "
        "from the ledger",
    )


def bad_host(label: str) -> SinkError:
    """Return the error for an invalid host name."""
    return SinkError(
        f"cannot connect to {label}: its host is not a valid host name",
        cause="a part between two dots is empty or longer than 63 characters",
        fix="Correct the host in the dsn",
    )


def standby(label: str) -> RetriableSinkError:
    """Return the error for a server that is a standby or read-only."""
    return RetriableSinkError(
        f"{label}: the server in the dsn is a standby or read-only",
        cause="a failover is still in progress, or the dsn names a standby",
        fix="Name the primary in the dsn, or all servers with target_session_attrs=read-write",
    )


_BUSY: Final = "Let it finish (pg_locks and pg_stat_activity show it), or raise lock_timeout="
