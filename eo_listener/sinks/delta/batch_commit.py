"""Writes one batch into the table, in one commit that also has the ledger.

Delta silently skips a commit whose number is not greater than its application's last number. So a
batch counts as written only when its own commit is found in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql.types import StructType

from eo_listener.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.dead_letters import REASON, RowFilter
from eo_listener.sinks.delta.arguments import at
from eo_listener.sinks.delta.catalog import add_columns, check_no_number, create
from eo_listener.sinks.delta.commits import BatchRecord, QueryState, application_id
from eo_listener.sinks.delta.errors import explained, in_doubt, taken_back, taken_back_meanwhile
from eo_listener.sinks.delta.merge import prepared
from eo_listener.sinks.foreign_writer import ledger_changed, refuse_moved
from eo_listener.sinks.kept_rows import unmarked_rows
from eo_listener.sinks.ledger_text import LedgerText
from eo_listener.sinks.spark_columns import (
    NEW_COLUMNS,
    as_stored,
    check_columns,
    check_typed,
    subschema,
    types_of,
)
from eo_listener.sinks.spark_merge import Merge
from eo_listener.sinks.target import Mode
from eo_listener.spark.jvm.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from eo_listener.sinks.delta.arguments import Target
    from eo_listener.sinks.delta.commits import Commit
    from eo_listener.sinks.delta.connection import Connection, TableLog
    from eo_listener.sinks.delta.ledger import QueryLedger
    from eo_listener.sinks.spark_columns import Columns

_CONF: Final = "spark.databricks.delta."


class BatchCommit:
    """Writes the rows of `frame`, and the ledger entry `entry`, in one commit.

    Use a new object for each attempt.
    """

    def __init__(
        self, target: Target, connection: Connection, label: str, frame: DataFrame, entry: Entry
    ) -> None:
        self._target = target
        self._connection = connection
        self._label = label
        self._frame = frame
        self._entry = entry
        self._session: SparkSession = frame.sparkSession

    def write(self) -> Applied:
        """Write rows and ledger in one commit. Raises the errors of `Sink.apply`."""
        rows = types_of(self._frame.schema)
        log = self._connection.judged(self._session)
        if log is None:
            self._create(rows)
            log = self._connection.log(self._session)
        ledger = self._checked_ledger(log)
        record, location = self._record(ledger), ledger.location
        table = at(location)  # not its name, which may later mean another table
        existing = self._session.table(table).schema
        columns = self._matched(rows, existing, location)
        with unmarked_rows(self._frame, self._label) as frame:
            if self._target.mode is Mode.APPEND:
                fields = [frame.schema[name] for name in columns]
                fitted = frame.select(*(as_stored(field, existing) for field in fields))
                return self._append(fitted, location, record)
            merge = Merge(
                target=self._target, table=table, label=self._label, rows=rows, columns=columns
            )
            return self._merge(frame, merge, location, record)

    def _create(self, rows: Columns) -> None:
        version = self._target.version_column
        columns = RowFilter.for_target(tuple(rows), None, version).columns
        self._check_columns(columns, StructType())
        check_no_number(self._session)
        try:
            create(self._frame, self._target, self._connection.reference, columns)
        except SettingsError:
            if self._connection.log(self._session) is None:
                raise
        except Exception as error:  # noqa: BLE001  # Delta's: another driver may have created it
            if self._connection.log(self._session) is None:
                raise explained(error, self._label) from without_secrets(error)

    def _checked_ledger(self, log: TableLog | None) -> QueryLedger:
        """Return the ledger, which must still have the heads that the entry expects."""
        ledger = self._connection.ledger_in(log, self._entry.query)
        if log is None:
            raise SinkError(
                f"{self._label} was created, but does not exist", cause="it was dropped"
            )
        try:
            refuse_moved(self._label, self._entry, ledger.heads)
        except ForeignWriterError:
            rollback = log.rollback_of(self._entry.query)
            if rollback is None:
                raise
            back = taken_back(self._connection.reference, rollback, log.newest)
            raise taken_back_meanwhile(self._label, self._entry.batch_id, back) from None
        return ledger

    def _record(self, ledger: QueryLedger) -> BatchRecord:
        """Return the record of the batch for the commit's `userMetadata`."""
        text = LedgerText(self._entry.query, ledger.number, ledger.heads)
        return BatchRecord(
            ledger=text.after(self._entry),
            table=ledger.table,
            base=ledger.version,
            attempt=uuid4().hex,
            states=ledger.states,
        )

    def _matched(self, rows: Columns, existing: StructType, location: str) -> tuple[str, ...]:
        """Return the columns to write; with `new_columns`, first add missing columns."""
        folded = {name.casefold() for name in existing.names}
        new = [name for name in rows if name != REASON and name.casefold() not in folded]
        accepted = {*existing.names, *(new if self._target.new_columns else ())}
        version = self._target.version_column
        columns = RowFilter.for_target(tuple(rows), accepted, version, fix=NEW_COLUMNS).columns
        self._check_columns(columns, existing)
        if self._target.new_columns and new:
            check_no_number(self._session)
            check_typed({name: rows[name] for name in new})
            try:
                add_columns(self._frame, location, new)
            except Exception as error:  # noqa: BLE001  # Delta's; it is not the batch's commit
                raise explained(error, self._label) from without_secrets(error)
        return columns

    def _check_columns(self, columns: tuple[str, ...], existing: StructType) -> None:
        target = self._target
        missing = [name for name in target.partition_by if name not in columns]
        if missing and not existing.names:  # a table that exists keeps its partitions
            raise SettingsError(
                f"partition_by= names {', '.join(map(repr, missing))}, which the rows lack",
                fix="Name columns of the transform's result, with the same case",
            )
        written = subschema(self._frame.schema, columns)
        check_columns(target.keys, target.version_column, written, existing)

    def _append(self, frame: DataFrame, location: str, record: BatchRecord) -> Applied:
        writer = frame.write.format("delta").mode("append").option("mergeSchema", "false")
        writer = (
            writer.option("txnAppId", application_id(record.query))
            .option("txnVersion", record.number)
            .option("userMetadata", record.text())
        )
        return self._commit(record, location, lambda: writer.save(location))

    def _merge(self, frame: DataFrame, merge: Merge, location: str, record: BatchRecord) -> Applied:
        settings = {
            f"{_CONF}write.txnAppId": application_id(record.query),
            f"{_CONF}write.txnVersion": str(record.number),
            f"{_CONF}commitInfo.userMetadata": record.text(),
        }
        with prepared(merge, frame, settings) as commit:
            return self._commit(record, location, commit)

    def _commit(self, record: BatchRecord, location: str, commit: Callable[[], object]) -> Applied:
        fault_point("sink.begun")
        fault_point("sink.commit-sent")
        failed: Exception | None = None
        try:
            commit()
        except Exception as error:  # noqa: BLE001  # of Spark, Delta, the storage, or the user's functions
            failed = error
        else:
            fault_point("sink.committed")
        try:
            written = self._find(record, location) or self._find(record, location, settled=True)
            overtaken = None if written is not None else self._overtaken(record, location)
        except RetriableSinkError as unread:
            raise OutcomeUnknownError(
                f"{self._label}: cannot tell if batch {self._entry.batch_id} was written",
                cause="its commit was sent, but the log could not be read afterwards",
            ) from without_secrets(failed or unread)
        if written is None:
            refusal = overtaken or self._not_written(record, failed)
            if refusal is failed:
                raise refusal  # not `from failed`: its chain of causes would have no end
            raise refusal from None if failed is None else without_secrets(failed)
        return Applied(rows=written.rows)

    def _find(self, record: BatchRecord, location: str, *, settled: bool = False) -> Commit | None:
        """Return this attempt's commit in the table at `location`, or None if there is none.

        Raises SinkError if the batch of the commit is in doubt.
        """
        log = self._connection.log_at(self._session, location, settled=settled)
        if log is None:
            return None
        first = record.base + 1 if log.table.id == record.table else 0
        for version in range(first, log.newest + 1):
            commit = log.commit(version)
            if commit and commit.record and commit.record.attempt == record.attempt:
                doubt = log.doubt(commit)
                if doubt is None:
                    return commit
                state = QueryState(record.number, None, doubt, version)
                raise in_doubt(self._label, self._connection.reference, record.query, state)
        return None

    def _overtaken(self, record: BatchRecord, location: str) -> Exception | None:
        """Return the error if another driver has written a batch of this query, otherwise None."""
        log = self._connection.log_at(self._session, location)
        ledger = self._connection.ledger_in(log, record.query)
        if ledger.number == record.number - 1:
            return None
        return ledger_changed(self._label, self._entry, ledger.heads)

    def _not_written(self, record: BatchRecord, failed: Exception | None) -> Exception:
        if failed is not None:
            return explained(failed, self._label)
        return SinkError(
            f"{self._label}: Delta has not written batch {self._entry.batch_id}",
            cause=f"another program uses txnAppId={application_id(record.query)!r}",
        )
