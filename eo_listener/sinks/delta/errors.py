"""What Spark and Delta throw, and what a log cannot say, as typed errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from eo_listener.model.errors import (
    EoListenerError,
    JvmError,
    OutcomeUnknownError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import TakenBack
from eo_listener.sinks.delta.batch_records import Doubt, QueryState
from eo_listener.sinks.delta.ledger import TakenBackBy
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
_MADE: Final = ".TableAlreadyExistsException"
_READ: Final = "[FAILED_READ_FILE"
_OF_TASKS: Final = (  # no task commits
    "Job aborted due to stage failure",  # Spark's DAGScheduler; Spark 4 leaves it out before these
    "[TASK_WRITE_FAILED]",
    _READ,
)
_LOST: Final = "java.io.IOException"
_ENDED: Final = "java.io.EOFException"
"""What Spark throws where a Python worker has ended, as by a function of the user's."""


def explained(error: Exception, label: str) -> Exception:
    """What a write that failed means, where the log does not show its commit.

    The storage may still carry out what it has not answered. A refusal is certain: of Delta, of
    Spark's analysis, or of a task, which runs before the commit. Errors of the rows themselves,
    such as those of a function of the user's, stay as they are; so do those of files that a source
    reads.
    """
    if isinstance(error, EoListenerError):
        return error
    chain = thrown(error)
    if not chain:
        return OutcomeUnknownError(
            f"{label}: Spark's JVM has not answered whether a batch was written",
            cause=f"it may have ended ({type(error).__name__})",
        )
    if (conflict := _of(chain, lambda name: name.startswith(_CONFLICTS))) is not None:
        return RetriableSinkError(
            f"{label}: a commit of another writer came first",
            cause=conflict.classes[0].rpartition(".")[2],
            fix="It is tried again; where it fails each time, let the other writer pause, or give "
            "it other partitions of the table",
        )
    if _of(chain, lambda name: name.endswith(_MADE)) is not None:
        return RetriableSinkError(
            f"{label} is being made by another driver",
            cause="its folder is there, and no commit yet",
            fix="Where nobody makes it, remove the folder",
        )
    if (refusal := _of(chain, lambda name: name in _REFUSED)) is not None:
        return SettingsError(
            f"{label} does not take such rows: {_without_secrets(refusal.text)}",
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
    if any(one.text.startswith(_OF_TASKS) for one in chain):
        return error if lost is None or not _is_of_storage(chain) else _refused(lost, label)
    if lost is not None:
        return OutcomeUnknownError(
            f"{label}: the storage has not confirmed that a batch was written ({_in_short(lost)})",
            cause="it is away, full, or may not be written",
            fix="Check the storage and the rights of the program's user. The log is read, and then "
            "decided",
        )
    return error


def unsupported(label: str, thrown_by: Thrown) -> SettingsError:
    """Say that a table needs what this Delta Lake, or the table so far, does not have."""
    return SettingsError(
        f"{label} has or needs a table feature: {_without_secrets(thrown_by.text)}",
        cause="another program has turned it on, or the type of a column needs it",
        fix="Use a Delta Lake that knows it, or ALTER TABLE ... DROP FEATURE; where the table only "
        "lacks it: ALTER TABLE ... SET TBLPROPERTIES ('delta.feature.<name>' = 'supported')",
    )


def unreadable(error: JvmError, label: str) -> SinkError | SettingsError:
    """What it means that the table could not be read."""
    chain = () if error.__cause__ is None else thrown(error.__cause__)
    if (feature := _of(chain, lambda name: name in _FEATURES)) is not None:
        return unsupported(label, feature)
    return RetriableSinkError(f"{label} cannot be read", cause=str(error))


def _is_of_storage(chain: Sequence[Thrown]) -> bool:
    """Return True if a task has failed to write its file, and not by what it reads or computes."""
    reads = any(one.text.startswith(_READ) for one in chain)
    return not reads and _of(chain, lambda name: name == _ENDED) is None


def _refused(lost: Thrown, label: str) -> RetriableSinkError:
    return RetriableSinkError(
        f"{label}: the storage has not taken a file of a batch ({_in_short(lost)})",
        cause="it is away, full, or may not be written",
        fix="Check the storage and the rights of the program's user; nothing of the batch is in "
        "the table, and it is written once more",
    )


def _in_short(one: Thrown) -> str:
    return _without_secrets(f"{one.classes[0].rpartition('.')[2]}: {one.text}")


def _without_secrets(text: str) -> str:
    return Secrets.configured().hidden(text)


def _of(chain: Sequence[Thrown], is_meant: Callable[[str], bool]) -> Thrown | None:
    """The outermost exception with such a class."""
    return next((one for one in chain if any(map(is_meant, one.classes))), None)


def another_table(label: str, before: DeltaTable, now: DeltaTable | None) -> SettingsError:
    """Say that a name or a path no longer means the table that the query has written to."""
    there = "there is none now" if now is None else f"it is {now.id} in {now.location} now"
    return SettingsError(
        f"{label} is another table than before: it was {before.id} in {before.location}, "
        f"and {there}",
        cause="DROP, CREATE OR REPLACE or ALTER TABLE ... SET LOCATION while the query was running",
        fix="Restart the query for it to go on by what this table has of it, from the ledger where "
        "that lacks it: starting_offsets(ledger=...); or let the name mean the old table again",
    )


def taken_back(reference: str, by: TakenBackBy, newest: int) -> TakenBack:
    """What has taken the heads of a query back, and how a RESTORE is undone."""
    commit = by.commit
    if commit is None:
        return TakenBack(
            cause=f"the table was restored or replaced: the last batch of the query, number "
            f"{by.last} of its ledger, is not in it any more, and its log does not say by which "
            "version",
            fix="",
        )
    if commit.replaces:
        return TakenBack(
            cause=f"version {commit.version} replaced the table ({commit.operation}): the batches "
            "before it are not in it any more",
            fix="",
        )
    more = "" if newest == commit.version else ", which also takes back what was committed since"
    return TakenBack(
        cause=f"version {commit.version} restored the table to version {commit.restored}: later "
        "batches are not in it any more",
        fix=f"RESTORE TABLE {reference} TO VERSION AS OF {commit.version - 1}{more}",
    )


def taken_back_meanwhile(label: str, batch_id: int, back: TakenBack) -> SinkError:
    """Say that a table was taken back between the reading of its ledger and the batch."""
    undo = f"Where it was not meant, undo it: {back.fix}. " if back.fix else ""
    return SinkError(
        f"{label} was taken back while the query was running, and its ledger with it: batch "
        f"{batch_id} was not written",
        cause=back.cause,
        fix=f"{undo}To go on from what the table has now, start the query with a new "
        "checkpointLocation, from the ledger where that has anything left: "
        "starting_offsets(ledger=...)",
    )


def in_doubt(label: str, reference: str, query: str, state: QueryState) -> SinkError:
    """Say why the heads of a query cannot be known, and how they can be again."""
    at, problem = state.doubted, f"{label}: what {query!r} has applied cannot be known"
    restore = f"RESTORE TABLE {reference} TO VERSION AS OF"
    match state.doubt:
        case Doubt.MEANWHILE:
            back = f"{restore} {at - 1}" if at > 0 else f"Remove the table {reference}"
            return SinkError(
                f"{problem}: version {at} has a batch that was judged before the table was "
                "restored or replaced, or the ledger renamed, and was committed after that",
                cause="RESTORE, CREATE OR REPLACE, DROP, or eo-listener ledger rename while the "
                "query was running",
                fix=f"{back}, which takes this batch back, and what came after it; "
                "then start from the ledger: starting_offsets(ledger=...)",
            )
        case Doubt.TIMESTAMP:
            return SinkError(
                f"{problem}: version {at} restored the table to a timestamp, and its commit does "
                "not say which version that was",
                fix=f"DESCRIBE HISTORY {reference}, then name the version: {restore} ...",
            )
        case _:
            return SinkError(
                f"{problem}: Delta has batch {state.number} of it, but its log was cleaned, and "
                "no longer has the commits that show the offsets",
                cause="the query has written nothing for longer than delta.logRetentionDuration",
                fix="Find the last rows of the query in the table, and start it behind them under "
                'another name, with a new checkpointLocation: exactly_once(..., name="...", '
                'on_first="accept"). Then raise delta.logRetentionDuration',
            )
