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

`arrow_schema` translates Spark's types from the JSON in which every Spark version writes a schema.
pyspark can do this too, but its module, imports and signature change with the version.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from eo_listener.errors import RetriableSinkError, SettingsError, SinkError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.spark.computed_rows import is_connect, rows_lost

TASK_ROWS: Final = 25_000
"""The most planned rows of a task, or of a batch that is fetched at once."""

TASK_BYTES: Final = 32 << 20
"""The approximate limit for the rows of a task, or of tasks fetched together, in bytes of Arrow."""

_PAIR = 2  # tasks that Spark runs at a time for an iterator on the driver
_GROWTH = 4


class Fetch(Enum):
    """The way in which Spark runs the tasks of a batch, and in which their rows reach the driver.

    With AT_ONCE, one job runs all tasks, and all rows reach the driver together. With PAIRWISE,
    each task is a job, and two jobs run at a time: the driver reads the rows of one while Spark
    computes the next. With KEPT, one job runs all tasks, and their rows stay on the executors until
    the driver reads them, a few tasks at a time. PINNED differs from KEPT in one point: Spark does
    not compute lost rows again.
    """

    AT_ONCE = "at once"
    PAIRWISE = "pairwise"
    KEPT = "kept"
    PINNED = "pinned"


def choose_fetch(
    *, at_once: bool, tasks: int, cores: int | None, may_change: bool, is_cut: bool
) -> Fetch:
    """Choose how the driver fetches a batch.

    `cores` is the number of tasks that run at the same time, or None if it is unknown or may
    change. `may_change` is True if a second computation may yield different rows, or move rows to
    different tasks; `is_cut` is True if eo_listener has cut the frame, by a shuffle of its own.
    """
    if at_once:
        return Fetch.AT_ONCE
    if may_change:
        return Fetch.PINNED
    if tasks <= _PAIR or (cores is not None and cores <= _PAIR):
        return Fetch.PAIRWISE
    return Fetch.PINNED if is_cut else Fetch.KEPT


def next_count(count: int, size: int, limit: int = 0) -> int:
    """Return how many tasks the driver reads together next, after `count` tasks had `size` bytes.

    `limit` is Spark's own limit in bytes, or 0 if there is none; half of it stays free for larger
    tasks.
    """
    most = min(TASK_BYTES, limit // 2) if limit else TASK_BYTES
    return max(1, min(_GROWTH * count, most * count // max(size, 1)))


def cut_count(plan: PlannedBatch, partitions: int, task_rows: int) -> int | None:
    """Return how many tasks to make of a frame with `partitions` partitions, or None for no cut.

    A task may read a whole Kafka partition or, after a shuffle, a share of all partitions.
    """
    planned = planned_rows(plan)
    longest = max(_lengths(plan), default=0)
    if max(longest, planned / max(partitions, 1)) <= task_rows:
        return None
    return -(-planned // task_rows)


def planned_rows(plan: PlannedBatch) -> int:
    """Return how many Kafka offsets a batch has, including transaction markers and gaps.

    The number of rows from other sources is unknown.
    """
    return sum(_lengths(plan))


def _lengths(plan: PlannedBatch) -> Iterator[int]:
    return (until - start for part in plan.sources.values() for start, until in part.values())


_PLAIN: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT: Final = re.compile(r"string( collate \w+)?|(char|varchar)\(\d+\)")


def arrow_schema(spark: Mapping[str, Any], *, large: bool = False) -> pa.Schema:
    """Return the Arrow schema for `spark`, which is `frame.schema.jsonValue()`.

    `large` is the value of spark.sql.execution.arrow.useLargeVarTypes. Raises SettingsError, which
    names the first column whose type no sink can take: a type that Arrow lacks, or a struct with
    two fields of the same name.
    """
    return pa.schema(_fields(spark, "", large))


def _fields(struct: Mapping[str, Any], prefix: str, large: bool) -> list[pa.Field]:
    return [
        pa.field(field["name"], _arrow(field["type"], prefix + field["name"], large))
        for field in struct["fields"]
    ]


def _arrow(kind: Any, column: str, large: bool) -> pa.DataType:
    match kind:
        case {"type": "array", "elementType": element}:
            return pa.list_(_arrow(element, column, large))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_arrow(key, column, large), _arrow(value, column, large))
        case {"type": "struct", "fields": fields}:
            _check_names([field["name"] for field in fields], column)
            return pa.struct(_fields(kind, f"{column}.", large))
        case "binary":
            return pa.large_binary() if large else pa.binary()
        case str() if kind in _PLAIN:
            return _PLAIN[kind]
        case str() if _TEXT.fullmatch(kind):
            return pa.large_string() if large else pa.string()
        case str() if decimal := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
    name = kind["type"] if isinstance(kind, Mapping) else kind
    raise SettingsError(
        f"column {column!r} is of type {name}, which a SQL store cannot hold",
        fix=f'Cast it to another type in the transform: df.withColumn("{column}", '
        f'df["{column}"].cast("string"))',
    )


def check_structs(kind: Any, column: str) -> None:
    """Raise SettingsError if a struct in `column`, at any depth, has two fields of the same name.

    `kind` is the column's Spark type in JSON.
    """
    if not isinstance(kind, Mapping):
        return
    for part in ("elementType", "keyType", "valueType"):
        check_structs(kind.get(part), column)
    if kind.get("type") == "struct":
        _check_names([field["name"] for field in kind["fields"]], column)
        for field in kind["fields"]:
            check_structs(field["type"], f"{column}.{field['name']}")


def _check_names(names: list[str], column: str) -> None:
    """Refuse a struct with two fields of the same name.

    A JSON object would lose one of the values.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(
            f"column {column!r} is a struct with more than one field named {twice[0]!r}",
            fix="Give each field a name of its own in the transform",
        )


LOST: Final = "Checkpoint block"
"""The words in Spark's error for a lost part of rows whose lineage was cut."""
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
_TOO_MANY = "spark.driver.maxResultSize"


class TooManyBytesError(SinkError):
    """A task, or a batch fetched at once, has more bytes than Spark transfers to the driver."""


def stream(
    frame: Any, plan: PlannedBatch, *, task_rows: int = TASK_ROWS, at_once: bool = False
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
