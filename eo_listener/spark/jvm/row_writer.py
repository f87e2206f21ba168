"""Has Spark's tasks write the rows of a DataFrame to Kafka, through the shim's data source."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from eo_listener.client_config.kafka_options import Partitioner
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_jvm import SHIM_ROOT, require_shim_class
from eo_listener.spark.jvm.stage_attempts import refuse_repeated_stages

_SINK: Final = f"{SHIM_ROOT}.sink"


class IdentityHeader(NamedTuple):
    """The header that identifies a record's row: its name, and the text around the identity."""

    name: str
    before: str
    after: str


def write_rows(
    frame: Any,
    batch: str,
    *,
    topics: Collection[tuple[str, int]],
    tasks: int,
    columns: Collection[str],
    mark: str | None,
    partitioner: Partitioner | None = None,
) -> None:
    """Write the rows of `frame`, a classic DataFrame, for which the shim has prepared `batch`.

    `topics` are pairs of a topic and its number of partitions. `columns` are the columns that make
    a record, and `mark` is a column that is not null in rows that must not be sent. `partitioner`
    replaces Kafka's partitioner for rows that name no partition. Raises JvmError,
    RetriableSinkError if Spark computed a part of the rows twice, and Spark's own errors.
    """
    argument = json.dumps(
        {
            **_argument(topics, tasks, columns, mark),
            **({} if partitioner is None else partitioner.argument()),
        }
    )
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
    frame: Any,
    batch: str,
    *,
    topics: Collection[tuple[str, int]],
    tasks: int,
    columns: Collection[str],
    mark: str | None,
    identity: Collection[str],
    header: IdentityHeader,
) -> None:
    """Write the rows of `frame` like `write_rows`; the columns `identity` identify a row.

    The tasks sort the rows by these columns, and write each row with the `header`. They count rows
    that the shim knows to be in Kafka, and do not send them again. Raises the errors of
    `write_rows`.
    """
    argument = {
        **_argument(topics, tasks, columns, mark),
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


def _argument(
    topics: Collection[tuple[str, int]], tasks: int, columns: Collection[str], mark: str | None
) -> dict[str, Any]:
    return {
        "topics": list(topics),
        "tasks": tasks,
        "columns": dict.fromkeys(columns, True),
        **({} if mark is None else {"mark": mark}),
    }


def _arranging() -> AbstractContextManager[None]:
    return asking("arrange the rows of a batch")


def _write(frame: Any, batch: str, arranged: Any, *, sort: bool) -> None:
    """Have Spark write the rows `arranged`, a Java DataFrame in the session of `frame`.

    With `sort`, each task sorts its rows before it sends them.
    """
    writer = type(frame)(arranged, frame.sparkSession).write.format(f"{_SINK}.BatchProvider")
    writer.mode("append").option("batch", batch).option("sort", sort).save()
