"""What the server or libpq says, as our errors: who must do what about it."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from eo_listener.errors import SinkBusyError, SinkError, TryAgainError

REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)
"""A row's own values are not taken: classes 22 and 23, what psycopg itself cannot send, and values
too large for a page or an index (54000).
"""

_QUOTED: Final = re.compile("[\"'\u00ab\u00bb\u201c\u201e].*[\"'\u00ab\u00bb\u201d]", re.DOTALL)
_FIXES: Final = {
    "42501": "GRANT what is missing to the role of the dsn, or use another role",
    "42P01": "Check the name, schema= and the search_path of the role",
    "57014": "Raise statement_timeout=, or write smaller batches (maxOffsetsPerTrigger)",
    "25P04": "Raise transaction_timeout of the role, or write smaller batches",
    "53100": "Free disk space on the server; the batch is written again after a restart",
    "53300": "Close other connections, or raise max_connections",
    "42P10": "CREATE UNIQUE INDEX on the columns of keys=, or make them the primary key",
    "25006": "Name the primary server in the dsn (target_session_attrs=read-write)",
}


def said(error: psycopg.Error) -> str:
    """Return what the server said, in one line, without its context (which quotes rows)."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return " ".join(text.split())


def reason(error: psycopg.Error, *, values: bool = True) -> str:
    """Return why a row was refused, for people; without `values` it may go into logs.

    What the server quotes in an error of class 22 is a value, in others a name.
    """
    text = said(error)
    if not values and isinstance(error, psycopg.DataError):
        text = _QUOTED.sub('"..."', text)
    name = error.diag.constraint_name
    return text if name is None or name in text else f"{text} ({name})"


def lost(error: psycopg.Error) -> bool:
    """Tell whether the connection is gone rather than the statement refused."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(("08", "57P"))


def left_out(label: str, wrote: int, given: int) -> SinkError:
    """Return the error for a table that took fewer rows, or more, than it was given."""
    return SinkError(
        f"{label} took {wrote} rows of {given}: nothing was written",
        cause="a trigger or a rule of the table leaves rows out, or writes others",
        fix="Drop it, leave such rows out in the transform, or write them by apply=",
    )


def translated(error: psycopg.Error, label: str, doing: str) -> SinkError:
    """Return the error to raise; nothing of the transaction was written.

    `doing` completes "while ...". Raise it from None: the context of `error` may quote rows.
    """
    problem = f"{label}: {reason(error, values=False)} (while {doing})"
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return TryAgainError(
            problem,
            cause="another transaction worked on the same rows at the same time",
            fix="The batch is repeated; if this goes on, find out who else writes to the table",
        )
    if isinstance(error, errors.LockNotAvailable):
        return SinkBusyError(problem, cause="another transaction holds a lock", fix=_BUSY)
    if lost(error):
        return SinkError(
            f"{label}: the connection was lost while {doing} ({said(error)})",
            cause="the server went down or restarted, or a successor has ended this connection",
            fix="Start the query again: it continues where the ledger stands",
        )
    return SinkError(problem, fix=_FIXES.get(error.sqlstate or ""))


_BUSY: Final = "Let it finish (pg_locks and pg_stat_activity show it), or raise lock_timeout="
