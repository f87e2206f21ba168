"""Translates SQLite's errors into our errors, with cause and fix.

The module recognises errors by their texts, since Python 3.10 gives no error codes.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import psutil

from eo_listener.errors import OutcomeUnknownError, SinkError, SinkLockedError
from eo_listener.sinks.dead_letters import RefusalReason

_SUFFIXES = ("", "-wal", "-shm", "-journal")
_SHOWN = 120


class Holder(NamedTuple):
    """A process that has the database open."""

    pid: int
    stopped: bool
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}{', stopped' if self.stopped else ''})"


def holders(path: Path) -> list[Holder]:
    """Return the other processes of this machine that have the file open, stopped ones first.

    Processes of other users may be missing: their open files are not visible. The result has each
    command line only up to its first argument, since later arguments may hold secrets.
    """
    names = {f"{path.resolve()}{suffix}" for suffix in _SUFFIXES}
    processes = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if names.isdisjoint(file.path for file in process.open_files()):
                continue
            stopped = process.status() == psutil.STATUS_STOPPED
            command = " ".join(process.cmdline()[:2]) or process.name()
        except psutil.Error:  # it has ended, or belongs to another user
            continue
        processes.append(Holder(process.pid, stopped, command[:_SHOWN]))
    return sorted(processes, key=lambda holder: (not holder.stopped, holder.pid))


_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    "database or disk is full": ("its disk is full", "Free disk space, then restart the query"),
    "readonly database": (
        "the user of the query may not write to the file or its folder",
        "Allow the user that runs the query to write to both",
    ),
    "open database file": (
        (
            "the user of the query may not write to the folder: SQLite keeps files next to the "
            "database"
        ),
        "Allow the user that runs the query to write to the folder",
    ),
    "file is not a database": (
        "the file is not an SQLite database, or is encrypted",
        "Name another path, or move that file away",
    ),
    "database disk image is malformed": (
        "the file is damaged: it was copied while being written, or the disk is faulty",
        'Restore it from a backup, or save its readable part with sqlite3 FILE ".recover"',
    ),
    "not authorized": (
        "apply= must neither end the transaction nor write to the ledger",
        "Remove COMMIT, ROLLBACK, BEGIN and writes to the ledger's tables from it",
    ),
    "foreign key mismatch": (
        "a foreign key names columns of its parent that are neither its primary key nor unique",
        "CREATE UNIQUE INDEX on those columns of the parent, or pass foreign_keys=False",
    ),
    "disk i/o error": (
        "the disk failed or is missing",
        "Check for disk errors in the system's log",
    ),
}
REFUSED: Final = (sqlite3.IntegrityError, sqlite3.DataError)
"""Errors by which SQLite refuses a row for its values."""

_CONSTRAINT: Final = re.compile(
    r"(UNIQUE|NOT NULL|CHECK|FOREIGN KEY|PRIMARY KEY) constraint failed.*|datatype mismatch|"
    r"cannot store \w+ value in \w+ column .*",
    re.DOTALL,
)
"""SQLite's own texts about a refused row: they hold names, never a value."""

_TRIGGER: Final = "SQLITE_CONSTRAINT_TRIGGER"

_BUSY: Final = ("database is locked", "database table is locked", "locking protocol")


Failure: TypeAlias = "sqlite3.Error | sqlite3.Warning"


def is_busy(error: Failure) -> bool:
    """Return True if another connection holds a lock."""
    return any(part in str(error) for part in _BUSY)


def refusal_reason(error: sqlite3.Error) -> RefusalReason:
    """Return why a row was refused; the text of a trigger's RAISE may hold values of the row."""
    text = str(error)
    by_trigger = getattr(error, "sqlite_errorname", None) == _TRIGGER  # from Python 3.11 on
    if by_trigger or _CONSTRAINT.fullmatch(text) is None:
        return RefusalReason(text, "a trigger of the database raised an error")
    return RefusalReason(text, text)


def check_open(connection: sqlite3.Connection, error: sqlite3.Error) -> None:
    """Raise SinkError if a refused row has ended the transaction.

    ON CONFLICT ROLLBACK ends it, and so does the ROLLBACK of a trigger.
    """
    if not connection.in_transaction:
        raise SinkError(
            f"the database ended the transaction itself: {refusal_reason(error).redacted}",
            fix="Remove ROLLBACK from the database's constraints and triggers: ABORT is enough",
        ) from None


_SAME_USER: Final = (
    "Run the command as the user that runs the query, or grant this user the permission"
)
_UNREADABLE: Final[Mapping[str, tuple[str, str]]] = {
    "open database file": (
        (
            "this user may not read the file, or may not write to its folder, in which SQLite "
            "keeps the log"
        ),
        _SAME_USER,
    ),
    "readonly database": (
        "this user may not write to the log that SQLite keeps next to the file",
        _SAME_USER,
    ),
    "file is not a database": (
        "the file is not an SQLite database, or is encrypted",
        "Name the file that was passed to SqliteSink",
    ),
}
"""Causes and fixes as in `_KNOWN`, for a process that only reads."""


@contextmanager
def translated(path: Path, *, waited: float, reads: bool = False) -> Iterator[None]:
    """Raise the SinkError that `explain` returns for an error of SQLite in the block."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise explain(error, path, waited=waited, reads=reads) from error


def explain(error: Failure, path: Path, *, waited: float, reads: bool = False) -> SinkError:
    """Return the error to raise for SQLite's `error`; nothing was written.

    `reads` is True if the process only reads the ledger in the file.
    """
    if is_busy(error):
        return lock_error(path, waited)
    explanations = {**_KNOWN, **_UNREADABLE} if reads else _KNOWN
    reason: sqlite3.Error | sqlite3.Warning | str = error
    cause = fix = None
    if isinstance(error, sqlite3.IntegrityError):
        reason = refusal_reason(error).redacted  # the text of a trigger may hold a row's values
    else:
        parts = (part for part in explanations if part in str(error).lower())
        cause, fix = next((explanations[part] for part in parts), (None, None))
    if reads or cause is not None:
        verb = "read" if reads else "use"
        return SinkError(f"cannot {verb} {path}: {reason}", cause=cause, fix=fix)
    return SinkError(
        f"{path} did not accept the batch: {reason}", cause="nothing of it was written"
    )


def explain_commit(
    error: sqlite3.Error, path: Path, *, rolled_back: bool, waited: float
) -> SinkError:
    """Return the error to raise for a failed COMMIT.

    SQLite notices a full disk before it has written the last page of the transaction, and a lock
    before it has written the first page. Any other failure may have come later, during the sync.
    Then SQLite's recovery decides whether the batch was written.
    """
    if rolled_back and isinstance(error, sqlite3.IntegrityError):
        return SinkError(
            f"{path} did not accept the batch: {refusal_reason(error).redacted} at COMMIT",
            cause="a deferred foreign key (DEFERRABLE INITIALLY DEFERRED) is violated, and "
            "SQLite then does not name the row; nothing of the batch was written",
            fix="(1) Insert the missing parent rows and restart the query, (2) declare the key "
            "without DEFERRABLE, so that dead_letters= takes such rows, or (3) pass "
            "foreign_keys=False",
        )
    if rolled_back and (is_busy(error) or "is full" in str(error)):
        return explain(error, path, waited=waited)
    return OutcomeUnknownError(
        f"{path}: COMMIT failed, so the batch may or may not have been written: {error}",
        cause="the disk failed while the transaction was being made durable",
        fix="Check for disk errors in the system's log, then restart the query: the ledger "
        "in the file shows if the batch was written",
    )


def lock_error(path: Path, waited: float) -> SinkLockedError:
    """Return the error for a locked file.

    If other processes have the file open, the error names them, and shows the command that ends one
    of them. If no such process is visible, the error shows the command that finds it.
    """
    processes = holders(path)
    if not processes:
        return SinkLockedError(
            f"{path} was locked for {waited:g} s",
            cause="this process holds the lock through another connection, or a process of "
            "another user does",
            fix=f"Find it (lsof {path}), or wait longer (busy_timeout=)",
        )
    first = processes[0]
    if first.stopped:
        return SinkLockedError(
            f"{path} was locked for {waited:g} s by {first}",
            cause="it was stopped (SIGSTOP) in a transaction, which ends only with the process",
            fix=f"Run kill -9 {first.pid}",
        )
    return SinkLockedError(
        f"{path} was locked for {waited:g} s; open in {', '.join(map(str, processes))}",
        cause="SQLite has one writer at a time, and the current writer takes longer",
        fix=f"Let it finish, wait longer (busy_timeout=), or run kill {first.pid}",
    )
