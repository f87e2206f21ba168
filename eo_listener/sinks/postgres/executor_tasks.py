"""Work in the tasks of Spark's executors, and one outcome from each."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext

from eo_listener.model.errors import (
    EoListenerError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
)
from eo_listener.sinks.postgres.task_results import (
    COLUMNS,
    NoConnectionError,
    NotSentError,
    TaskResult,
)
from eo_listener.sinks.postgres.worker_connections import borrowed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter

Batches = Iterable[pa.RecordBatch]

_PAUSES: Final = (0.1, 0.3, 1.0, 2.0)
_PATIENCE: Final = 3  # times connect_timeout
_OUTCOME: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("dead", pa.int64()),
        ("failure", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One attempt of a task. `number` is Spark's for attempts of all tasks; `is_first`: of this
    one; `is_last`: after it Spark would give the job up.
    """

    task: int
    number: int
    is_first: bool
    is_last: bool


Work = Callable[[TaskAttempt, Batches], tuple[int, int]]
"""From an attempt and its rows to (rows written, rows put aside)."""


def outcomes(rows: DataFrame, work: Work, *, at_most: int | None = None) -> list[TaskResult]:
    """Do `work` in each task of `rows`, and return what the attempts that counted have done.

    With `at_most` no more tasks run at a time, by a job for so many. What may pass (a server that
    restarts, a deadlock, a lost answer to COMMIT) is raised in the task, so that Spark repeats that
    task alone. Raises a failure, one that repeating does not solve before others,
    NoConnectionError where it is only that tasks have no connection, and NotSentError.
    """
    attempts = _attempts(rows)

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        attempt = _this(attempts)
        done: dict[str, Any]
        try:
            written, dead = work(attempt, batches)
            told = TaskResult(
                task=attempt.task, attempt=attempt.number, rows=written, dead_letters=dead
            )
        except (RetriableSinkError, OutcomeUnknownError) as error:
            if not attempt.is_last:
                raise
            told = TaskResult(task=attempt.task, attempt=attempt.number, failure=_repeated(error))
        except EoListenerError as error:
            told = TaskResult(task=attempt.task, attempt=attempt.number, failure=error)
        done = told.row()
        yield pa.RecordBatch.from_pydict(done, schema=_OUTCOME)

    try:
        told = rows.mapInArrow(task, COLUMNS)
    except pickle.PicklingError:  # what it says may be a secret: it may be of a stranger's code
        raise NotSentError(
            "what a task needs cannot be sent to the executors",
            cause="a function of dsn= or apply= holds what cannot be pickled, such as a client, a "
            "connection or a lock",
            fix="Make that in the function, each time that it is called",
        ) from None
    found: list[TaskResult] = []
    for part in _parts(told, at_most):
        found += map(TaskResult.of, part)
        _raise_gravest([one.failure for one in found if one.failure is not None])
    return found


def begun(batches: Batches) -> Generator[pa.RecordBatch, None, None]:
    """Return the rows of a task when the first of them are there: it needs no connection before."""
    rest = iter(batches)
    first = next(rest, None)
    return (one for one in chain([] if first is None else [first], rest))


def connection(writer: TransactionWriter) -> AbstractContextManager[Connection]:
    """Return a connection for a task, kept from an earlier one if there is one.

    Waits for a server that starts, or has no room. Raises NoConnectionError.
    """
    ends = time.monotonic() + _PATIENCE * writer.access.connect_timeout
    pauses = iter(_PAUSES)
    while True:
        try:
            return borrowed(writer)
        except RetriableSinkError as error:
            if time.monotonic() > ends:
                raise NoConnectionError.of(error, again=True) from None
            time.sleep(next(pauses, _PAUSES[-1]))
        except SinkError as error:
            raise NoConnectionError.of(error, again=False) from None


def _attempts(rows: DataFrame) -> int:
    """How often Spark runs a task at most."""
    scheduler = rows.sparkSession.sparkContext._jsc.sc().taskScheduler()  # noqa: SLF001  # `local[2]` is 1 whatever the setting says
    return int(scheduler.maxTaskFailures())


def _this(attempts: int) -> TaskAttempt:
    context = TaskContext.get()
    if context is None:
        return TaskAttempt(task=0, number=0, is_first=True, is_last=True)
    return TaskAttempt(
        task=context.partitionId(),
        number=context.taskAttemptId(),
        is_first=context.attemptNumber() == 0,
        is_last=context.attemptNumber() + 1 >= attempts,
    )


def _repeated(error: SinkError) -> EoListenerError:
    """Return what the driver is told: the batch is repeated, and finds what was written."""
    if isinstance(error, RetriableSinkError):
        return error
    return RetriableSinkError(error.problem, cause=error.cause, fix=error.fix)


def _parts(told: DataFrame, at_most: int | None) -> Iterator[list[Any]]:
    """Yield the rows of `told`, of so many tasks at a time."""
    tasks = 0 if at_most is None else told.rdd.getNumPartitions()
    if at_most is None or tasks <= at_most:
        yield told.collect()
        return
    for begin in range(0, tasks, at_most):
        some = list(range(begin, min(begin + at_most, tasks)))
        yield told.sparkSession.sparkContext.runJob(told.rdd, iter, some)


def _raise_gravest(failures: list[EoListenerError]) -> None:
    if failures:
        passing = (RetriableSinkError, NoConnectionError)
        raise min(failures, key=lambda failure: isinstance(failure, passing))
