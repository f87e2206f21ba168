"""Has Spark's tasks write the rows of a DataFrame to Kafka, through the shim's data source."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from eo_listener.client_config.kafka_options import Partitioner
from eo_listener.spark.jvm.calls import SHIM_ROOT, asking, require_shim_class
from eo_listener.spark.jvm.stage_attempts import refuse_repeated_stages

_SINK: Final = f"{SHIM_ROOT}.sink"


class IdentityHeader(NamedTuple):
    """The header that identifies a record's row: its name, and the text around the identity."""

    name: str
    before: str
    after: str


class RecordLayout(NamedTuple):
    """The description of how tasks make records from the rows of a batch.

    `topics` are pairs of a topic and its number of partitions. `columns` are the columns that form
    a record, and `mark` is a column that is not null in rows that must not be sent.
    """

    topics: Collection[tuple[str, int]]
    tasks: int
    columns: Collection[str]
    mark: str | None

    def argument(self) -> dict[str, Any]:
        """Return the part of a request to the shim that describes the records."""
        return {
            "topics": list(self.topics),
            "tasks": self.tasks,
            "columns": dict.fromkeys(self.columns, True),
            **({} if self.mark is None else {"mark": self.mark}),
        }


def write_rows(
    frame: Any, batch: str, layout: RecordLayout, partitioner: Partitioner | None = None
) -> None:
    """Write the rows of `frame`, a classic DataFrame, in the `batch` that the shim has prepared.

    `partitioner` replaces Kafka's partitioner for rows that name no partition. Raises JvmError,
    RetriableSinkError if Spark computed a part of the rows twice, and Spark's own errors.
    """
    chosen = {} if partitioner is None else partitioner.argument()
    argument = json.dumps({**layout.argument(), **chosen})
    session = frame.sparkSession
    with refuse_repeated_stages(session):
        with _arranging():
            packer = require_shim_class(session._jvm, "sink.PackedRows")  # noqa: SLF001  # pyspark offers no public way to its JVM
            records = packer.records(frame._jdf, argument)  # noqa: SLF001  # as above
        computed = records.queryExecution().toRdd().toJavaRDD()
        with _arranging():
            packs = packer.packed(computed, argument)
            needs_sorting = packer.needSorting(computed)
            arranged = session._jsparkSession.createDataset(packs.rdd(), packer.encoder())  # noqa: SLF001  # as above
        _write(frame, batch, arranged, sort=needs_sorting)


def write_identified_rows(
    frame: Any, batch: str, layout: RecordLayout, identity: Collection[str], header: IdentityHeader
) -> None:
    """Write the rows of `frame` like `write_rows`; the columns `identity` identify a row.

    The tasks sort the rows by these columns, and write each row with the `header`. They count rows
    that the shim knows to be in Kafka, and do not send them again. Raises the errors of
    `write_rows`.
    """
    argument = {
        **layout.argument(),
        "batch": batch,
        "identity": list(identity),
        "header": header.name,
        "before": header.before,
        "after": header.after,
    }
    with refuse_repeated_stages(frame.sparkSession):
        with _arranging():
            rows = require_shim_class(frame.sparkSession._jvm, "sink.IdentifiedRows")  # noqa: SLF001  # as above
            arranged = rows.arranged(frame._jdf, json.dumps(argument))  # noqa: SLF001  # as above
        _write(frame, batch, arranged, sort=True)


def _arranging() -> AbstractContextManager[None]:
    return asking("arrange the rows of a batch")


def _write(frame: Any, batch: str, arranged: Any, *, sort: bool) -> None:
    """Have Spark write the rows `arranged`, a Java DataFrame in the session of `frame`.

    With `sort`, each task sorts its rows before it sends them.
    """
    writer = type(frame)(arranged, frame.sparkSession).write.format(f"{_SINK}.BatchProvider")
    writer.mode("append").option("batch", batch).option("sort", sort).save()
