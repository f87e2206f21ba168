"""Fetches the rows of a DataFrame to the driver as Arrow batches, in bounded memory.

Spark hands all rows of a task to the driver at once. So if the plan of a batch has more than
`task_rows` rows for a task, `stream` first cuts the frame into more tasks, and the driver reads a
few tasks at a time.

To use all cores, one job computes all tasks, and keeps the rows on the executors until the driver
reads them. With at most two cores or two tasks, Spark's own iterator is as fast: it computes one
task while the driver reads another.

Reading task by task takes one job per task. If an executor is lost between two jobs, Spark computes
that executor's part of a shuffle again, but the driver has already read rows of the old part. If
the rows come in a different order the second time, some rows are lost and others doubled. So
`stream` cuts rows by their position, not by their values. If the user's frame has a shuffle,
`stream` has Spark compute the frame only once, and keep its rows: if kept rows are lost, the sink
must write the batch again, from its beginning.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Final

import pyarrow as pa

from eo_listener.errors import RetriableSinkError, SinkError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_schema import arrow_schema
from eo_listener.sinks.fetch_plan import (
    TASK_BYTES,
    TASK_ROWS,
    Fetch,
    choose_fetch,
    cut_count,
    next_count,
    planned_rows,
)
from eo_listener.spark.computed_rows import is_connect, rows_lost

LOST: Final = "Checkpoint block"
"""The words in Spark's error for a lost part of rows whose lineage was cut."""
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
_TOO_MANY = "spark.driver.maxResultSize"


class TooManyBytesError(SinkError):
    """A task, or a batch fetched at once, has more bytes than Spark transfers to the driver."""


def stream(
    frame: Any,
    plan: PlannedBatch,
    *,
    task_rows: int = TASK_ROWS,
    at_once: bool = False,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of the DataFrame `frame` as record batches with the columns of `frame`.

    Timestamps are in UTC. If the function cuts the frame, the order of rows is lost. With
    `at_once`, one job fetches all rows together. Close the iterator if you do not read it to its
    end. Raises SettingsError for a type that Arrow lacks, TooManyBytesError if a task has more
    bytes than Spark transfers, and RetriableSinkError if an executor with kept rows is lost.
    """
    schema = schema_of(frame)
    # Of the steps before foreachBatch, the frame itself shows only the shuffles.
    may_change = not (at_once or is_connect(frame)) and (
        not plan.deterministic or _may_change(frame)
    )
    task_count = None if at_once else cut_count(plan, _partitions(frame), task_rows)
    is_cut = task_count is not None
    if task_count:
        frame = _cut(frame, task_count)
    if is_connect(frame):  # one job, which sends rows as soon as they are ready
        yield from _connect_batches(frame, schema)
        return
    fetching = choose_fetch(
        at_once=at_once,
        tasks=task_count or _partitions(frame),
        cores=_cores(frame),
        may_change=may_change,
        is_cut=is_cut,
    )
    with _checked(frame, is_cut=is_cut), closing(_messages(frame, fetching)) as messages:
        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def schema_of(frame: Any) -> pa.Schema:
    """Return the Arrow schema of `frame`. Raises SettingsError for a type that Arrow lacks."""
    if is_connect(frame):
        return arrow_schema(frame.schema.jsonValue(), large=_large(frame))
    text = frame._jdf.schema().json()  # noqa: SLF001  # pyspark 3.5 stumbles over intervals
    return arrow_schema(json.loads(text), large=_large(frame))


def _checked(frame: Any, *, is_cut: bool) -> AbstractContextManager[None]:
    """Return a context that refuses rows of a cut frame if Spark has run a stage twice."""
    if not is_cut:
        return nullcontext()
    from eo_listener.spark.jvm.stage_attempts import refuse_repeated_stages  # noqa: PLC0415  # loading this module must not need Spark

    return refuse_repeated_stages(frame.sparkSession)


def _partitions(frame: Any) -> int:
    if is_connect(frame):
        return 1  # Spark Connect does not report the number: assume a single partition
    jvm = frame._jdf  # noqa: SLF001  # pyspark's own `rdd` adds a Python step
    return int(jvm.queryExecution().toRdd().getNumPartitions())


def _cores(frame: Any) -> int | None:
    """Return how many tasks Spark runs at a time in local mode, or None on a cluster."""
    context = frame.sparkSession.sparkContext
    is_local = re.fullmatch(r"local(\[.*\])?", context.master)
    return int(context.defaultParallelism) if is_local else None


def _may_change(frame: Any) -> bool:
    """Return True if a second computation may change rows, or move rows to other tasks."""
    from eo_listener.spark.jvm.stage_attempts import has_shuffle  # noqa: PLC0415  # as above

    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  # not in pyspark's own API
    return not plan.deterministic() or has_shuffle(frame)


def _large(frame: Any) -> bool:
    return str(frame.sparkSession.conf.get(_LARGE, "false")).lower() == "true"


def _cut(frame: Any, tasks: int) -> Any:
    names, ordinal = {name.lower() for name in frame.columns}, "eo_ordinal"
    while ordinal in names:  # the user has a column of this name
        ordinal += "_"
    placed = frame.selectExpr("*", f"monotonically_increasing_id() AS {ordinal}")
    return placed.repartition(tasks, ordinal).drop(ordinal)


def _connect_batches(frame: Any, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Yield the record batches that the Spark Connect server sends, with timestamps cast to UTC."""
    plan, client = frame._plan, frame._session.client  # noqa: SLF001  # its public methods return everything at once, or rows
    arguments = (plan.to_proto(client), getattr(plan, "observations", None))
    for part in client.to_table_as_iterator(*arguments[: 1 if arguments[1] is None else 2]):
        if isinstance(part, pa.Table):  # the iterator also yields the schema
            yield from part.cast(schema).to_batches()


def _messages(frame: Any, fetching: Fetch) -> Generator[bytes, None, None]:
    """Yield the rows of `frame` as Arrow messages, fetched in the way that `fetching` names."""
    from pyspark import RDD, StorageLevel  # noqa: PLC0415  # loading this module must not need Spark
    from pyspark.serializers import NoOpSerializer  # noqa: PLC0415  # the same

    java_rdd = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001  # pyspark only collects all rows
    rdd: RDD[bytes] = RDD(java_rdd, frame.sparkSession.sparkContext, NoOpSerializer())
    try:
        if fetching is Fetch.AT_ONCE:
            yield from rdd.collect()
        elif fetching is Fetch.PAIRWISE:
            yield from rdd.toLocalIterator(prefetchPartitions=True)
        else:
            try:
                if fetching is Fetch.PINNED:
                    rdd.localCheckpoint()
                else:
                    rdd.persist(StorageLevel.MEMORY_AND_DISK)
                java_rdd.count()
                yield from _kept(rdd)
            finally:
                java_rdd.unpersist()
    except Exception as error:  # every error is raised again; two kinds get an explanation
        if LOST in str(error):
            raise rows_lost("rows of the batch were lost on their way to the driver") from error
        if _TOO_MANY in str(error):
            raise TooManyBytesError(
                "a task of the batch has more rows than Spark transfers to the driver",
                cause=f"its rows are larger than {_TOO_MANY} allows",
                fix="The sink retries the batch as long as it can make the tasks smaller. If the "
                f"batch fails, raise {_TOO_MANY}, or let a task read less (minPartitions; for "
                "files spark.sql.files.maxPartitionBytes)",
            ) from error
        raise


def _kept(rdd: Any) -> Iterator[bytes]:
    """Yield the kept messages of all tasks in order; fetch several small tasks together."""
    # Only SparkContext.runJob can read single partitions of an RDD. It would send every row through
    # a Python worker first, which is not needed here.
    rdd.mapPartitions = lambda _: rdd
    limit = rdd.context._jsc.sc().conf().getSizeAsBytes(_TOO_MANY, "1g")  # noqa: SLF001  # it reads units, such as 1g
    done, tasks, count = 0, rdd.getNumPartitions(), 1
    while done < tasks:
        task_ids = list(range(done, min(done + count, tasks)))
        messages = deque(rdd.context.runJob(rdd, iter, task_ids))
        done += len(task_ids)
        count = next_count(len(task_ids), sum(map(len, messages)), limit)
        while messages:
            yield messages.popleft()


_SAMPLE = 1000  # fewer rows do not show the size of a row
_GROWTH = 4


class TaskSize:
    """Adapts the number of rows in a task to the size of the rows in the query's last batch.

    `rows` is the limit for the tasks of the next batch, at least 1. It begins with the given
    number, and grows to at most four times that number if rows are small.
    """

    def __init__(self, rows: int = TASK_ROWS) -> None:
        self._most = _GROWTH * rows
        self._sample = min(_SAMPLE, rows)
        self.rows = rows
        self._last: int | None = None  # bytes

    def stream(self, frame: Any, plan: PlannedBatch) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of `frame` as the function `stream` does, and adapt `rows` to their size.

        Raises the errors of `stream`, and RetriableSinkError if smaller tasks may help but some
        rows have already been yielded.
        """
        size, planned, yielded = 0, planned_rows(plan), False
        while True:
            most, at_once = self.rows, self.at_once(plan)
            rows = stream(frame, plan, task_rows=most, at_once=at_once)
            try:
                with closing(rows) as batches:
                    for batch in batches:
                        yielded = True
                        size += batch.nbytes
                        yield batch
                break
            except TooManyBytesError as error:
                if not self.shrink(planned):
                    raise
                if yielded:  # the caller has to begin again
                    raise error.as_kind(RetriableSinkError) from error
        if plan.counted is None:
            self.learn(planned, size)

    def at_once(self, plan: PlannedBatch) -> bool:
        """Return True if the rows of a batch are certainly few enough to fetch all at once.

        A query with state, or with a source other than Kafka, may yield many rows in any batch.
        """
        is_small = self._last is not None and self._last <= TASK_BYTES
        is_bounded = plan.counted is None and not plan.stateful
        return is_small and is_bounded and planned_rows(plan) <= self.rows

    def learn(self, planned: int, size: int) -> None:
        """Set `rows` for the next batch, after a batch of `planned` offsets had `size` bytes."""
        self._last = size
        if planned >= self._sample:
            self.rows = max(1, min(self._most, TASK_BYTES * planned // max(size, 1)))

    def shrink(self, planned: int) -> bool:
        """Reduce `rows` after a task was too large; return False if it cannot be any smaller."""
        before = min(self.rows, planned)
        if before <= 1:
            return False
        self._last = None
        self.rows = max(1, before // _GROWTH)
        return True
