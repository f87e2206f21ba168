"""Runs the user's own SQL in a batch's transaction, and keeps it from ending the transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from eo_listener.errors import SettingsError, SinkError
from eo_listener.sinks.postgres.connection import Row
from eo_listener.sinks.postgres.errors import reason
from eo_listener.sinks.target import Target

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry
    from eo_listener.sinks.postgres.connection import Connection

_ENDS: Final = ("COMMIT", "END", "ROLLBACK", "ABORT", "BEGIN", "START", "PREPARE")
_SILENT: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|e'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$',
    re.DOTALL | re.IGNORECASE,
)
"""Comments, and texts and names in quotes, inside which no statement begins."""

_KEPT: Final = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold")


def ending(text: str) -> str | None:
    """Return the first word of `text` that begins or ends a transaction, or None if none does."""
    plain = _SILENT.sub(lambda match: " " if match[0][0] in "-/" else "''", text)
    for statement in plain.split(";"):
        words = statement.upper().split()
        if words and words[0] in _ENDS and not (words[0] == "ROLLBACK" and "TO" in words[1:3]):
            return words[0]
    return None


def check_apply(target: Target) -> None:
    """Raise SettingsError for a statement that would begin or end a transaction."""
    for text in target.statements:
        word = ending(text)
        if word is not None:
            raise SettingsError(
                f"apply= has the statement {word}, which would begin or end a transaction",
                cause="its statements run in the transaction that moves the ledger",
                fix="Remove it: the sink begins and ends the transaction",
            )


def apply_users(link: Connection, target: Target, entry: Entry, label: str) -> None:
    """Run the user's function or statements on the rows in `eo_batch`, in the open transaction.

    Raises SinkError if the server refuses a statement, or if the transaction has ended.
    """
    before = _transaction(link)
    if callable(target.apply):
        with _sealed(link):
            target.apply(link, entry)
    for number, text in enumerate(target.statements, 1):
        try:
            # The extended protocol takes one statement at a time: no COMMIT can hide in a text.
            link.execute(text.encode(), binary=True)
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(
                ("40", "55", "57", "08")
            ) or error.sqlstate is None:
                raise
            raise SinkError(
                f"{label}: statement {number} of apply= was refused, and nothing was written: "
                f"{reason(error, values=False)}",
                fix="Correct the statement; the rows of the batch are in eo_batch",
            ) from None
    if _transaction(link) != before:
        raise SinkError(
            f"{label}: apply= has ended the transaction, so the ledger was not moved",
            cause="the rows may be committed, and the repeated batch writes them again",
            fix="Remove COMMIT and ROLLBACK from it",
        )


class SealedCursor(psycopg.Cursor[Row]):
    """A cursor for the user's function, which refuses to begin or end a transaction."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> SealedCursor:
        """Run a statement; raise SinkError instead of sending COMMIT or a similar statement."""
        self._check(query)
        super().execute(query, *args, **kwargs)
        return self

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> None:
        """Run a statement for each row of parameters, with the same restriction as `execute`."""
        self._check(query)
        super().executemany(query, *args, **kwargs)

    def _check(self, query: Any) -> None:
        if isinstance(query, sql.Composable):
            query = query.as_string(self)
        elif isinstance(query, bytes):
            query = query.decode(errors="replace")
        word = ending(query) if isinstance(query, str) else None
        if word is not None:
            raise SinkError(
                f"the function of apply= sent {word}: nothing was written",
                cause="the transaction must stay open until the sink moves the ledger in it",
                fix=f"Remove {word} from it; to abort the batch, raise an error",
            )


@contextmanager
def _sealed(link: Connection) -> Iterator[None]:
    """Lend the connection to the user's function; restore the connection's settings afterwards."""
    before = {name: getattr(link, name) for name in _KEPT}
    link.cursor_factory = SealedCursor
    link.sealed = True
    try:
        yield
    finally:
        link.sealed = False
        for name, value in before.items():
            setattr(link, name, value)


def _transaction(link: Connection) -> Any:
    if link.info.transaction_status != TransactionStatus.INTRANS:
        return None
    row = link.execute("SELECT txid_current()").fetchone()
    return row[0] if row else None
