"""What Spark and Delta throw, and what a log cannot say, as typed errors."""

from __future__ import annotations

from typing import Final

from eo_listener.model.errors import (
    EoListenerError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.sinks.delta.batch_records import Doubt, QueryState
from eo_listener.spark.jvm.thrown import first_line, thrown_classes

_CONFLICTS: Final = "io.delta.exceptions."
_REFUSED: Final = (
    "org.apache.spark.sql.AnalysisException",
    "org.apache.spark.sql.delta.DeltaAnalysisException",
)
_MADE: Final = ".TableAlreadyExistsException"
_LOST: Final = ("java.io.IOException", "java.io.UncheckedIOException")


def explained(error: Exception, label: str) -> Exception:
    """What a write that failed means, where the ledger shows that it was not committed.

    Errors of the rows themselves, such as those of a function of the user's, stay as they are.
    """
    if isinstance(error, EoListenerError):
        return error
    classes = thrown_classes(error)
    if not classes:
        return OutcomeUnknownError(
            f"{label}: Spark's JVM has not answered whether a batch was written",
            cause=f"it may have ended ({type(error).__name__})",
        )
    if any(name.startswith(_CONFLICTS) for name in classes):
        return RetriableSinkError(
            f"{label}: a commit of another writer came first",
            cause=classes[0].rpartition(".")[2],
            fix="It is tried again; where it fails each time, let the other writer pause, or give "
            "it other partitions of the table",
        )
    if any(name.endswith(_MADE) for name in classes):
        return RetriableSinkError(
            f"{label} is being made by another driver",
            cause="its folder is there, and no commit yet",
            fix="Where nobody makes it, remove the folder",
        )
    if any(name in _REFUSED for name in classes):
        return SettingsError(
            f"{label} does not take such rows: {first_line(error)}",
            fix="Select, rename or cast the columns in the transform, or change the table",
        )
    if any(name in _LOST for name in classes[:1]):
        return OutcomeUnknownError(
            f"{label}: the storage has not confirmed that a batch was written",
            cause=classes[0],
        )
    return error


def in_doubt(label: str, reference: str, query: str, state: QueryState) -> SinkError:
    """Say why the heads of a query cannot be known, and how they can be again."""
    at, problem = state.doubted, f"{label}: what {query!r} has applied cannot be known"
    restore = f"RESTORE TABLE {reference} TO VERSION AS OF"
    match state.doubt:
        case Doubt.MEANWHILE:
            return SinkError(
                f"{problem}: version {at} has a batch that was judged before the table was "
                "restored or replaced, and was committed after that",
                cause="RESTORE, CREATE OR REPLACE or DROP while the query was running",
                fix=f"{restore} {at - 1}, which takes this batch back, and what came after it; "
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
                f"{problem}: Delta has batch {state.number} of it, but the log no longer has the "
                "commit with its offsets",
                cause="the query was stopped for longer than delta.logRetentionDuration",
                fix="Find the last rows of the query in the table, and start it behind them under "
                'another name, with a new checkpointLocation: exactly_once(..., name="...", '
                'on_first="accept"). Then raise delta.logRetentionDuration',
            )
