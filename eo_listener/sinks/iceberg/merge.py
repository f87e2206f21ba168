"""Rows that are upserted by their keys: one MERGE on the branch of the batch.

It compares them with the table as main had it when the branch was made. So nothing of it may be
published behind another commit: where main has moved, the MERGE is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eo_listener.sinks.spark_columns import columns_of
from eo_listener.sinks.spark_merge import Merge
from eo_listener.spark.jvm.iceberg_table import java_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from eo_listener.sinks.iceberg.names import TableName
    from eo_listener.sinks.target import Target
    from eo_listener.spark.jvm.iceberg_table import IcebergTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Merges the rows of one batch, of which `columns` are written."""

    name: TableName
    table: IcebergTable
    frame: DataFrame
    columns: tuple[str, ...]
    target: Target
    label: str
    appends = False

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # it is published with them
        """Return how many keys the rows have. Raises as `Merge.staged` does."""
        merge = Merge(
            target=self.target,
            table=self.name.branch(branch),
            label=self.label,
            rows=columns_of(self.frame),
            columns=self.columns,
        )
        session = self.frame.sparkSession
        with java_errors(), merge.staged(self.frame) as view:
            given = merge.count(session, view)
            if given:
                self.table.uncache()
                session.sql(merge.statement(view)).collect()
            return given
