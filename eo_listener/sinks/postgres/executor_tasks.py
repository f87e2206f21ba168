"""Runs work in tasks on Spark's executors, and returns one result from each task."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
import pyarrow as pa
from psycopg.pq import TransactionStatus
from pyspark import TaskContext, cloudpickle

from eo_listener.errors import EoListenerError, OutcomeUnknownError, RetriableSinkError, SinkError
from eo_listener.sinks.postgres.connection import answers

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter


IDLE: Final = 10.0
"""The seconds without a request from a task after which a worker closes its kept connection.

A Python worker runs one task after another, and Spark ends it only after a minute without a task.
"""
_Key = tuple[int, str]
"""A process id, and the digest of a conninfo (the conninfo is secret).

Spark forks workers, and only the process that has opened a connection may use it.
"""

_kept: dict[_Key, _Kept] = {}
Batches = Iterable[pa.RecordBatch]
_PAUSES: Final = (0.1, 0.3, 1.0, 2.0)
_CONNECT_TIMEOUTS: Final = 3  # how many connect_timeouts a task waits for a connection
_RESULTS: Final = pa.schema([("result", pa.binary())])


class _Kept(NamedTuple):
    link: Connection
    closing: threading.Timer


def borrowed(writer: TransactionWriter) -> AbstractContextManager[Connection]:
    """Lend the kept connection for `writer`, or a new connection; keep it after the block.

    Raises SinkError.
    """
    conninfo = writer.conninfo
    # A dsn function returns a new dsn for each connection. And if connections are limited, none may
    # stay open, since the next task may run in another worker.
    if conninfo is None or not writer.keeps:
        return writer.open()
    key = (os.getpid(), hashlib.sha256(conninfo.encode()).hexdigest())
    idle = _kept.pop(key, None)  # whoever pops it owns it: the timer pops it too
    link = None
    if idle is not None:
        idle.closing.cancel()
        link = idle.link if answers(idle.link) else None
    if link is None:
        link = writer.open()
    else:
        writer.attend(link)
    return _lent(key, link)


@contextmanager
def _lent(key: _Key, link: Connection) -> Iterator[Connection]:
    try:
        yield link
    except BaseException:
        link.close()
        raise
    _keep(key, link)


def _keep(key: _Key, link: Connection) -> None:
    if link.closed or link.info.transaction_status != TransactionStatus.IDLE or key in _kept:
        link.close()
        return
    closing = threading.Timer(IDLE, _close, (key, link))
    closing.daemon = True
    _kept[key] = _Kept(link, closing)
    closing.start()


def _close(key: _Key, link: Connection) -> None:
    idle = _kept.get(key)
    if idle is not None and idle.link is link and _kept.pop(key, None) is idle:
        try:
            link.close()
        except psycopg.Error:
            return  # it was lost already


class NoConnectionError(SinkError):
    """A task could not connect, and wrote nothing; `again` is True if it may connect later."""

    again = False

    @classmethod
    def from_error(cls, error: SinkError, *, again: bool) -> NoConnectionError:
        """Make a NoConnectionError from the error that the attempt to connect raised."""
        refusal = error.as_kind(cls)
        refusal.again = again
        return refusal

    def plain(self) -> SinkError:
        """Return the error of the attempt to connect, as RetriableSinkError or SinkError."""
        kind = RetriableSinkError if self.again else SinkError
        return self.as_kind(kind)


class NotSentError(SinkError):
    """The work cannot be sent to the executors; nothing was written."""


class TaskResult(NamedTuple):
    """The result of one attempt of a task; `failure` is None if the attempt has done its work."""

    task: int
    attempt: int
    rows: int = 0
    dead_letters: int = 0
    failure: EoListenerError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One attempt of a task.

    `number` is Spark's id of the attempt, unique among all tasks; `is_first` is True for the first
    attempt of this task; `is_last` is True if Spark would abort the job after a failure of this
    attempt.
    """

    task: int
    number: int
    is_first: bool
    is_last: bool


Work = Callable[[TaskAttempt, Batches], tuple[int, int]]
"""A function that writes an attempt's rows; it returns the numbers of rows and dead letters."""


def outcomes(rows: DataFrame, work: Work, *, at_most: int | None = None) -> list[TaskResult]:
    """Call `work` in each task of `rows`, and return the results of the attempts that Spark counts.

    With `at_most`, the function runs one job after another, each with at most that many tasks. A
    task raises temporary errors (a server that restarts, a deadlock, a lost answer to COMMIT), so
    that Spark repeats only that task. If tasks have failed, the function raises the error of one of
    them, preferably an error that a retry does not solve. If the tasks only lacked a connection, it
    raises NoConnectionError. It raises NotSentError if `work` cannot be sent to the executors.
    """
    attempts = _attempts(rows)

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        attempt = _current_attempt(attempts)
        ended = partial(TaskResult, task=attempt.task, attempt=attempt.number)
        try:
            written, dead = work(attempt, batches)
            result = ended(rows=written, dead_letters=dead)
        except (RetriableSinkError, OutcomeUnknownError) as error:
            if not attempt.is_last:
                raise
            # The driver repeats the batch, and finds out what was written.
            is_retriable = isinstance(error, RetriableSinkError)
            result = ended(failure=error if is_retriable else error.as_kind(RetriableSinkError))
        except EoListenerError as error:
            result = ended(failure=error)
        sent = cloudpickle.dumps(result)  # type: ignore[no-untyped-call]  # pyspark's own
        yield pa.RecordBatch.from_pydict({"result": [sent]}, schema=_RESULTS)

    try:
        results = rows.mapInArrow(task, "result binary")
    except pickle.PicklingError:  # its text may be a secret from the user's code
        raise NotSentError(
            "cannot send the data of a task to the executors",
            cause="a function of dsn= or apply= holds an object that cannot be pickled, such "
            "as a client, a connection or a lock",
            fix="Create that object inside the function, in each call",
        ) from None
    done: list[TaskResult] = []
    passing = (RetriableSinkError, NoConnectionError)
    for part in _parts(results, at_most):
        done += [pickle.loads(row["result"]) for row in part]  # noqa: S301  # of our own tasks
        failures = [result.failure for result in done if result.failure is not None]
        if failures:
            raise min(failures, key=lambda failure: isinstance(failure, passing))
    return done


def await_first(batches: Batches) -> Generator[pa.RecordBatch, None, None]:
    """Wait for a task's first rows, then return all rows: the wait needs no connection."""
    rest = iter(batches)
    first = next(rest, None)
    return (batch for batch in chain([] if first is None else [first], rest))


def connection(writer: TransactionWriter) -> AbstractContextManager[Connection]:
    """Return a connection for a task, if possible one that an earlier task has kept.

    Waits for a server that is starting or has no free connection. Raises NoConnectionError.
    """
    ends = time.monotonic() + _CONNECT_TIMEOUTS * writer.access.connect_timeout
    pauses = iter(_PAUSES)
    while True:
        try:
            return borrowed(writer)
        except RetriableSinkError as error:
            if time.monotonic() > ends:
                raise NoConnectionError.from_error(error, again=True) from None
            time.sleep(next(pauses, _PAUSES[-1]))
        except SinkError as error:
            raise NoConnectionError.from_error(error, again=False) from None


def _attempts(rows: DataFrame) -> int:
    """Return how many attempts Spark allows for a task."""
    scheduler = rows.sparkSession.sparkContext._jsc.sc().taskScheduler()  # noqa: SLF001  # `local[2]` is 1 whatever the setting says
    return int(scheduler.maxTaskFailures())


def _current_attempt(attempts: int) -> TaskAttempt:
    context = TaskContext.get()
    if context is None:
        return TaskAttempt(task=0, number=0, is_first=True, is_last=True)
    return TaskAttempt(
        task=context.partitionId(),
        number=context.taskAttemptId(),
        is_first=context.attemptNumber() == 0,
        is_last=context.attemptNumber() + 1 >= attempts,
    )


def _parts(results: DataFrame, at_most: int | None) -> Iterator[list[Any]]:
    """Yield the rows of `results` in lists, each with the rows of at most `at_most` tasks."""
    tasks = 0 if at_most is None else results.rdd.getNumPartitions()
    if at_most is None or tasks <= at_most:
        yield results.collect()
        return
    for begin in range(0, tasks, at_most):
        some = list(range(begin, min(begin + at_most, tasks)))
        yield results.sparkSession.sparkContext.runJob(results.rdd, iter, some)
