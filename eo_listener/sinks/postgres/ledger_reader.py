"""Reads the ledger of a PostgreSQL schema without a sink; needs only the right to SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors, sql

from eo_listener.errors import SettingsError, SinkError
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger
from eo_listener.sinks.ledger_sql import (
    HEADS,
    HISTORY,
    LedgerSql,
    read_applied_batch,
    stored_ledgers,
)
from eo_listener.sinks.newest_row import require_origin_columns
from eo_listener.sinks.postgres.catalog import identifier, run
from eo_listener.sinks.postgres.connection import connect, usable
from eo_listener.sinks.postgres.conninfo import ConnectionSettings
from eo_listener.sinks.postgres.errors import message_of, translated
from eo_listener.sinks.postgres.ledger import ledger_sql

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Connection


_TIMEOUT: Final = 10.0  # seconds
_AT_ONCE: Final = 10_000  # rows that a cursor fetches at once
_COLUMNS: Final = """
SELECT a.attname FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_SCHEMAS: Final = """
SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.relkind IN ('r', 'p', 'v')
ORDER BY array_position(current_schemas(false), n.nspname) NULLS LAST, n.nspname
"""


def row_origins(
    link: Connection, table: str, columns: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and offset of each row, sorted; rows that lack one of them come last.

    The server sorts the rows, in temporary files if there are many. `table` is a name as SQL writes
    it, and as the ledger has it; `columns` are the names of the three columns. Raises SettingsError
    if the table or a column does not exist, and psycopg.Error.
    """
    existing = {name for (name,) in link.execute(_COLUMNS, (table,))}
    require_origin_columns(table, existing, columns)
    row = link.execute("SELECT to_regclass(%s)::text", (table,)).fetchone()
    name = str(row[0]) if row is not None else table  # as the server itself writes it
    three = [sql.Identifier(column) for column in columns]
    empty = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(column) for column in three)
    # Texts in the order of their bytes, as Python compares them, whatever the collation.
    order = sql.SQL('{} COLLATE "C", {}, {}').format(*three)
    text = sql.SQL("SELECT {} FROM {} ORDER BY {}, {}").format(
        sql.SQL(", ").join(three),
        sql.SQL(name),  # written by the server itself
        empty,
        order,
    )
    with link.transaction(), link.cursor("eo_origins") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(text)
        yield from cursor


class PostgresLedgerReader:
    """The `LedgerReader` of a PostgreSQL database. It connects when it is first used.

    `dsn`, a connection string or URI, is secret. If no `schema` is given, it reads the ledger in
    the first schema of the search_path that has a ledger, or else in the only schema that has one.
    """

    def __init__(self, dsn: str, *, schema: str | None = None) -> None:
        self.access = ConnectionSettings(
            dsn=dsn,
            schema=schema,
            connect_timeout=_TIMEOUT,
            lock_timeout=_TIMEOUT,
            statement_timeout=3600.0,
        )
        self._link: Connection | None = None
        self.schema = schema  # if None, set once the ledger's schema is known

    @property
    def label(self) -> str:
        """The database for display, without user and password."""
        schema = "" if self.schema is None else f", schema {self.schema}"
        return f"PostgreSQL {self.access.place()}{schema}"

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read the heads of all ledgers."""
        try:
            link = self.connection()
            return stored_ledgers(run(link, self._sql(link).all_heads()).fetchall())
        except psycopg.Error as error:
            raise self._translated(error) from error

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Yield the applied batches of the ledger `key`; fetch 10,000 rows at a time."""
        try:
            link = self.connection()
            text, values = self._sql(link).applied_batches(*key)
            with link.transaction(), link.cursor("eo_history") as cursor:
                cursor.itersize = _AT_ONCE
                cursor.execute(text.encode(), values)
                for row in cursor:
                    yield read_applied_batch(row)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield the source offset of each row of a sink's table; fetch 10,000 rows at a time."""
        try:
            yield from row_origins(self.connection(), sink, columns)
        except errors.InsufficientPrivilege as error:
            raise SinkError(
                f"the role may not read the table {sink} of {self.label}",
                cause=message_of(error),
                fix=f"GRANT SELECT ON {sink} TO {self.role()}, and USAGE ON its SCHEMA",
            ) from error
        except psycopg.Error as error:
            raise self._translated(error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def connection(self) -> Connection:
        """Return a connection that cannot write. Raises SinkError and psycopg.Error."""
        if self._link is None:
            self._link = connect(self.access, self.label, "eo_listener reader")
            self._link.execute("SET default_transaction_read_only = on")
        return self._link

    def role(self) -> str:
        """Return the reader's role as SQL writes it, or a phrase if no connection is usable."""
        if self._link is not None and usable(self._link):
            row = self._link.execute("SELECT quote_ident(current_user)").fetchone()
            if row is not None:
                return str(row[0])
        return "the role of the dsn"

    def _sql(self, link: Connection) -> LedgerSql:
        if self.schema is None:
            self.schema = self._find_schema(link)
        return ledger_sql(self.schema)

    def _find_schema(self, link: Connection) -> str:
        path = [str(name) for (name,) in link.execute("SELECT unnest(current_schemas(false))")]
        schemas = [str(name) for (name,) in link.execute(_SCHEMAS, (HEADS,))]
        if not schemas:
            raise SettingsError(
                f"{self.label} has no ledger: no schema has a table {HEADS}",
                cause="no sink has written to it yet, or it is the wrong database",
                fix="Name the database of PostgresSink's dsn",
            )
        if schemas[0] not in path and len(schemas) > 1:
            raise SettingsError(
                f"{self.label} has {len(schemas)} ledgers, none of them in the search_path",
                cause=f"they are in the schemas {', '.join(schemas[:5])}"
                + (", ..." if schemas[5:] else ""),
                fix="Name a schema: --schema NAME",
            )
        return schemas[0]

    def _translated(self, error: psycopg.Error) -> Exception:
        if isinstance(error, errors.UndefinedTable):
            return SettingsError(
                f"{self.label} has no ledger: table {HEADS} does not exist",
                fix="Name the schema of PostgresSink's table: --schema NAME",
            )
        if isinstance(error, errors.InsufficientPrivilege) and self.schema is not None:
            schema, role = identifier(None, self.schema).as_string(None), self.role()
            return SinkError(
                f"the role may not read the ledger of {self.label}",
                cause=message_of(error),
                fix=f"GRANT USAGE ON SCHEMA {schema} TO {role}; "
                f"GRANT SELECT ON {ledger_tables(self.schema)} TO {role}",
            )
        return translated(error, self.label, "reading its ledger")


def ledger_tables(schema: str) -> str:
    """Return the names of a ledger's two tables, quoted for SQL."""
    return ", ".join(identifier(schema, name).as_string(None) for name in (HEADS, HISTORY))
