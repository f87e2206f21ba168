"""Finds or creates the target table, and the table into which a batch's rows go first."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from eo_listener.errors import SettingsError
from eo_listener.sinks.dead_letters import RowFilter
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.sqlite.merge import STAGE, Upsert, check_stage, collations
from eo_listener.sinks.sqlite.types import affinity, declared, keeps
from eo_listener.sinks.target import STAGED, Mode, Target, not_created, refuse_dotted

SCHEMA: Final = "main"
"""The schema of the file's own tables; a name without it would first mean a temporary table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table into which a batch's rows go first.

    This is the target itself, or a staging table from which `apply=` or an upsert takes the rows.
    """

    row_filter: RowFilter
    insert: str
    keys: tuple[str, ...]
    upsert: Upsert | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows, in the order in which `insert` takes their values."""
        traced = self.upsert is not None and self.upsert.traced
        return (*self.row_filter.columns, *(ORIGIN if traced else ()))


def target_table(connection: sqlite3.Connection, target: Target, schema: pa.Schema) -> Table:
    """Find the target in the database, or create it, within the open transaction.

    Raises SettingsError if rows with this schema can never fit the target.
    """
    if target.apply is not None:
        row_filter = RowFilter.for_target(schema.names, None)
        connection.execute(f"DROP TABLE IF EXISTS temp.{STAGED}")
        connection.execute(f"CREATE TEMP TABLE {STAGED} ({_columns(schema, row_filter, ())})")
        return Table(
            row_filter=row_filter, insert=_insert(f"temp.{STAGED}", row_filter.columns), keys=()
        )
    existing = columns_of(connection, target.table)
    row_filter = RowFilter.for_target(
        schema.names, existing or None, target.version_column, keys=target.keys
    )
    _check_types(target, existing, [schema.field(name) for name in row_filter.columns])
    name = in_file(target.table)
    if not existing:
        refuse_dotted("table", target.table, has_schemas=False)
        statement = f"CREATE TABLE {name} ({_columns(schema, row_filter, target.keys)})"
        if not target.create:
            raise not_created(f"table {target.table!r} does not exist", statement)
        connection.execute(statement)
    if target.mode is Mode.APPEND:
        return Table(row_filter=row_filter, insert=_insert(name, row_filter.columns), keys=())
    compared = collations(connection, SCHEMA, target.table, target.keys)
    upsert = Upsert.into_table(target, name, schema, row_filter.columns, existing, compared)
    check_stage(connection, upsert)
    connection.execute(f"DROP TABLE IF EXISTS {STAGE}")
    connection.execute(
        f"CREATE TEMP TABLE {STAGE.removeprefix('temp.')} ({', '.join(upsert.staged)})"
    )
    insert = _insert(STAGE, upsert.staged)
    return Table(row_filter=row_filter, insert=insert, keys=target.keys, upsert=upsert)


def in_file(table: str) -> str:
    """Return the quoted name of a table in the file."""
    return f"{SCHEMA}.{quoted(table)}"


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return the columns of a table that can be written, each with its declared type.

    The result is empty if the table does not exist. In a STRICT table, a column declared ANY keeps
    every value unchanged, as a column without a type does in other tables; its type is empty here.
    """
    rows = connection.execute(f"PRAGMA {SCHEMA}.table_xinfo({quoted(table)})").fetchall()
    columns = {name: kind for _, name, kind, *_, hidden in rows if not hidden}
    if "ANY" in {kind.upper() for kind in columns.values()}:
        listed = connection.execute(f"PRAGMA {SCHEMA}.table_list({quoted(table)})").fetchall()
        if listed and listed[0][-1]:
            return {name: "" if kind.upper() == "ANY" else kind for name, kind in columns.items()}
    return columns


def _check_types(target: Target, existing: Mapping[str, str], fields: Sequence[pa.Field]) -> None:
    """Raise SettingsError if the existing table would change values of a column."""
    for field in fields:
        kind = existing.get(field.name)
        if kind is None or keeps(kind, field.type):
            continue
        raise SettingsError(
            f"column {field.name!r} of table {target.table!r} is declared {kind}, which would "
            f"change values of type {field.type}",
            cause=f"SQLite converts values in such a column to {affinity(kind)} if it can: "
            "'00123' becomes 123, a decimal or a large integer a float with 15 digits",
            fix=f"Declare it {declared(field.type)}, or cast the column in the transform",
        )


def _columns(schema: pa.Schema, row_filter: RowFilter, keys: Sequence[str]) -> str:
    """Return the column list of CREATE TABLE.

    The keys get a UNIQUE constraint, not a primary key: a single INTEGER PRIMARY KEY would replace
    null with a number that SQLite chooses.
    """
    parts = [
        f"{quoted(name)} {declared(schema.field(name).type)}" + (" NOT NULL" * (name in keys))
        for name in row_filter.columns
    ]
    if keys:
        parts.append(f"UNIQUE ({', '.join(map(quoted, keys))})")
    return ", ".join(parts)


def _insert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(map(quoted, columns))
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
