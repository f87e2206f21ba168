"""Rows that are appended, by one snapshot that has the ledger too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eo_listener.spark.jvm.iceberg_errors import java_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from eo_listener.sinks.iceberg.names import TableName


@dataclass(frozen=True, slots=True)
class Append:
    """Appends the rows of one batch."""

    name: TableName
    frame: DataFrame
    appends = True

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:
        """Write them on the branch."""
        writer = self.frame.writeTo(self.name.branch(branch))
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        with java_errors():
            writer.append()
        return None

    def concerns(self, base: int, main: int) -> bool:  # noqa: ARG002  # whichever they are
        """They cannot."""
        return False
