"""Reads the offset range of each task of a batch, if each task reads one Kafka partition.

Spark keeps a task's Kafka range with the partition of the RDD, and steps that move no rows between
tasks (select, filter, map, a broadcast join) pass that partition on. A shuffle, a coalesce or a
union makes partitions of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from eo_listener.errors import JvmError, SettingsError
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.spark.computed_rows import is_connect
from eo_listener.spark.jvm.calls import asking, call
from eo_listener.spark.jvm.running_query import elements

_WHAT: Final = "read the offset range of each task"
_RANGE: Final = re.compile(r"KafkaOffsetRange\((.+)-(\d+),(\d+),(\d+),.*\)", re.DOTALL)
# The first entry is harmless: an exchange for a broadcast moves the other side of a join, not the
# batch's rows.
_MOVES: Final = (
    ("BroadcastExchange", None),
    ("Exchange", "a shuffle (repartition, groupBy, join, distinct or orderBy)"),
    ("Coalesce", "coalesce()"),
    ("Union", "a union"),
    ("CartesianProduct", "a cross join"),
    ("CollectLimit", "limit()"),
    ("TakeOrderedAndProject", "orderBy() with limit()"),
)
_SPLIT: Final = (
    "minPartitions or maxRecordsPerPartition, which split a partition into several tasks"
)
_SEVERAL: Final = "a shuffle, a coalesce or a union in the transform or before foreachBatch"
_FIX: Final = (
    "Remove it if each task must read one partition; a batch written in one transaction may be "
    "transformed in any way"
)


def task_ranges(frame: Any) -> tuple[tuple[TopicPartition, OffsetRange], ...]:
    """Return the range of each task of `frame` (a DataFrame), in the order of the tasks' ids.

    Partitions without new records have no task. Raises SettingsError, which names the likely cause,
    if a task does not read the whole range of one Kafka partition, and JvmError if Spark does not
    answer. The function runs no jobs except the broadcasts of `frame`, and takes about a
    millisecond per task.
    """
    if is_connect(frame):
        raise SettingsError(
            "cannot determine which Kafka partition a task reads",
            cause="this is a Spark Connect DataFrame, which does not show its tasks",
            fix="Run the query in classic PySpark",
        )
    with asking(_WHAT):
        execution = frame._jdf.queryExecution()  # noqa: SLF001  # pyspark does not show it
        for name in _nodes(execution.executedPlan()):
            _refuse_moving(name)
        partitions = execution.toRdd().partitions()
        ranges = tuple(_range(partition) for partition in partitions)
    read: set[TopicPartition] = set()
    for tp, _ in ranges:
        if tp in read:
            raise _refused(f"several tasks read {tp}", _SPLIT)
        read.add(tp)
    return ranges


def _nodes(plan: Any) -> Iterator[str]:
    """Yield the names of all steps of a physical plan, without `Exec` at the end."""
    kind = str(plan.getClass().getSimpleName()).removesuffix("Exec")
    if kind == "AdaptiveSparkPlan":  # it has no children; streams have it from Spark 4.2 on
        yield from _nodes(plan.initialPlan())
    elif kind == "ReusedExchange":  # it has no children either
        yield from _nodes(plan.child())
    else:
        yield kind
        if not kind.startswith("BroadcastExchange"):  # below it is the other side of a join
            for child in elements(plan.children()):
                yield from _nodes(child)


def _refuse_moving(kind: str) -> None:
    for part, step in _MOVES:
        if part in kind:
            if step is not None:
                raise _refused("the rows of a task do not come from one Kafka partition", step)
            return


def _range(partition: Any) -> tuple[TopicPartition, OffsetRange]:
    offset_range = call(_input(partition), "offsetRange")
    if offset_range is None:
        raise _refused("the rows of a task do not come from one Kafka partition", _SEVERAL)
    text = str(offset_range.toString())
    match = _RANGE.fullmatch(text)
    if match is None:
        raise JvmError(
            f"Spark's JVM failed to {_WHAT}",
            cause="its ranges have an unknown form: this Spark is newer, or a vendor's build",
            fix="Report this with the Spark version",
        )
    return TopicPartition(match[1], int(match[2])), OffsetRange(int(match[3]), int(match[4]))


def _input(partition: Any) -> Any:
    """Return the input of an RDD's partition. Before Spark 4.2, a partition has a Seq of inputs.

    With the connector's older source (V1), the partition itself, not its input, has the range.
    """
    single = call(partition, "inputPartition")
    if single is not None:
        inside = call(single, "isDefined")
        return single if inside is None else single.get() if inside else partition
    several = call(partition, "inputPartitions")
    if several is None:
        return partition
    if several.size() != 1:
        raise _refused("a task reads several Kafka partitions", _SEVERAL)
    return several.head()


def _refused(problem: str, cause: str) -> SettingsError:
    return SettingsError(
        f"{problem}, because of how this batch is read and transformed", cause=cause, fix=_FIX
    )
