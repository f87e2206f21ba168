"""Runs the user's function or SQL statements in the sink's transaction.

The function and the statements may neither end the transaction nor write the ledger.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from eo_listener.model.ledger import Entry
from eo_listener.sinks.ledger_sql import HEADS, HISTORY
from eo_listener.sinks.sqlite.connection import Connection
from eo_listener.sinks.target import STAGED, Target

_WRITES: Final = frozenset(
    {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE}
)
_CHANGES: Final = frozenset(
    {sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_TRIGGER}
)
"""The actions, as SQLite's authorizer names them, whose second argument is the table.

ALTER TABLE is one of them: under another name, the ledger's table would no longer be a ledger.
"""


def run_apply(connection: Connection, target: Target, entry: Entry) -> None:
    """Run the user's function or statements on the staged rows, then drop the rows.

    Raises sqlite3.Error for a statement that fails or is not allowed, and whatever the function
    raises.
    """
    connection.execute("SAVEPOINT eo_apply")
    connection.set_authorizer(_guard)  # SQLite then also prepares earlier statements again
    try:
        if callable(target.apply):
            target.apply(connection, entry)
        for statement in target.statements:
            connection.execute(statement)
    finally:
        connection.set_authorizer(_allow)  # None does not remove it before Python 3.11
        connection.put_back()
    connection.execute("RELEASE eo_apply")
    connection.execute(f"DROP TABLE temp.{STAGED}")


def _guard(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_TRANSACTION:
        return sqlite3.SQLITE_DENY
    named = first if action in _WRITES else second if action in _CHANGES else None
    if named is not None and named.lower() in (HEADS, HISTORY):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _allow(*_: object) -> int:
    return sqlite3.SQLITE_OK
