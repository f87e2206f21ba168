"""Upserts rows by their keys, with one MERGE on the branch of the batch.

The MERGE compares the batch's rows with the rows that main had when the branch was made. So the
sink may publish the MERGE after another commit only if that commit has neither added a row with one
of the batch's keys nor moved such a row to another file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eo_listener.sinks.spark_columns import types_of
from eo_listener.sinks.spark_merge import Merge
from eo_listener.spark.jvm.iceberg_errors import ThrownError, java_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from eo_listener.sinks.iceberg.names import TableName
    from eo_listener.sinks.target import Target
    from eo_listener.spark.jvm.iceberg_table import IcebergTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Merges the rows of one batch, which are in `view`."""

    name: TableName
    table: IcebergTable
    merge: Merge
    session: SparkSession
    view: str
    appends = False

    @classmethod
    @contextmanager
    def staged(
        cls,
        name: TableName,
        table: IcebergTable,
        frame: DataFrame,
        *,
        columns: tuple[str, ...],
        target: Target,
        label: str,
    ) -> Iterator[Upsert]:
        """Compute the rows of `frame` once; `columns` are the columns to write.

        Raises the errors of `Merge.staged`.
        """
        merge = Merge(
            target=target,
            table=name.sql,
            label=label,
            rows=types_of(frame.schema),
            columns=columns,
            uuids=table.uuids(target.keys),
        )
        with merge.staged(frame) as view:
            yield cls(name=name, table=table, merge=merge, session=frame.sparkSession, view=view)

    def write(self, branch: str, summary: Mapping[str, str]) -> int | None:  # noqa: ARG002  # the publication adds it
        """Merge the rows on the branch; return the number of their keys.

        Raises the errors of `Merge.check_table`, and ThrownError.
        """
        merge = replace(self.merge, table=self.name.branch(branch))
        with java_errors():
            merge.check_table(self.session, self.view)
            count = merge.count(self.session, self.view)
            if count:
                self.table.uncache()
                self.session.sql(merge.statement(self.view)).collect()
            return count

    def concerns(self, base: int, main: int) -> bool:
        """Return True if a row appended to main has a key of the batch.

        Also return True if the appended rows cannot be read.
        """
        try:
            return self._concerns(base, main)
        except ThrownError:  # the snapshots may be gone; any other fault will show again
            return True

    def _concerns(self, base: int, main: int) -> bool:
        self.table.uncache()
        with java_errors():
            reader = self.session.read.option("start-snapshot-id", str(base))
            appended = reader.option("end-snapshot-id", str(main)).table(self.name.sql)
            return self.merge.concerns(self.session, self.view, appended)
