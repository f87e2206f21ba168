"""The rows of a DataFrame on the driver, as Arrow batches, in bounded memory.

Spark hands a task's rows to the driver as a whole: its JVM holds two tasks at a time, one that is
read and one that is made ready. So a frame whose tasks are planned larger than `task_rows` is cut
into more of them first.

Task by task is a job each. When an executor is lost between two of them, Spark computes its part of
a shuffle again, and forgets that rows of the old one have been read: rows that come in another
order the second time are lost or doubled. So rows are cut by their place, not by their values, and
a frame with a shuffle of the user's is computed by one job and kept until all its tasks are read.
If a kept part is lost too, the batch is to be written once more, from its beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from eo_listener.errors import SinkError, TryAgainError
from eo_listener.plan import Plan
from eo_listener.sinks.arrow_schema import arrow_schema

TASK_ROWS: Final = 25_000
"""How many planned rows a task may have, and a batch that comes as one."""

_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
_TOO_MANY = "spark.driver.maxResultSize"
_LOST = "Checkpoint block"
_ORDINAL = "eo_ordinal"
_SHUFFLE: Final = re.compile(r"\+-\(\d+\)")  # as Spark draws it in the lineage of an RDD


def stream(
    frame: Any,
    plan: Plan,
    *,
    task_rows: int = TASK_ROWS,
    ordered: bool = False,
    by_task: bool = False,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of `frame`, a DataFrame, by record batches of its columns.

    Timestamps are in UTC. A cut loses the order of rows; with `ordered` it keeps the order within
    a partition, at the price of running the frame twice. With `by_task` also few planned rows come
    task by task: those of a query with state may be many. Close the iterator when it is left early.
    Raises SettingsError for a type that Arrow has no form for, SinkError where Spark says that a
    task's rows are too many, TryAgainError where rows that were kept are lost.
    """
    schema = schema_of(frame)
    planned = planned_rows(plan)
    at_once = planned <= task_rows and not by_task
    is_kept = not at_once and not is_far(frame) and _may_change(frame)
    if planned > task_rows:
        tasks = tasks_wanted(plan, _partitions(frame), task_rows)
        frame = _cut(frame, tasks, ordered=ordered) if tasks else frame
    if is_far(frame):  # one job, whose rows come as they are ready
        yield from _far_batches(frame, schema)
        return
    with closing(_messages(frame, at_once=at_once, is_kept=is_kept)) as messages:
        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def schema_of(frame: Any) -> pa.Schema:
    """Return the columns of `frame` as Arrow's. Raises SettingsError for a type without a form."""
    if is_far(frame):
        return arrow_schema(frame.schema.jsonValue(), large=_large(frame))
    told = frame._jdf.schema().json()  # noqa: SLF001  # pyspark 3.5 stumbles over intervals
    return arrow_schema(json.loads(told), large=_large(frame))


def tasks_wanted(plan: Plan, partitions: int, task_rows: int) -> int | None:
    """Return into how many tasks a frame of so many partitions is to be cut; None: not at all.

    A task may have a whole partition of Kafka, and, after a shuffle, its part of all of them.
    """
    planned = planned_rows(plan)
    longest = max(_lengths(plan), default=0)
    if max(longest, planned / max(partitions, 1)) <= task_rows:
        return None
    return -(-planned // task_rows)


def planned_rows(plan: Plan) -> int:
    """Return how many offsets a batch has; transaction markers and holes count too."""
    return sum(_lengths(plan))


def is_far(frame: Any) -> bool:
    """Whether it is a DataFrame of Spark Connect, whose JVM is another process's."""
    return getattr(frame, "_jdf", None) is None


def _lengths(plan: Plan) -> Iterator[int]:
    return (it.until - it.start for spans in plan.sources.values() for it in spans.values())


def _partitions(frame: Any) -> int:
    if is_far(frame):
        return 1  # it does not say: as if they were all one
    jvm = frame._jdf  # noqa: SLF001  # pyspark's own `rdd` adds a step in Python to ask it
    return int(jvm.queryExecution().toRdd().getNumPartitions())


def _may_change(frame: Any) -> bool:
    """Whether rows may be others, or in other tasks, when a part is computed a second time."""
    told = frame._jdf.queryExecution()  # noqa: SLF001  # pyspark does not say it
    return (
        not told.optimizedPlan().deterministic()
        or _SHUFFLE.search(told.toRdd().toDebugString()) is not None
    )


def _large(frame: Any) -> bool:
    return str(frame.sparkSession.conf.get(_LARGE, "false")).lower() == "true"


def _cut(frame: Any, tasks: int, *, ordered: bool) -> Any:
    placed = frame.selectExpr("*", f"monotonically_increasing_id() AS {_ORDINAL}")
    if not ordered:
        return placed.repartition(tasks, _ORDINAL).drop(_ORDINAL)
    return placed.repartitionByRange(tasks, _ORDINAL).sortWithinPartitions(_ORDINAL).drop(_ORDINAL)


def _far_batches(frame: Any, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Yield what the server sends, as it comes: in Arrow, of the session's time zone."""
    plan, client = frame._plan, frame._session.client  # noqa: SLF001  # its public ways give all at once, or rows
    given = (plan.to_proto(client), getattr(plan, "observations", None))
    for part in client.to_table_as_iterator(*given[: 1 if given[1] is None else 2]):
        if isinstance(part, pa.Table):  # the schema comes too
            yield from part.cast(schema).to_batches()


def _messages(frame: Any, *, at_once: bool, is_kept: bool) -> Generator[bytes, None, None]:
    """Yield Arrow's messages: of all tasks from one job, or task by task from a job each.

    With `is_kept` one job computes all, before the others read it, and no part a second time.
    """
    from pyspark import RDD  # noqa: PLC0415  # loading this module must not need Spark
    from pyspark.serializers import NoOpSerializer  # noqa: PLC0415  # the same

    made = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001  # pyspark only brings all at once
    rdd: RDD[bytes] = RDD(made, frame.sparkSession.sparkContext, NoOpSerializer())
    try:
        if at_once:
            yield from rdd.collect()
            return
        try:
            if is_kept:
                rdd.localCheckpoint()
                made.count()
            yield from rdd.toLocalIterator(prefetchPartitions=True)
        finally:
            if is_kept:
                made.unpersist()
    except Exception as error:  # whatever Spark raises goes on; two kinds of it can be explained
        if is_kept and _LOST in str(error):
            raise TryAgainError(
                "rows of the batch were lost while they came to the driver",
                cause="an executor has ended",
                fix="The batch is repeated; if this goes on, find out why executors end (memory, "
                "preemption)",
            ) from error
        if _TOO_MANY not in str(error):
            raise
        raise SinkError(
            "a task of the batch has more rows than Spark brings to the driver",
            cause=f"its rows are larger than {_TOO_MANY} allows",
            fix=f"Make the sink's task_rows= smaller, or raise {_TOO_MANY}",
        ) from error
