"""Maintenance of an Iceberg table while queries write to it, by Iceberg's own procedures.

Compaction, expiry and the removal of orphan files are procedures of Iceberg
(https://iceberg.apache.org/docs/latest/spark-procedures/). This module decides which snapshots may
expire. It keeps the snapshots between the last batch of a query and the head of main, however old
they are, because they prove that main has this batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NamedTuple

from eo_listener.errors import JvmError, SettingsError, SinkError
from eo_listener.sinks.iceberg.connection import find
from eo_listener.sinks.iceberg.errors import in_short
from eo_listener.sinks.iceberg.names import TableName, is_branch_of_any
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors
from eo_listener.spark.jvm.iceberg_table import MAIN, session
from eo_listener.spark.session.iceberg_runtime import EXTENSION

_SHORTEST: Final = timedelta(days=1)
"""Iceberg's own minimum for `orphans_after`: a program may still be writing a younger file."""
_NO_PROCEDURES: Final = ("ParseException", "NoSuchProcedureException")
_MB: Final = 1024 * 1024
_FILES: Final = "content, count(*), sum(file_size_in_bytes)"
_SNAPSHOTS: Final = "snapshot_id, parent_id, unix_millis(committed_at)"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceStep:
    """One run of a procedure: its reason, its statement, and its result.

    `result` has the columns of the procedure's answer; it is None if the procedure was not run.
    `retention` is the reason why fewer snapshots expire than requested, or None.
    """

    reason: str
    statement: str
    result: Mapping[str, Any] | None = None
    retention: str | None = None

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value}" for name, value in (self.result or {}).items())
        return "\n  ".join(filter(None, [self.reason, self.retention, self.statement, numbers]))


class SnapshotRow(NamedTuple):
    """A row of Iceberg's metadata table `snapshots`; its time is in UTC."""

    id: int
    parent: int | None
    committed_at: datetime


class Limit(NamedTuple):
    """The time before which snapshots may expire.

    `branch` is the branch that prevents a later time, or None.
    """

    older_than: datetime
    branch: str | None


def maintain_iceberg(
    table: str,
    *,
    compact: bool = True,
    expire_after: timedelta | None = timedelta(days=7),
    orphans_after: timedelta | None = timedelta(days=3),
    execute: bool = False,
) -> tuple[MaintenanceStep, ...]:
    """Compact an Iceberg table, expire its snapshots and remove its orphan files, in this order.

    If `execute` is False, the function changes nothing, and the returned steps show the work to do.
    Queries may write to the table meanwhile. If `expire_after` or `orphans_after` is None, the
    function skips that step. `table` is the full name, as IcebergSink takes it. The function uses
    the active session, or the first session of the process if only that session has the catalog;
    the session needs Iceberg's SQL extensions.

    Raises SettingsError, and SinkError if a procedure fails; the earlier steps are then complete.
    """
    for setting, age, shortest in (
        ("expire_after", expire_after, timedelta(0)),
        ("orphans_after", orphans_after, _SHORTEST),
    ):
        if age is not None and age < shortest:
            raise SettingsError(
                f"{setting} must be at least {shortest}, got {age}",
                cause="files of a batch that is being written are not in any snapshot yet",
                fix="Give a longer time, such as timedelta(days=3), or None to skip the step",
            )
    name = TableName.parse(table)
    work = _Work(session(name.parts[0]), name, execute=execute)
    now = datetime.now(timezone.utc)
    steps: list[MaintenanceStep] = []
    if compact:
        steps += work.compact()
    if expire_after is not None:
        steps.append(work.expire(now - expire_after))
    if orphans_after is not None:
        steps.append(work.remove_orphans(now - orphans_after))
    return tuple(steps)


def expiry_limit(
    snapshots: Iterable[SnapshotRow], branches: Mapping[str, int], cutoff: datetime
) -> Limit:
    """Return the time before which snapshots may expire, at most `cutoff`. Does no I/O.

    If the head of a sink's branch is in main, that snapshot has the ledger of a query. Snapshots of
    main after it must not expire, since they prove that the batch was not rolled back. Raises
    KeyError if `snapshots` lack main's head, because they were read before the branches.
    """
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    limit = Limit(cutoff, None)
    earliest: datetime | None = None  # of the snapshots of main that came after `at`
    at = by_id[branches[MAIN]] if MAIN in branches else None
    heads = {head: name for name, head in branches.items() if is_branch_of_any(name)}
    while at is not None:
        if at.id in heads and earliest is not None and earliest < limit.older_than:
            limit = Limit(earliest, heads[at.id])
        earliest = at.committed_at if earliest is None else min(earliest, at.committed_at)
        at = None if at.parent is None else by_id.get(at.parent)
    return limit


class _Work:
    """Runs the procedures on one table or, if `execute` is False, only plans them."""

    def __init__(self, spark: Any, name: TableName, *, execute: bool) -> None:
        self._spark, self._name, self._execute = spark, name, execute
        with _failing(name):
            table = find(spark, name)
        if table is None:
            raise SettingsError(
                f"table {name.key} does not exist", fix="Check its name and the catalog's settings"
            )
        self._table = table

    def compact(self) -> list[MaintenanceStep]:
        """Compact small data files, then position delete files, then the manifests."""
        files = {
            content: (count, size)
            for content, count, size in self._rows(_FILES, "files GROUP BY content")
        }
        count, size = files.get(0, (0, 0))
        mean = f", {size / count / _MB:.1f} MB each on average" if count else ""
        steps = [self._step(f"{count} data files{mean}", "rewrite_data_files")]
        deletes = files.get(1, (0, 0))[0]
        if deletes:
            reason = f"{deletes} position delete files"
            steps.append(self._step(reason, "rewrite_position_delete_files"))
        ((manifests,),) = self._rows("count(*)", "manifests")
        steps.append(self._step(f"{manifests} manifests", "rewrite_manifests"))
        return steps

    def expire(self, cutoff: datetime) -> MaintenanceStep:
        """Expire snapshots before `cutoff`, but keep those that prove a query's ledger."""
        with _failing(self._name):
            self._table.refresh()
        branches = self._table.branches  # read first, so that the snapshots have main's head
        snapshots = [
            SnapshotRow(snapshot_id, parent, datetime.fromtimestamp(at / 1000, timezone.utc))
            for snapshot_id, parent, at in self._rows(_SNAPSHOTS, "snapshots")
        ]
        limit = expiry_limit(snapshots, branches, cutoff)
        older = sum(snapshot.committed_at < limit.older_than for snapshot in snapshots)
        retention = limit.branch and (
            f"snapshots since {_utc(limit.older_than)} stay: they prove that main has the "
            f"last batch of the query of branch {limit.branch}. If that query will never run "
            f"again: ALTER TABLE {self._name.sql} DROP BRANCH {limit.branch}"
        )
        reason = f"{older} of {len(snapshots)} snapshots are older than {_utc(limit.older_than)}"
        return self._step(reason, "expire_snapshots", _before(limit.older_than), retention)

    def remove_orphans(self, cutoff: datetime) -> MaintenanceStep:
        """Remove orphan files that are older than `cutoff`."""
        statement = self._statement("remove_orphan_files", _before(cutoff))
        dry = self._statement("remove_orphan_files", [*_before(cutoff), "dry_run => true"])
        orphans = len(self._sql(statement if self._execute else dry))  # both return the files
        return MaintenanceStep(
            reason=f"{orphans} orphan files are older than {_utc(cutoff)}",
            statement=statement,
            result={"removed_files_count": orphans} if self._execute else None,
        )

    def _step(
        self, reason: str, procedure: str, more: Sequence[str] = (), retention: str | None = None
    ) -> MaintenanceStep:
        statement = self._statement(procedure, more)
        result = self._sql(statement)[0].asDict() if self._execute else None
        return MaintenanceStep(
            reason=reason, statement=statement, result=result, retention=retention
        )

    def _statement(self, procedure: str, more: Sequence[str]) -> str:
        catalog, *rest = self._name.parts
        inner = TableName(tuple(rest)).sql.replace("'", "\\'")
        arguments = ", ".join([f"table => '{inner}'", *more])
        return f"CALL {TableName((catalog,)).sql}.system.{procedure}({arguments})"

    def _rows(self, columns: str, metadata: str) -> list[Any]:
        return self._sql(f"SELECT {columns} FROM {self._name.sql}.{metadata}")

    def _sql(self, text: str) -> list[Any]:
        with _failing(self._name):
            self._table.uncache()
            return list(self._spark.sql(text).collect())


def _before(moment: datetime) -> list[str]:
    return [f"older_than => TIMESTAMP '{_utc(moment)}'"]


def _utc(moment: datetime) -> str:
    """Return the time as text for a literal of Spark SQL, valid in any session time zone."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f} UTC"


@contextmanager
def _failing(name: TableName) -> Iterator[None]:
    try:
        with java_errors():
            yield
    except ThrownError as error:
        summary = in_short(error)
        if error.is_any(*_NO_PROCEDURES):
            raise SettingsError(
                f"this session cannot run Iceberg's procedures ({summary})",
                cause="they are part of Iceberg's SQL extensions",
                fix="Start the session with configure(SparkSession.builder, "
                f"iceberg=True).getOrCreate(), or with spark.sql.extensions={EXTENSION}",
            ) from error
        raise SinkError(
            f"{name.key}: maintenance stopped ({summary})",
            cause="the steps before it are done; this step has changed no rows. An interrupted "
            "expiry can leave files, which are orphan files",
            fix="Run the maintenance again; if other writers came first, at a quieter time",
        ) from error
    except JvmError as error:
        raise error.as_kind(SinkError, label=name.key) from error
