"""Translates errors of Iceberg and its catalogs to errors of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from eo_listener.errors import (
    JvmError,
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.spark.checkpoint.location import shown
from eo_listener.spark.jvm.iceberg_errors import ThrownError

_ABSENT_TABLE: Final = "NoSuchTableException"
ABSENT: Final = (_ABSENT_TABLE, "NoSuchViewException")
NO_NAMESPACE: Final = ("NoSuchNamespaceException",)
EXISTS: Final = ("AlreadyExistsException", "TableAlreadyExistsException")
_REFUSED: Final = (
    "CommitFailedException",
    "PendingUpdateFailedException",
    "ValidationException",
    "IllegalArgumentException",
)
_ANSWERED: Final = ("BadRequestException", "ValidationException", "IllegalArgumentException")
_OVERTAKEN: Final = ("older than last sequence number", "first-row-id is behind")
"""Texts in the error of a commit whose base metadata was out of date after another commit.

A server of Iceberg's REST catalog up to 1.10 reports such a commit as a malformed request
(apache/iceberg#15001).
"""
_CLOCK: Final = ("Invalid update timestamp", "Invalid snapshot timestamp")
_AWAY: Final = (
    "ServiceFailureException",
    "ServiceUnavailableException",
    "UncheckedSQLException",
    "UncheckedInterruptedException",
    "RuntimeIOException",
    "UncheckedIOException",
    "IOException",
    "RESTException",
)
_SEVERAL: Final = "MERGE_CARDINALITY_VIOLATION"
"""Spark's error for several source rows with one key; a sink's MERGE must never cause it."""
_FORBIDDEN: Final = ("ForbiddenException", "NotAuthorizedException", "AccessControlException")
_NO_DRIVER: Final = "No suitable driver"
_NULL: Final = (
    "NULL value appeared in non-nullable field",
    "Null value appeared in non-nullable field",  # of Spark 3.5
)
_ANOTHER: Final = "Table UUID does not match"
"""Iceberg's error on refreshing a table whose name now belongs to another table."""
_SHOWN: Final = 300
"""How many characters of an exception's text an error of eo_listener shows."""


def is_refusal(error: ThrownError) -> bool:
    """Return True if `error` means that the commit was refused, so that nothing has changed."""
    refused = error.is_any(*_REFUSED) or _is_overtaken(error)
    return refused and not error.is_any("CommitStateUnknownException")


def is_temporary(error: ThrownError) -> bool:
    """Return True if the batch should be written again after `error`."""
    return is_conflict(error) or is_of_clock(error) or error.is_any(*_AWAY)


def refused_alone(error: ThrownError, label: str) -> SinkError:
    """Return the error for a refused commit, if no other commit was the cause.

    The catalog would refuse a retry too, so the error is final. It is retriable only if a
    difference between clocks caused the refusal.
    """
    if is_of_clock(error):
        return _of_clock(error, label)
    return SinkError(
        f"{label} refuses the commit of a batch ({in_short(error)})",
        cause="no other program has changed the table in the meantime, so a retry would be refused "
        "again",
        fix="Nothing was written. Read the whole error in Spark's log",
    )


def translated(error: ThrownError, label: str) -> SinkError | SettingsError:
    """Return the error for a failure before the batch was published: no row was written."""
    text = in_short(error)
    if is_of_clock(error):
        return _of_clock(error, label)
    if is_conflict(error):
        return RetriableSinkError(
            f"{label}: another commit came first ({text})",
            cause="other programs write to the table at the same time",
            fix="Nothing to do: the batch is retried",
        )
    if error.says(_SEVERAL):
        return SinkError(
            f"{label}: several rows of the batch match one row of the table",
            cause="the columns of keys= are compared differently in a MERGE than within the batch",
            fix="Nothing was written. Use keys of simple types, such as numbers and strings",
        )
    if error.says(*_NULL):
        return SinkError(
            f"{label}: a row has a null in a column that the table requires (NOT NULL)",
            fix="Nothing was written. Replace the null or filter out the row in the transform, or "
            'pass dead_letters="..." to collect such rows',
        )
    if error.is_any(_ABSENT_TABLE) or error.says(_ANOTHER):
        return table_dropped(label, text)
    if error.is_any(*_FORBIDDEN):
        return SinkError(
            f"{label}: the catalog or the storage refuses access ({text})",
            fix="Allow the program's user to write to this table",
        )
    if error.is_any(*_AWAY):
        return RetriableSinkError(
            f"{label}: the catalog or the storage has failed ({with_cause(error)})",
            cause="it is unavailable, locked, full or not writable",
            fix="Check that both are running, have free space and let this user write; then "
            "check the settings of the catalog, spark.sql.catalog.*",
        )
    if error.is_any("AnalysisException", "ValidationException", "IllegalArgumentException"):
        return SettingsError(
            f"{label} does not accept these rows ({text})",
            cause="a column's type or a setting of the table does not fit the rows",
            fix="Cast the columns in the transform, or alter the table",
        )
    return SinkError(f"{label}: Iceberg failed ({text})", fix="Read the whole error in Spark's log")


@contextmanager
def translating(label: str) -> Iterator[None]:
    """Raise errors of Java and Py4J in the block as the errors that `translated` returns."""
    try:
        yield
    except ThrownError as error:
        raise translated(error, label) from error
    except JvmError as error:
        raise error.as_kind(SinkError, label=label) from error


def unreadable(error: ThrownError, label: str, catalog: str) -> SinkError | SettingsError:
    """Return the error for a failed read of a table."""
    text = in_short(error)
    if error.is_any(*_FORBIDDEN):
        return SinkError(
            f"{label}: the catalog or the storage refuses access ({text})",
            fix="Allow the user of this command to read the table",
        )
    if error.is_any(*_AWAY) and not error.says(_NO_DRIVER):
        return translated(error, label)
    if error.is_any("NotFoundException"):
        return SinkError(
            f"cannot read {label} ({text})",
            cause="the user of this command may not read the files of the table, or they no "
            "longer exist",
            fix="Allow the user to read them, or restore them",
        )
    return SinkError(
        f"cannot read {label} ({text})",
        cause=f"the settings of catalog {catalog} differ from those of the query, a jar is "
        "missing (a database driver, a file system), or the table's files are damaged",
        fix="Pass the jars and settings of the query: --spark-conf spark.jars.packages=..., "
        f"--spark-conf spark.sql.catalog.{catalog}...=..., or spark-defaults.conf",
    )


def unanswered(error: Exception, label: str) -> OutcomeUnknownError:
    """Return the error for a publication that failed with an unknown outcome."""
    text = with_cause(error) if isinstance(error, ThrownError) else type(error).__name__
    return OutcomeUnknownError(
        f"{label}: cannot tell if the batch was published ({text})",
        cause="the commit was sent to the catalog, but its answer was lost",
        fix="Nothing to do: the sink reads the table to find out",
    )


def not_on_branch(label: str, branch: str) -> SettingsError:
    """Return the error for a batch whose rows were not written to its branch."""
    return SettingsError(
        f"{label}: the rows were not written to branch {branch}",
        cause="a setting of the session or the table sends writes elsewhere, such as "
        "spark.wap.id or spark.wap.branch with write.wap.enabled",
        fix="Remove that setting",
    )


def branch_dropped(label: str, branch: str) -> RetriableSinkError:
    """Return the error for a batch whose branch no longer exists."""
    return RetriableSinkError(
        f"{label}: branch {branch} of this batch no longer exists",
        cause="another driver of this query has published a batch, or the branch was dropped",
        fix="Nothing to do: the batch is retried",
    )


def branch_damaged(label: str, branch: str) -> RetriableSinkError:
    """Return the error for a batch whose branch cannot be read."""
    return RetriableSinkError(
        f"{label}: branch {branch} of this batch has lost its manifest list",
        cause="Iceberg up to 1.10 deletes it after a commit that succeeded but was not confirmed",
        fix="Use Iceberg 1.11. This branch is not published, and the batch is retried",
    )


def table_replaced(label: str, query: str, branch: str) -> SinkError:
    """Return the error for a table that was replaced; `branch` has the rows of the old table."""
    return SinkError(
        f"{label} was replaced: it no longer has the rows and the ledger of {query!r}",
        cause="another program ran CREATE OR REPLACE TABLE while the query was running",
        fix="To write everything into the new table, start the query with a new "
        f"checkpointLocation; the previous rows are in branch {branch}",
    )


def table_dropped(label: str, observation: str) -> SinkError:
    """Return the error for a table that is gone with its ledger; `observation` is the evidence."""
    return SinkError(
        f"{label} is no longer the table whose ledger was read ({observation}); nothing was "
        "written",
        cause="it was dropped or renamed while the query was running, and perhaps recreated",
        fix="Restore the table, or rename it back. To write everything into a new table, "
        "start the query with a new checkpointLocation",
    )


def overtaken(label: str, batch_id: int) -> RetriableSinkError:
    """Return the error for a batch that could not be published because other commits came first."""
    return RetriableSinkError(
        f"{label}: other commits came first while batch {batch_id} was being written",
        cause="other programs write to the table, or compact it, at the same time",
        fix="Nothing to do: the batch is retried",
    )


def computed_in_vain(
    label: str, batch_id: int, by: str, *, times: int, seconds: float
) -> RetriableSinkError:
    """Return the error for a batch whose changes other commits made invalid `times` times.

    `by` describes the last of these commits; `seconds` is the duration of all attempts.
    """
    return RetriableSinkError(
        f"{label}: other writers moved main each time that batch {batch_id} was written, {times} "
        f"times in {seconds:.1f} s (the last time: {by})",
        cause=f"a MERGE or apply= takes {seconds / times:.1f} s to compute, and commits that "
        "may change its result move main more often than that: another MERGE, UPDATE or "
        "DELETE, rows with its keys, or a compaction of the files that it changes",
        fix="The batch is retried. (1) Let the other program pause or commit less often. (2) "
        "Compact only partitions that batches do not change (where =>), or compact between two "
        "batches: maintain_iceberg(...) in the function that foreachBatch calls",
    )


def is_conflict(error: ThrownError) -> bool:
    """Return True if another commit came first, possibly an earlier attempt of this commit."""
    # If Iceberg repeats a commit that succeeded without confirmation, the commit conflicts with
    # itself: nobody else writes to the branch of a batch.
    itself = error.is_any("ValidationException") and error.says("conflicting")
    named = error.is_any("CommitFailedException", "CommitStateUnknownException")
    return itself or named or _is_overtaken(error)


def _is_overtaken(error: ThrownError) -> bool:
    return error.is_any(*_ANSWERED) and error.says(*_OVERTAKEN)


def is_of_clock(error: ThrownError) -> bool:
    """Return True if Iceberg refuses the commit because the last commit has a later time."""
    return error.is_any(*_ANSWERED) and error.says(*_CLOCK)


def _of_clock(error: ThrownError, label: str) -> RetriableSinkError:
    return RetriableSinkError(
        f"{label} refuses a commit that is older than its last one ({in_short(error)})",
        cause="the clock of this machine is more than a minute behind that of a program that "
        "wrote to the table",
        fix="Synchronise both clocks (NTP); the batch is retried",
    )


def in_short(error: ThrownError) -> str:
    """Return the exception's class, and the first line of its text."""
    return f"{error.classes[0].rpartition('.')[2]}: {first_line(error.text)}"


def with_cause(error: ThrownError) -> str:
    """Return the text of `in_short`, with the root cause (the storage's error) if it adds more."""
    text = in_short(error)
    if not error.causes or first_line(error.causes[-1]) in text:
        return text
    return f"{text}; {error.classes[-1].rpartition('.')[2]}: {first_line(error.causes[-1])}"


def first_line(text: str) -> str:
    """Return the first line of an exception's text, without secrets and cut to _SHOWN."""
    return shown(text.strip().split("\n", 1)[0])[:_SHOWN]
