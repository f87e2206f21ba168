"""Have Spark's tasks write the rows of a DataFrame into a transaction, by the shim's format."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from eo_listener.client_config.producer_options import Partitioner
from eo_listener.model.errors import JvmError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_jvm import SHIM_ROOT, class_of

_SINK: Final = f"{SHIM_ROOT}.sink"


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
    """Write the rows of `frame`, a classic DataFrame, as was prepared in the shim for `batch`.

    `topics` are pairs of a topic and its number of partitions, `columns` which of a record's
    columns are used, `mark` the column that is not null in rows that are not to be sent;
    `partitioner` is asked for rows that name no partition, instead of Kafka's own. Raises JvmError,
    and what Spark raises.
    """
    argument = {
        "topics": list(topics),
        "tasks": tasks,
        "columns": dict.fromkeys(columns, True),
        **({} if mark is None else {"mark": mark}),
        **({} if partitioner is None else partitioner.argument()),
    }
    session = frame.sparkSession
    with asking("arrange the rows of a batch"):
        found = class_of(session._jvm, f"{_SINK}.RowColumns")  # noqa: SLF001  # pyspark offers no public way to its JVM
        if found is None:
            raise JvmError(
                "Spark's JVM has no shim, or an older one",
                cause="its jar was not given to Spark",
                fix="Give Spark the jar that `eo-listener jar` names, by spark.jars or --jars",
            )
        arranged = found.arranged(frame._jdf, json.dumps(argument))  # noqa: SLF001  # as above
    writer = type(frame)(arranged, session).write.format(f"{_SINK}.TransactionProvider")
    writer.mode("append").option("batch", batch).save()
