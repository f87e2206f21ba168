"""What the errors of Iceberg and of its catalogs mean for a batch."""

from __future__ import annotations

import re
from typing import Final

from eo_listener.model.errors import (
    OutcomeUnknownError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.spark.jvm.iceberg_table import ThrownError

ABSENT: Final = ("NoSuchTableException", "NoSuchViewException")
NO_NAMESPACE: Final = ("NoSuchNamespaceException",)
EXISTS: Final = ("AlreadyExistsException", "TableAlreadyExistsException")
_REFUSED: Final = (
    "CommitFailedException",
    "PendingUpdateFailedException",
    "ValidationException",
    "IllegalArgumentException",
)
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
"""Spark's name for it; it must never occur, as one row of each key is merged."""
_FORBIDDEN: Final = ("ForbiddenException", "NotAuthorizedException", "AccessControlException")
_SHOWN: Final = 300
"""How many characters of what an exception says are shown."""
_SECRETS: Final = re.compile(r"(?i)((?:password|secret|token|credential)[\w.-]*\s*[=:]\s*)\S+")


def is_refusal(error: ThrownError) -> bool:
    """Whether a commit that has failed with it is refused: nothing of it was made."""
    return error.is_any(*_REFUSED) and not error.is_any("CommitStateUnknownException")


def is_temporary(error: ThrownError) -> bool:
    """Whether the batch is to be written once more after it."""
    return _is_conflict(error) or error.is_any(*_AWAY)


def translated(error: ThrownError, label: str) -> SinkError | SettingsError:
    """What an error means that came before the batch was published: nothing of it was written."""
    name = error.classes[0].rpartition(".")[2]
    said = f"{name}: {first_line(error.text)}"
    if _is_conflict(error):
        return RetriableSinkError(
            f"{label}: another commit came first ({said})",
            cause="other programs write to the table at the same time",
            fix="Nothing to do: the batch is written once more",
        )
    if _SEVERAL in error.text:
        return SinkError(
            f"{label}: several rows of the batch match one row of the table",
            cause="the columns of keys= are compared otherwise in a MERGE than within the batch",
            fix="Use keys of simple types, such as numbers and strings; nothing was written",
        )
    if error.is_any(*_FORBIDDEN):
        return SinkError(
            f"{label}: the catalog or the storage refuses access ({said})",
            fix="Give the program's user the right to write this table",
        )
    if error.is_any(*_AWAY):
        return RetriableSinkError(
            f"{label} cannot be reached ({said})",
            cause="the catalog or the storage is away",
            fix="Check the catalog's settings, spark.sql.catalog.*, and whether it runs",
        )
    if error.is_any("AnalysisException", "ValidationException", "IllegalArgumentException"):
        return SettingsError(
            f"{label} does not take these rows ({said})",
            cause="a column's type or a setting of the table does not fit them",
            fix="Cast the columns in the transform, or alter the table",
        )
    return SinkError(
        f"{label}: Iceberg failed ({said})", fix="Read Spark's log for the whole of it"
    )


def unanswered(error: Exception, label: str) -> OutcomeUnknownError:
    """What an error means that came when the batch was published, and does not say whether."""
    said = type(error).__name__
    if isinstance(error, ThrownError):
        said = f"{error.classes[0].rpartition('.')[2]}: {first_line(error.text)}"
    return OutcomeUnknownError(
        f"{label}: whether the batch was published is not known ({said})",
        cause="the catalog was asked to commit it, and its answer was lost",
        fix="Nothing to do: the table is read, and then decided",
    )


def _is_conflict(error: ThrownError) -> bool:
    # A commit that was made, and refused all the same, is a conflict with itself when Iceberg
    # repeats it: nobody else writes to the branch of a batch.
    itself = error.is_any("ValidationException") and "conflicting" in error.text
    return itself or error.is_any("CommitFailedException", "CommitStateUnknownException")


def first_line(text: str) -> str:
    """The first line of what an exception says, without secrets, for a text of ours."""
    line = text.strip().split("\n", 1)[0]
    return _SECRETS.sub(r"\1***", line)[:_SHOWN]
