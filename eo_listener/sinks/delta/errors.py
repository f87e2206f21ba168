"""Translates errors of Spark and Delta, and gaps in a log, to eo_listener's errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from eo_listener.errors import (
    EoListenerError,
    JvmError,
    OutcomeUnknownError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import TableRollback
from eo_listener.sinks.delta.commits import Doubt, QueryState
from eo_listener.sinks.delta.ledger import Rollback
from eo_listener.spark.jvm.calls import Thrown, thrown
from eo_listener.spark.jvm.delta_log import DeltaTable
from eo_listener.spark.jvm.redaction import Secrets

_CONFLICTS: Final = "io.delta.exceptions."
_REFUSED: Final = (
    "org.apache.spark.sql.AnalysisException",
    "org.apache.spark.sql.delta.DeltaAnalysisException",
)
_FEATURES: Final = (
    "org.apache.spark.sql.delta.DeltaTableFeatureException",
    "org.apache.spark.sql.delta.DeltaUnsupportedTableFeatureException",
    "org.apache.spark.sql.delta.actions.InvalidProtocolVersionException",
)
_CONSTRAINT: Final = "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException"
_NOT_EMPTY: Final = "[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION]"
_READ: Final = "[FAILED_READ_FILE"
_OF_TASKS: Final = (  # no task commits
    "Job aborted due to stage failure",  # Spark's DAGScheduler; Spark 4 leaves it out before these
    "[TASK_WRITE_FAILED]",
    _READ,
)
_LOST: Final = "java.io.IOException"
_ENDED: Final = "java.io.EOFException"
"""Spark's error if a Python worker has ended, for example in a user's function."""


def explained(error: Exception, label: str) -> Exception:
    """Return the error to raise for `error`, after a write whose commit is not in the log.

    The storage may still carry out a request that it has not answered. The failure is certain only
    if `error` comes from Delta, from Spark's analysis, or from a task, which runs before the
    commit. The function returns two kinds of errors unchanged: errors of the rows themselves, such
    as an error in a user's function, and errors about files that a source reads.
    """
    if isinstance(error, EoListenerError):
        return error
    chain = thrown(error)
    if not chain:
        return OutcomeUnknownError(
            f"{label}: Spark's JVM did not answer whether a batch was written",
            cause=f"it may have ended ({type(error).__name__})",
        )
    if (conflict := _of(chain, lambda name: name.startswith(_CONFLICTS))) is not None:
        return RetriableSinkError(
            f"{label}: another writer committed first",
            cause=conflict.classes[0].rpartition(".")[2],
            fix="Nothing to do: the batch is retried. If it fails each time, let the other "
            "writer pause, or give it other partitions of the table",
        )
    if (refusal := _of(chain, lambda name: name in _REFUSED)) is not None:
        if _NOT_EMPTY in refusal.text:
            return SettingsError(
                f"{label} cannot be created: the folder that its catalog chooses is not empty",
                cause="a dropped table left its files there, or a driver was killed before the "
                "catalog had the new table",
                fix="Remove the folder, unless it has rows that you need",
            )
        return SettingsError(
            f"{label} does not accept the rows: {_without_secrets(refusal.text)}",
            fix="Select, rename or cast the columns in the transform, or change the table",
        )
    if (feature := _of(chain, lambda name: name in _FEATURES)) is not None:
        return unsupported(label, feature)
    if (violation := _of(chain, lambda name: name == _CONSTRAINT)) is not None:
        return PoisonRowError(
            f"a row cannot be written to {label}: {_without_secrets(violation.text)}",
            partition=None,
            offset=None,
            cause="it violates a constraint of the table, CHECK or NOT NULL; nothing was written",
            fix="Correct or filter such rows in the transform, or ALTER TABLE ... DROP CONSTRAINT",
        )
    lost = _of(chain, lambda name: name == _LOST)
    if any(exception.text.startswith(_OF_TASKS) for exception in chain):
        return error if lost is None or not _is_of_storage(chain) else _refused(lost, label)
    if lost is not None:
        return OutcomeUnknownError(
            f"{label}: the storage did not confirm that a batch was written ({_in_short(lost)})",
            cause="it is unavailable, full or not writable",
            fix="Check the storage and the permissions of the program's user. The sink reads "
            "the log to see if the batch was written",
        )
    return error


def unsupported(label: str, thrown_by: Thrown) -> SettingsError:
    """Return the error for a feature that the installed Delta Lake, or the table, does not have."""
    return SettingsError(
        f"{label} has or needs a table feature: {_without_secrets(thrown_by.text)}",
        cause="another program enabled it, or a column type needs it",
        fix="Use a Delta Lake that supports it, or ALTER TABLE ... DROP FEATURE; if the table "
        "only lacks it: ALTER TABLE ... SET TBLPROPERTIES ('delta.feature.<name>' = 'supported')",
    )


def unreadable(error: JvmError, label: str) -> SinkError | SettingsError:
    """Return the error for a table that could not be read."""
    chain = () if error.__cause__ is None else thrown(error.__cause__)
    if (feature := _of(chain, lambda name: name in _FEATURES)) is not None:
        return unsupported(label, feature)
    return RetriableSinkError(f"cannot read {label}", cause=str(error))


def _is_of_storage(chain: Sequence[Thrown]) -> bool:
    """Return True if a task failed while it wrote its file, not while it read or computed rows."""
    reads = any(exception.text.startswith(_READ) for exception in chain)
    return not reads and _of(chain, lambda name: name == _ENDED) is None


def _refused(lost: Thrown, label: str) -> RetriableSinkError:
    return RetriableSinkError(
        f"{label}: the storage did not accept a file of a batch ({_in_short(lost)})",
        cause="it is unavailable, full or not writable",
        fix="Check the storage and the permissions of the program's user; nothing of the "
        "batch is in the table, and the batch is retried",
    )


def _in_short(exception: Thrown) -> str:
    return _without_secrets(f"{exception.classes[0].rpartition('.')[2]}: {exception.text}")


def _without_secrets(text: str) -> str:
    return Secrets.configured().hidden(text)


def _of(chain: Sequence[Thrown], is_meant: Callable[[str], bool]) -> Thrown | None:
    """Return the outermost exception of `chain` with a class that `is_meant` accepts, or None."""
    return next((exception for exception in chain if any(map(is_meant, exception.classes))), None)


def another_table(label: str, before: DeltaTable, now: DeltaTable | None) -> SettingsError:
    """Return the error for a name or path that no longer leads to the table with the ledger."""
    state = "the table no longer exists" if now is None else f"it is now {now.id} in {now.location}"
    return SettingsError(
        f"{label} has been replaced by another table: it was {before.id} in {before.location}, "
        f"and {state}",
        cause="DROP, CREATE OR REPLACE or ALTER TABLE ... SET LOCATION while the query was running",
        fix="(1) To continue with the new table, restart the query; if its checkpoint does "
        "not fit, start from the ledger: starting_offsets(ledger=...). (2) Or let the name "
        "refer to the old table again",
    )


def taken_back(reference: str, rollback: Rollback, newest: int) -> TableRollback:
    """Return the cause of the rollback of a query's heads and, for a RESTORE, how to undo it."""
    commit = rollback.commit
    if commit is None:
        return TableRollback(
            cause="the table was restored or replaced: it no longer has the last batch of the "
            f"query, number {rollback.last} of its ledger, and its log does not show in which "
            "version that happened",
            fix="",
        )
    if commit.replaces:
        return TableRollback(
            cause=f"version {commit.version} replaced the table ({commit.operation}): the "
            "table no longer has the batches before that version",
            fix="",
        )
    more = (
        "" if newest == commit.version else ", which also removes everything committed since then"
    )
    return TableRollback(
        cause=f"version {commit.version} restored the table to version {commit.restored}: it "
        "no longer has later batches",
        fix=f"RESTORE TABLE {reference} TO VERSION AS OF {commit.version - 1}{more}",
    )


def taken_back_meanwhile(label: str, batch_id: int, back: TableRollback) -> SinkError:
    """Return the error for a table that was rolled back after its ledger was read for a batch."""
    undo = f"If it was not intended, undo it: {back.fix}. " if back.fix else ""
    return SinkError(
        f"{label} and its ledger were rolled back while the query was running: batch {batch_id} "
        "was not written",
        cause=back.cause,
        fix=f"{undo}To continue from the table's current state, start the query with a new "
        "checkpointLocation, from the ledger if it still has offsets: starting_offsets(ledger=...)",
    )


def in_doubt(label: str, reference: str, query: str, state: QueryState) -> SinkError:
    """Return the error for heads that cannot be determined; its fix explains the repair."""
    at, problem = state.doubted, f"{label}: cannot determine which batches {query!r} has applied"
    restore = f"RESTORE TABLE {reference} TO VERSION AS OF"
    match state.doubt:
        case Doubt.MEANWHILE:
            back = f"{restore} {at - 1}" if at > 0 else f"Remove the table {reference}"
            return SinkError(
                f"{problem}: version {at} has a batch that was judged before the table was "
                "restored or replaced, or the ledger renamed, but committed afterwards",
                cause="RESTORE, CREATE OR REPLACE, DROP, or eo-listener ledger rename while the "
                "query was running",
                fix=f"{back}, which removes this batch and everything after it; then start "
                "from the ledger: starting_offsets(ledger=...)",
            )
        case Doubt.TIMESTAMP:
            return SinkError(
                f"{problem}: version {at} restored the table to a timestamp, and its commit does "
                "not name that version",
                fix=f"DESCRIBE HISTORY {reference}, then name the version: {restore} ...",
            )
        case _:
            return SinkError(
                f"{problem}: Delta has batch {state.number} of it, but the log was cleaned and "
                "no longer has the commits with the offsets",
                cause="the query has written nothing for longer than delta.logRetentionDuration",
                fix="(1) Find the last rows of the query in the table. (2) Start the query after "
                "them under another name, with a new checkpointLocation: exactly_once(..., "
                'name="...", on_first="accept"). (3) Raise delta.logRetentionDuration',
            )
