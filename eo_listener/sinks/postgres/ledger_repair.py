"""Repairs the ledger of a PostgreSQL schema, in one transaction that compares the heads first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from eo_listener.errors import (
    ForeignWriterError,
    InUseError,
    OutcomeUnknownError,
    SettingsError,
    SinkError,
)
from eo_listener.sinks.ledger_repair import (
    Rename,
    refuse_changed,
    refuse_other_table,
    unknown_repair,
)
from eo_listener.sinks.ledger_sql import HEADS, HISTORY, LedgerSql, Statement, read_heads
from eo_listener.sinks.postgres.catalog import run, run_many
from eo_listener.sinks.postgres.connection import connect
from eo_listener.sinks.postgres.conninfo import application_name
from eo_listener.sinks.postgres.errors import translated
from eo_listener.sinks.postgres.ledger import Ledger, ledger_sql, sink_key
from eo_listener.sinks.postgres.ledger_reader import PostgresLedgerReader, ledger_tables
from eo_listener.sinks.postgres.transaction import begin, commit, roll_back

if TYPE_CHECKING:
    from eo_listener.model.ledger import Entry, Head, LedgerKey
    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.postgres.connection import Connection

_USERS: Final = """
SELECT pid, coalesce(client_addr::text, 'local'), usename FROM pg_stat_activity
WHERE application_name = %s AND datname = current_database() ORDER BY pid
"""

_TABLE: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""


class PostgresLedgerRepair:
    """The `LedgerRepair` of a PostgreSQL schema. `dsn`, a connection string or URI, is secret.

    `users` finds sinks by their connections in pg_stat_activity; without the role
    pg_read_all_stats, it sees only connections of its own role. The tasks of a sink with
    `max_connections=` have no connections between batches.
    """

    remarks: Final = ()  # no warning is needed: `users` asks the server

    def __init__(self, dsn: str, *, schema: str | None = None) -> None:
        self.reader = PostgresLedgerReader(dsn, schema=schema)
        self._access = replace(self.reader.access, statement_timeout=600.0)
        self._link: Connection | None = None

    def key_of(self, table: str) -> str:
        """Return the key of a sink that writes to `table`, which must be in the ledger's schema."""
        qualified = self._find(table)
        if qualified is None:  # the key is only a name, as with apply=
            return table if "." in table else sink_key(self._schema, table)
        schema = qualified[0]
        if schema != self._schema:
            raise SettingsError(
                f"the table {table} is in schema {schema}, but the ledger is in {self._schema}",
                cause="each schema has a ledger of its own",
                fix=f"ALTER TABLE {table} SET SCHEMA ..., or begin a new ledger there",
            )
        return sink_key(*qualified)

    def users(self, key: LedgerKey) -> tuple[str, ...]:
        """Describe the backends that serve a sink with this key."""
        try:
            rows = self._connection().execute(_USERS, (application_name(*key),)).fetchall()
        except psycopg.Error as error:
            raise self._translated(error) from error
        return tuple(f"backend {pid} of {role} from {address}" for pid, address, role in rows)

    def check_rename(self, rename: Rename) -> None:
        """Raise SettingsError if the sink's name changes, but its table was not renamed."""
        refuse_other_table(rename, lambda sink: self._find(sink) is not None)

    def rename(self, rename: Rename) -> None:
        """Change the sink or query of a ledger, in its heads and its history."""

        def change(link: Connection) -> None:
            old, new = (self._lock(link, key) for key in (rename.old, rename.new))
            refuse_changed(self.reader.label, rename, old=old, new=new)
            run(link, self._sql.rename(HISTORY, rename.old, rename.new))
            run(link, self._sql.rename(HEADS, rename.old, rename.new))
            now = datetime.now(timezone.utc)
            run_many(link, self._sql.add_rename(rename.new, rename.heads, rename.verdict, now))

        self._transact(change)

    def accept(self, sink: str, entry: Entry) -> None:
        """Move the head in `entry` past a gap."""
        ledger = Ledger(key=sink, label=self.reader.label, schema=self._schema, prunes=False)
        self._transact(lambda link: ledger.move(link, entry, rows=0))

    def close(self) -> None:
        """Close the connections."""
        self.reader.close()
        if self._link is not None:
            self._link.close()
            self._link = None

    @property
    def _schema(self) -> str:
        if self.reader.schema is None:
            self.reader.ledgers()
        return self.reader.schema or ""

    @property
    def _sql(self) -> LedgerSql:
        return ledger_sql(self._schema)

    def _transact(self, change: Callable[[Connection], None]) -> None:
        link = self._connection()
        try:
            begin(link, self._access)
            change(link)
            commit(link, self.reader.label, link.limit)
        except OutcomeUnknownError as error:
            reason = "no answer to COMMIT came"
            raise unknown_repair(self.reader.label, reason, error.cause) from error
        except ForeignWriterError as error:
            roll_back(link)
            raise error.as_kind(InUseError, fix="Stop the query first") from error
        except psycopg.Error as error:
            roll_back(link)
            raise self._translated(error) from error
        except BaseException:
            roll_back(link)
            raise

    def _lock(self, link: Connection, key: LedgerKey) -> Mapping[TopicPartition, Head]:
        text, values = self._sql.heads(*key)
        rows = run(link, Statement(f"{text} FOR UPDATE", values)).fetchall()
        return read_heads(key, rows).heads

    def _find(self, table: str) -> tuple[str, str] | None:
        """Return schema and name of `table`, written as in SQL, or None if it does not exist."""
        try:
            row = self._connection().execute(_TABLE, (table,)).fetchone()
        except errors.InvalidName:  # no table can have that name
            return None
        except psycopg.Error as error:
            raise self._translated(error) from error
        return None if row is None else (row[0], row[1])

    def _connection(self) -> Connection:
        if self._link is None:
            self._link = connect(self._access, self.reader.label, "eo_listener repair")
        return self._link

    def _translated(self, error: psycopg.Error) -> Exception:
        if isinstance(error, errors.InsufficientPrivilege):
            tables = ledger_tables(self._schema)
            return SinkError(
                f"the role may not change the ledger of {self.reader.label}",
                cause="a sink's own role cannot change the history of the ledger",
                fix=f"Use the owner's role, or GRANT SELECT, INSERT, UPDATE ON {tables} "
                f"TO {self.reader.role()}",
            )
        return translated(error, self.reader.label, "repairing its ledger")
