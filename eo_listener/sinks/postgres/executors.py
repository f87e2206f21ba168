"""Work in the tasks of Spark's executors: what they need, and one outcome from each."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext

from eo_listener.errors import EoListenerError, SettingsError, TryAgainError
from eo_listener.sinks.postgres.outcomes import COLUMNS, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterable[pa.RecordBatch]
Work = Callable[[int, int, Batches], tuple[int, int]]
"""From (task, attempt, batches) to (rows written, rows put aside)."""

NEEDED: Final = ("psycopg", "pyarrow", "eo_listener")
_OUTCOME: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("dead", pa.int64()),
        ("failure", pa.string()),
    ]
)


def check_modules(session: SparkSession, needed: tuple[str, ...] = NEEDED) -> None:
    """Raise SettingsError where an executor cannot import what its tasks will need.

    As many tasks as there are cores, so every executor is likely to be asked.
    """

    # Defined in here on purpose: what has no name in a module is sent as code, so that it runs
    # where this package is missing.
    def look(_: Iterable[int]) -> Iterator[tuple[str, str, str]]:
        for name in needed:
            try:
                importlib.import_module(name)
            except ImportError as error:
                yield name, socket.gethostname(), str(error)

    context = session.sparkContext
    tasks = context.defaultParallelism
    found = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    if found:
        name, host, said = found[0]
        raise SettingsError(
            f"the Python of the executors lacks {name} ({host}: {said})",
            cause="the rows are to be written by the executors, not through the driver",
            fix="Install eo-listener[postgres] there too (spark.archives, --py-files, or in their "
            'image), or take road="driver" and per_partition=False',
        )


def outcomes(rows: DataFrame, work: Work) -> list[Outcome]:
    """Do `work` in each task of `rows`, and return what the attempts that counted have done.

    Raises a failure, one that repeating does not solve before others.
    """

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        attempt = context.taskAttemptId() if context is not None else 0
        done: dict[str, Any]
        try:
            rows, dead = work(number, attempt, batches)
            done = Outcome(task=number, attempt=attempt, rows=rows, dead=dead).row()
        except EoListenerError as error:
            done = Outcome(task=number, attempt=attempt, failure=error).row()
        yield pa.RecordBatch.from_pydict(done, schema=_OUTCOME)

    found = [Outcome.of(row) for row in rows.mapInArrow(task, COLUMNS).collect()]
    failures = [one.failure for one in found if one.failure is not None]
    if failures:
        raise min(failures, key=lambda failure: isinstance(failure, TryAgainError))
    return found
