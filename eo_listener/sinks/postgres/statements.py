"""Statements of ours on a connection: run one, run many, ask whether a table is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

if TYPE_CHECKING:
    from eo_listener.sinks.ledger_sql import Many, Statement
    from eo_listener.sinks.postgres.connection import Connection, Cursor

_MAKING: Final = 0x656F5F6C  # the key of an advisory lock: any number that is ours


def run(link: Connection, statement: Statement) -> Cursor:
    """Run one statement; in its text a percent sign that is no parameter's is doubled."""
    if not statement.values:  # then psycopg leaves the text as it is
        return link.execute(statement.text.replace("%%", "%").encode())
    return link.execute(statement.text.encode(), statement.values)


def run_many(link: Connection, many: Many) -> int:
    """Run one statement for each row of parameters, and return how many rows they changed."""
    if not many.rows:
        return 0
    with link.cursor() as cursor:
        cursor.executemany(many.text.encode(), many.rows)
        return cursor.rowcount


def identifier(schema: str | None, name: str) -> sql.Identifier:
    """Return a name, in its schema if that is given; whatever is in either is only a name."""
    return sql.Identifier(name) if schema is None else sql.Identifier(schema, name)


def spelt(link: Connection, schema: str | None, name: str) -> str:
    """Return a name as it is written in a statement that takes parameters."""
    return identifier(schema, name).as_string(link).replace("%", "%%")


def schema_of(link: Connection, table: str | None) -> str | None:
    """Return the schema in which `table` is seen; without one, the first of the search_path.

    None where the search_path has no schema that exists.
    """
    row: tuple[Any, ...] | None = link.execute(
        "SELECT COALESCE((SELECT n.nspname FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)), current_schema())",
        (None if table is None else identifier(None, table).as_string(link),),
    ).fetchone()
    return None if row is None else row[0]


def oid(link: Connection, schema: str | None, name: str) -> int | None:
    """Return the table's number, None where there is no such table."""
    query = "SELECT to_regclass(%s)::oid::bigint"
    row: tuple[Any, ...] | None = link.execute(
        query, (identifier(schema, name).as_string(link),)
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


@contextmanager
def making(link: Connection) -> Iterator[None]:
    """A transaction in which tables are made: IF NOT EXISTS alone fails when two do it at once."""
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        yield
