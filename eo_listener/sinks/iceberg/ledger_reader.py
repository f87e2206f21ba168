"""Reads the ledgers of an Iceberg table outside a query, in its own Spark session; read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eo_listener.errors import JvmError, SettingsError, SinkError
from eo_listener.model.ledger import AppliedBatch, LedgerKey, StoredLedger, TableRollback
from eo_listener.sinks.iceberg.connection import find, has_files_of
from eo_listener.sinks.iceberg.errors import unreadable
from eo_listener.sinks.iceberg.ledger import Published, PublishedLedgers
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.sinks.ledger_steps import (
    BATCHES_READ,
    LedgerStep,
    applied_batches,
    moved_at,
    newest_steps,
)
from eo_listener.sinks.spark_row_origins import row_origins
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.iceberg_errors import ThrownError
from eo_listener.spark.jvm.iceberg_table import IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNCHANGED: Final = {"jdbc.init-catalog-tables": "false", "jdbc.schema-version": "V0"}
"""Settings that keep Spark from creating or altering the tables of a JDBC catalog."""


class IcebergLedgerReader:
    """The `LedgerReader` of an Iceberg table; `name` is the name that was passed to the sink.

    `session` returns the session to read it in.

    If `query` is given and the reader cannot determine the ledger of a different query, it returns
    that ledger without heads; if `query` is None, it raises an error. The history covers the newest
    `batches`. Raises SettingsError for an invalid name.
    """

    def __init__(
        self,
        name: str,
        session: Callable[[], SparkSession],
        *,
        query: str | None = None,
        batches: int = BATCHES_READ,
    ) -> None:
        self._name = TableName.parse(name)
        self._session = session
        self._query = query
        self._batches = batches
        self.published = PublishedLedgers(self.label, self._has_files_of)
        self._table: IcebergTable | None = None

    @property
    def label(self) -> str:
        """The table, for display."""
        return self._name.label

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read all heads from one snapshot of main."""
        with self.explained():
            self._table = table = self.require_table()
        ledgers = {ledger.key: ledger for ledger in self.stored(table)}
        if not ledgers:
            raise SettingsError(
                f"{self.label} has no ledger: no snapshot of main has one",
                cause="no IcebergSink has written to it yet, it was dropped and recreated, "
                "main was rolled back beyond its first batch, or it is the wrong table",
                fix="Name the table that was passed to IcebergSink",
            )
        return ledgers

    def stored(self, table: IcebergTable) -> list[StoredLedger]:
        """Read the ledgers of a table, if it has any. Raises SinkError."""
        with self.explained():
            queries = self.published.with_branch(table)
            if self._query not in queries:  # main may have thousands of snapshots
                queries = self.published.queries(table)
            ledgers = [self._stored(table, query) for query in sorted(queries)]
        return [ledger for ledger in ledgers if ledger is not None]

    def table(self) -> IcebergTable | None:
        """Load the table; return None if it does not exist. Raises SettingsError and SinkError."""
        with self.explained():
            return self._load()

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Read the history of the newest batches, back to the first expired snapshot."""
        with self.explained():
            table = self._table or self.require_table()
            steps = self.published.steps(table, key.query)
            return iter(applied_batches(newest_steps(steps, self._batches)))

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:  # noqa: ARG002  # the protocol's
        """Read the source offset of each row, in the snapshot from which the ledger was read."""
        with self.explained():
            table = self._table or self.require_table()
            sql = f"SELECT * FROM {self._name.sql} VERSION AS OF {table.main}"
            with asking("read a table"):
                frame = self._session().sql(sql)
            yield from row_origins(frame, self._name.key, columns)

    def close(self) -> None:
        """Release the table; the caller must stop the Spark session that it has passed."""
        self._table = None

    def _stored(self, table: IcebergTable, query: str) -> StoredLedger | None:
        """Return the ledger of a query, or None if main never had a batch of the query.

        The ledger has no heads if they cannot be determined.
        """
        key = LedgerKey(self._name.key, query)
        try:
            published = self.published.published(table, query)
        except SinkError:
            if self._query in (None, query):
                raise
            return StoredLedger(key=key, heads={}, moved_at={})
        back = self._taken_back(table, published)
        if not published.heads and back is None:
            return None
        at = (
            {}
            if published.snapshot is None
            else moved_at(self._steps(table, published, published.snapshot))
        )
        return StoredLedger(
            key=key, heads=published.heads, moved_at=at, rollback=back, newest_only=True
        )

    def _steps(
        self, table: IcebergTable, published: Published, snapshot: int
    ) -> Iterator[LedgerStep]:
        """Yield the step of the ledger's own snapshot, then the earlier steps in main.

        Main may no longer lead to the ledger's own snapshot, since snapshots expire.
        """
        read = self.published.read(table, snapshot)
        if read is not None:
            yield LedgerStep(published.heads, None, None, read.committed)
        yield from self.published.steps(table, published.ledger.query)

    def _taken_back(self, table: IcebergTable, published: Published) -> TableRollback | None:
        if published.rolled_back is not None:
            cause = (
                "main was rolled back: on main, this ledger now ends at number "
                f"{published.ledger.number} and the later batches are in branch "
                f"{published.rolled_back}"
            )
            if self.published.leads_to(table, published.rolled_back):
                return TableRollback(cause, self._name.fast_forward(published.rolled_back))
            return TableRollback(
                f"{cause}, which main cannot be fast-forwarded to: other writers have "
                "committed since",
                "",
            )
        if published.replaced is not None:
            return TableRollback(
                cause="the table was replaced (CREATE OR REPLACE TABLE): the previous rows are "
                f"in branch {published.replaced}",
                fix="",
            )
        return None

    def _load(self) -> IcebergTable | None:
        spark, name = self._session(), self._name
        setting = f"spark.sql.catalog.{name.parts[0]}"
        with asking("read its settings"):
            for key, value in _UNCHANGED.items():
                spark.conf.set(f"{setting}.{key}", value)
        table = find(spark, name)
        # For lake.db.t.branch_b Spark loads lake.db.t, but the user did not ask for its main.
        if table is not None and not table.name.casefold().endswith(name.parts[-1].casefold()):
            cause = f"it is a branch, a tag or a snapshot of {table.name}; the ledger is in main"
            raise self._absent(cause)
        return table

    def require_table(self) -> IcebergTable:
        """Load the table. Raises ThrownError, JvmError, and SettingsError if it does not exist."""
        table = self._load()
        if table is None:
            raise self._absent(
                "its name is wrong, or the catalog's settings differ from the query's"
            )
        return table

    def _absent(self, cause: str) -> SettingsError:
        setting = f"spark.sql.catalog.{self._name.parts[0]}"
        return SettingsError(
            f"table {self._name.key} does not exist",
            cause=cause,
            fix="Name the table that was passed to IcebergSink, and pass its catalog's "
            f"settings: --spark-conf {setting}...=..., or spark-defaults.conf",
        )

    def _has_files_of(self, snapshot: int) -> bool:
        return has_files_of(self._session(), self._name, self.label, snapshot)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors of Java and Py4J inside the block as SinkError or SettingsError."""
        try:
            yield
        except ThrownError as error:
            raise unreadable(error, self.label, self._name.parts[0]) from error
        except JvmError as error:
            raise error.as_kind(SinkError, label=self.label) from error
