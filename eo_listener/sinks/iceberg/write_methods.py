"""The interface between a publication and the method that writes its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eo_listener.spark.jvm.iceberg_errors import java_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.sinks.iceberg.names import TableName


class RowWriter(Protocol):
    """Writes the rows of a batch on a branch, in one attempt.

    If `appends` is True, the writer writes one snapshot, which only adds files and also has the
    ledger. The sink then need not write the batch again if main has moved.
    """

    @property
    def appends(self) -> bool: ...

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Write the rows; return their number, or None if the snapshot's summary has the number.

        Raises ThrownError.

        A writer that appends gives its snapshot this `summary`.
        """

    def concerns(self, base: int, main: int) -> bool:
        """Return True if rows appended to main between two snapshots might change the result.

        Raises ThrownError.
        """


@dataclass(frozen=True, slots=True)
class Append:
    """Appends the rows of one batch."""

    name: TableName
    frame: DataFrame
    appends = True

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Write the rows on the branch, in a snapshot with this `summary`."""
        writer = self.frame.writeTo(self.name.branch(branch))
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        with java_errors():
            writer.append()
        return None

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # same for all
        """Return False: other rows never change what an append writes."""
        return False
