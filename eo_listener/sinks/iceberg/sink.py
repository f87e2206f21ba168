"""IcebergSink, the sink for a table of Apache Iceberg."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql.types import StructType

from eo_listener.errors import OutcomeUnknownError, SettingsError, SinkError
from eo_listener.model.argument_checks import require_one_of
from eo_listener.model.check_finding import CheckFinding, checked
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.ledger_place import ITS_CATALOG, LedgerPlace
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.dead_letters import REASON, SHARE, Refusals, RowFilter
from eo_listener.sinks.iceberg import catalog
from eo_listener.sinks.iceberg.check import TableCheck
from eo_listener.sinks.iceberg.connection import check_wap, find, has_files_of
from eo_listener.sinks.iceberg.dead_letters import (
    DeadLetterTables,
    LettersOfBatch,
    flaws,
    marks,
    sifted,
)
from eo_listener.sinks.iceberg.errors import table_dropped, translating
from eo_listener.sinks.iceberg.ledger import Published, PublishedLedgers
from eo_listener.sinks.iceberg.merge import Upsert
from eo_listener.sinks.iceberg.names import TableName
from eo_listener.sinks.iceberg.publication import Append, Publication, RowWriter
from eo_listener.sinks.iceberg.user_sql import UserSql, check_statement
from eo_listener.sinks.kept_rows import unmarked_rows
from eo_listener.sinks.spark_columns import check_columns, subschema, types_of
from eo_listener.sinks.target import Apply, Mode, Target
from eo_listener.spark.jvm.iceberg_errors import java_errors
from eo_listener.spark.jvm.iceberg_table import IcebergTable, session
from eo_listener.spark.jvm.sessions import working_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

_ANY_SCHEMA: Final = "write.spark.accept-any-schema"
_NAME_LETTERS: Final = (
    'Name a table for such rows (dead_letters="lake.db.rejected"), or filter them out in the '
    "transform"
)

logger = logging.getLogger("eo_listener")


class IcebergSink:
    """Writes batches into an Iceberg table, each in the commit that moves its ledger.

    `table` is the table's full name, with a catalog of the query's session and the namespace.
    `mode` is "append", or "upsert" with `keys`: a MERGE of the newest row of each key (by
    `version_column` if there is one, otherwise by offset). If `delete_when`, an SQL condition on
    the batch's rows, is true for the newest row of a key, the MERGE deletes the row in the table.
    `dead_letters` names a table for rows that cannot be written. `max_dead_letters` limits them in
    each batch: an int is a number of rows, a float a share of the rows. With `apply` your own SQL
    statements, or a function of (branch, entry), run on the rows instead. The rows are then in the
    view eo_batch, and `{table}` in a statement stands for the table, which must exist. Otherwise
    the sink creates a missing table, in format 2, with the columns of the first batch, partitioned
    by `partition_by` (as in Spark SQL: "days(departed)") and with `properties`; with `create=False`
    the table must exist. Columns that the rows lack become null. With `new_columns` the sink adds
    columns that the table lacks, otherwise it refuses them. With `on_expired="accept"` the sink
    uses a ledger even if it can no longer tell whether a rollback removed the ledger's rows. That
    happens if the snapshots between the batch and main's head have expired, the table's older
    metadata was deleted, and no file of the batch remains. The catalog must refuse a commit if
    another commit came first, as catalogs in a database, Hive catalogs and REST catalogs do.

    Raises SettingsError for invalid arguments.
    """

    per_partition = False

    def __init__(
        self,
        table: str,
        *,
        mode: str = "append",
        keys: str | Sequence[str] = (),
        version_column: str | None = None,
        delete_when: str | None = None,
        apply: Apply | None = None,
        create: bool = True,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] = _NONE,
        new_columns: bool = False,
        dead_letters: str | None = None,
        max_dead_letters: float = SHARE,
        on_expired: Literal["fail", "accept"] = "fail",
    ) -> None:
        require_one_of("on_expired", on_expired, ("fail", "accept"))
        self._name = TableName.parse(table)
        self._target = Target.from_arguments(
            table=table,
            mode=mode,
            keys=keys,
            version_column=version_column,
            delete_when=delete_when,
            apply=apply,
            create=create,
            dead_letters=dead_letters,
            max_dead_letters=max_dead_letters,
        )
        for statement in self._target.statements:
            check_statement(statement)
        self._letters = None if dead_letters is None else TableName.parse(dead_letters)
        if self._letters == self._name:
            raise SettingsError(
                "dead_letters= names the table itself",
                fix="Name another table, which is created if it does not exist",
            )
        self._creation = catalog.Creation(
            create=create,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            properties=dict(properties),
        )
        self._new_columns = new_columns
        self._accept_expired = on_expired == "accept"
        self._open()
        self._reported: str | None = None
        self._uuid: str | None = None  # of the table that the ledger was read from
        self._session: Any = None  # the query's, which has the catalog

    def __repr__(self) -> str:
        return f"<IcebergSink {self._name.key}>"

    @property
    def label(self) -> str:
        """The table, for display."""
        return self._name.label

    @property
    def key(self) -> str:
        """The table's name."""
        return self._name.key

    @property
    def ledger_place(self) -> LedgerPlace:
        """The address of the ledger, which is in the table itself."""
        return LedgerPlace(address=f"iceberg:{self.key}", note=ITS_CATALOG)

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Publish pending dead letters, then return the heads of `query`, if there is a table."""
        with translating(self.label):
            table = self._find()
            self._uuid = None if table is None else table.uuid
            if table is None:
                return {}
            published = self._ledgers.published(table, query, accept_expired=self._accept_expired)
            letters = self._ledgers.letters_of(table, published)
        if letters is not None:
            self._tables.publish(letters, query, self._session)
        self._report(published)
        return published.heads

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Return the heads in this table's ledgers whose last move was by `query_id`."""
        with translating(self.label):
            table = self._find()
            if table is None:
                return {}
            return self._ledgers.moved_by(table, self.key, query_id)

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:  # noqa: ARG002  # other sinks need the plan
        """Write the rows of `frame` and the ledger entry `entry`; publish both in one commit."""
        self._session = frame.sparkSession
        if self._letters is not None:
            return self._apply_sifted(frame, entry, self._letters)
        with ExitStack() as stack:
            with translating(self.label), java_errors():
                # The transform may have used another session.
                stack.enter_context(working_in(frame.sparkSession))
                existing = self._checked(frame.sparkSession, entry)
                rows = stack.enter_context(unmarked_rows(frame, self.label, _NAME_LETTERS))
                table = existing or self._make(rows)
                writer = stack.enter_context(self._writer(table, rows, entry))
            return self._publication(table, writer, entry).write()

    def check(self, query: str | None = None) -> list[CheckFinding]:
        """Return findings about obstacles and risks for the batches; change nothing.

        The method checks the runtime, the table, the table of dead letters, and the ledger of
        `query`.
        """
        check = TableCheck(
            name=self._name, session=self._session, query=query, create=self._creation.create
        )
        every = [*checked(self.label, check.findings())]
        if self._letters is not None:
            check = replace(check, name=self._letters, has_ledgers=False)
            every += checked(self._letters.label, check.findings())
        return every

    def close(self) -> None:
        """Release the snapshots that were read; the session's connections stay open."""
        self._open()
        self._session = None

    def _open(self) -> None:
        self._ledgers = PublishedLedgers(self.label, self._has_files_of)
        self._tables = DeadLetterTables(self.label, accept_expired=self._accept_expired)

    def _apply_sifted(self, frame: DataFrame, entry: Entry, name: TableName) -> Applied:
        """Write the rows that the table accepts, and the other rows into the dead-letter table."""
        letters: LettersOfBatch | None = None
        with ExitStack() as stack:
            with translating(self.label), java_errors():
                stack.enter_context(working_in(frame.sparkSession))
                RowFilter.for_target(frame.columns, None)
                existing = self._checked(frame.sparkSession, entry)
                table = existing or self._make(frame.drop(REASON))
                reasons = [*marks(frame), *self._flaws(frame, table)]
                refusals = Refusals(label=self.label, limit=self._target.limit)
                rows = stack.enter_context(sifted(frame, reasons, refusals))
                dead_rows = rows.letters(entry, datetime.now(timezone.utc))
                writer = stack.enter_context(self._writer(table, rows.rows, entry))
            create = self._creation.create
            self._tables.make(name, dead_rows, create=create)
            if rows.dead:
                owner = f"dead letters of {entry.query} in {self.key}"
                letters = self._tables.stage(name, dead_rows, entry, owner, create=create)
                fault_point("sink.letters-staged")
            try:
                applied = self._publication(table, writer, entry, letters).write()
            except OutcomeUnknownError:
                raise  # the letters may belong to a published batch
            except Exception:
                if letters is not None:
                    self._tables.drop(letters, frame.sparkSession)
                raise
        if letters is not None:
            try:
                self._tables.publish(letters.encode(), entry.run_id, frame.sparkSession)
            except SinkError as error:
                raise OutcomeUnknownError(
                    "the batch is published, but its dead letters are not yet in "
                    f"{letters.table}: {error.problem}",
                    cause=error.cause,
                    fix="Nothing to do: the sink publishes them when it next reads the ledger",
                ) from error
            fault_point("sink.letters-published")
        return replace(applied, dead_letters=rows.dead)

    def _publication(
        self,
        table: IcebergTable,
        writer: RowWriter,
        entry: Entry,
        letters: LettersOfBatch | None = None,
    ) -> Publication:
        return Publication(
            label=self.label,
            table=table,
            ledgers=self._ledgers,
            rows=writer,
            entry=entry,
            accept_expired=self._accept_expired,
            letters=None if letters is None else letters.encode(),
            settle=lambda of_batch: self._tables.publish(of_batch, entry.run_id, self._session),
        )

    def _checked(self, spark: Any, entry: Entry) -> IcebergTable | None:
        """Return the table, or None if it is missing. Raises the errors of `find` and `check_wap`.

        Also raises SinkError if this is not the table from which the ledger was read.
        """
        table = find(spark, self._name)
        if any(move.expected is not None for move in entry.moves.values()):
            if table is None:
                raise table_dropped(self.label, "it no longer exists")
            if self._uuid not in (None, table.uuid):
                raise table_dropped(self.label, f"it was {self._uuid} and is now {table.uuid}")
        if table is not None:
            check_wap(spark, table, self.label)
        return table

    def _flaws(self, frame: DataFrame, table: IcebergTable) -> list[Column]:
        """Return the reasons why the table would refuse rows of `frame`; empty for `apply=`."""
        if self._target.apply is not None:
            return []
        rows = frame.drop(REASON)
        columns, schema = self._matched(rows)
        kinds = types_of(rows.schema)
        uuids = table.uuids(name for name in columns if kinds[name] == "string")
        return flaws(rows, columns, schema, self._target, uuids)

    def _matched(self, frame: DataFrame) -> tuple[tuple[str, ...], StructType]:
        """Return the columns to write and the table's schema. Raises SettingsError."""
        target = self._target
        columns, schema = catalog.matched(
            frame.sparkSession, self._name, frame, new_columns=self._new_columns
        )
        written, tested = subschema(frame.schema, columns), self._letters is not None
        check_columns(target.keys, target.version_column, written, schema, tested=tested)
        return columns, schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ledgers": None, "_tables": None, "_session": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.close()

    def _find(self) -> IcebergTable | None:
        """Load the table in the session of the last batch, or in another session.

        Raises the errors of `find`.
        """
        return find(session(self._name.parts[0], self._session), self._name)

    def _make(self, frame: DataFrame) -> IcebergTable:
        target = self._target
        if target.apply is not None:
            raise SettingsError(
                f"table {self._name.key} does not exist, and apply= does not define its columns",
                fix=f"Create it: CREATE TABLE {self._name.sql} (...) USING iceberg",
            )
        check_columns(target.keys, target.version_column, frame.schema, StructType())
        table = catalog.make(frame.sparkSession, self._name, frame, self._creation)
        check_wap(frame.sparkSession, table, self.label)
        return table

    def _writer(
        self, table: IcebergTable, frame: DataFrame, entry: Entry
    ) -> AbstractContextManager[RowWriter]:
        """Return the writer of the rows of `frame`. Raises SettingsError."""
        name, target = self._name, self._target
        if target.apply is not None:
            return UserSql.staged(name, table, frame, target=target, entry=entry)
        columns, schema = self._matched(frame)
        if target.mode is Mode.APPEND:
            return nullcontext(Append(name, catalog.fitted(frame, columns, schema)))
        if table.has_property(_ANY_SCHEMA):
            raise SettingsError(
                f"{self.label} has {_ANY_SCHEMA}",
                cause="Spark does not resolve the columns of such a table in a MERGE",
                fix=f"ALTER TABLE {name.sql} UNSET TBLPROPERTIES ('{_ANY_SCHEMA}'); "
                "to add columns you do not need this property: use new_columns=True",
            )
        return Upsert.staged(name, table, frame, columns=columns, target=target, label=self.label)

    def _has_files_of(self, snapshot: int) -> bool:
        spark = session(self._name.parts[0], self._session)
        return has_files_of(spark, self._name, self.label, snapshot)

    def _report(self, published: Published) -> None:
        """Log once that a rollback has removed batches from main, and how to undo the rollback.

        If the table was replaced, log that instead.
        """
        branch = published.rolled_back or published.replaced
        if branch is None or branch == self._reported:
            return
        self._reported = branch
        if published.replaced is not None:
            logger.warning(
                "%s was replaced (CREATE OR REPLACE TABLE): it has no ledger of %r, and the "
                "previous rows are in branch %s. Fix: to write everything into the new table, "
                "start with a new checkpoint",
                self.label,
                published.ledger.query,
                branch,
            )
            return
        logger.warning(
            "%s was rolled back: on main, the ledger of %r now ends at number %d; the later "
            "batches are in branch %s. Fix: %s undoes the rollback; to read their offsets again "
            "instead, start with a new checkpoint from starting_offsets(..., ledger=sink)",
            self.label,
            published.ledger.query,
            published.ledger.number,
            branch,
            self._name.fast_forward(branch),
        )
