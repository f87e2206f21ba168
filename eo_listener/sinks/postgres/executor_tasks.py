"""Work in the tasks of Spark's executors, and one outcome from each."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import psycopg
import pyarrow as pa
from psycopg.pq import TransactionStatus
from pyspark import TaskContext

from eo_listener import errors
from eo_listener.errors import (
    EoListenerError,
    GuardError,
    OutcomeUnknownError,
    PoisonRowError,
    RetriableSinkError,
    SinkError,
)
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres.connection import answers

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import TransactionWriter


IDLE: Final = 10.0
"""Seconds after which a connection that no task has asked for is closed.

A Python worker runs one task after another, and Spark ends it only after a minute without one.
"""
_kept: dict[Key, _Kept] = {}
Batches = Iterable[pa.RecordBatch]
_PAUSES: Final = (0.1, 0.3, 1.0, 2.0)
_CONNECT_TIMEOUTS: Final = 3  # how many connect_timeouts a task waits for a connection
_COLUMNS: Final = "task int, attempt long, rows long, dead long, failure string"
_OUTCOME: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("dead", pa.int64()),
        ("failure", pa.string()),
    ]
)


class Key(NamedTuple):
    """Whose connection it is; `digest` is that of a conninfo, which is secret.

    A worker is forked from another, so only the process that has opened a connection uses it.
    """

    process: int
    digest: str

    @classmethod
    def of(cls, conninfo: str) -> Key:
        """For this process."""
        return cls(os.getpid(), hashlib.sha256(conninfo.encode()).hexdigest())


class _Kept(NamedTuple):
    link: Connection
    closing: threading.Timer


def borrowed(writer: TransactionWriter) -> AbstractContextManager[Connection]:
    """Return the connection that was kept for `writer`, or a new one; it is kept afterwards.

    Raises SinkError.
    """
    conninfo = writer.conninfo
    # A function gives a dsn for each connection; and with a bound to them none may be left over,
    # since the next task may have another worker.
    if conninfo is None or not writer.keeps:
        return writer.open()
    key = Key.of(conninfo)
    kept = _kept.pop(key, None)  # the thread that pops it owns it: the timer pops it too
    link = None
    if kept is not None:
        kept.closing.cancel()
        link = kept.link if answers(kept.link) else None
    if link is None:
        link = writer.open()
    else:
        writer.attend(link)
    return _lent(key, link)


@contextmanager
def _lent(key: Key, link: Connection) -> Iterator[Connection]:
    try:
        yield link
    except BaseException:
        link.close()
        raise
    _keep(key, link)


def _keep(key: Key, link: Connection) -> None:
    if link.closed or link.info.transaction_status != TransactionStatus.IDLE or key in _kept:
        link.close()
        return
    closing = threading.Timer(IDLE, _close, (key, link))
    closing.daemon = True
    _kept[key] = _Kept(link, closing)
    closing.start()


def _close(key: Key, link: Connection) -> None:
    kept = _kept.get(key)
    if kept is not None and kept.link is link and _kept.pop(key, None) is kept:
        try:
            link.close()
        except psycopg.Error:
            return  # it is gone


class NoConnectionError(SinkError):
    """A task has got no connection, and has written nothing; `again`: it may get one later."""

    again = False

    @classmethod
    def of(cls, error: SinkError, *, again: bool) -> NoConnectionError:
        """For what connecting has raised."""
        made = error.as_kind(cls)
        made.again = again
        return made

    def plain(self) -> SinkError:
        """Return what connecting has raised."""
        kind = RetriableSinkError if self.again else SinkError
        return self.as_kind(kind)


class NotSentError(SinkError):
    """The work cannot be sent to the executors; nothing was written."""


_KINDS: Final = {
    kind.__name__: kind
    for kind in (*vars(errors).values(), NoConnectionError)
    if isinstance(kind, type) and issubclass(kind, EoListenerError)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One attempt of one task; `failure` is None if it has done its work."""

    task: int
    attempt: int
    rows: int = 0
    dead_letters: int = 0
    failure: EoListenerError | None = None

    def row(self) -> dict[str, list[Any]]:
        """One value for each of `_COLUMNS`."""
        failure = None if self.failure is None else json.dumps(_to_json(self.failure))
        return {
            "task": [self.task],
            "attempt": [self.attempt],
            "rows": [self.rows],
            "dead": [self.dead_letters],
            "failure": [failure],
        }

    @classmethod
    def of(cls, row: Any) -> TaskResult:
        """Read a row of `_COLUMNS`."""
        failure = None if row["failure"] is None else _from_json(json.loads(row["failure"]))
        return cls(
            task=row["task"],
            attempt=row["attempt"],
            rows=row["rows"],
            dead_letters=row["dead"],
            failure=failure,
        )


def _to_json(error: EoListenerError) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kind": type(error).__name__,
        "problem": error.problem,
        "cause": error.cause,
        "fix": error.fix,
    }
    if isinstance(error, PoisonRowError):
        fields |= {"partition": error.partition, "offset": error.offset}
    if isinstance(error, NoConnectionError):
        fields["again"] = error.again
    if isinstance(error, GuardError):
        fields["ranges"] = [[*tp, *offset_range] for tp, offset_range in error.ranges.items()]
    return fields


def _from_json(fields: dict[str, Any]) -> EoListenerError:
    kind = _KINDS[fields.pop("kind")]
    problem = fields.pop("problem")
    if fields.get("partition") is not None:
        fields["partition"] = TopicPartition(*fields["partition"])
    if "ranges" in fields:
        fields["ranges"] = {
            TopicPartition(topic, partition): OffsetRange(start, until)
            for topic, partition, start, until in fields["ranges"]
        }
    again = fields.pop("again", None)
    error = kind(problem, **fields)
    return error if again is None else NoConnectionError.of(cast("SinkError", error), again=again)


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
"""From an attempt and its rows to (rows written, dead letters)."""


def outcomes(rows: DataFrame, work: Work, *, at_most: int | None = None) -> list[TaskResult]:
    """Do `work` in each task of `rows`, and return what the attempts that counted have done.

    With `at_most` no more tasks run at a time, through a job for that many. Temporary errors (a
    server that restarts, a deadlock, a lost answer to COMMIT) are raised in the task, so that Spark
    repeats that task alone. Raises a failure, one that a retry does not solve before others,
    NoConnectionError if the tasks only lacked a connection, and NotSentError.
    """
    attempts = _attempts(rows)

    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        attempt = _this(attempts)
        ended = partial(TaskResult, task=attempt.task, attempt=attempt.number)
        try:
            written, dead = work(attempt, batches)
            result = ended(rows=written, dead_letters=dead)
        except (RetriableSinkError, OutcomeUnknownError) as error:
            if not attempt.is_last:
                raise
            result = ended(failure=_repeated(error))
        except EoListenerError as error:
            result = ended(failure=error)
        yield pa.RecordBatch.from_pydict(result.row(), schema=_OUTCOME)

    try:
        results = rows.mapInArrow(task, _COLUMNS)
    except pickle.PicklingError:  # what it says may be a secret: it may come from the user's code
        raise NotSentError(
            "cannot send the data of a task to the executors",
            cause="a function of dsn= or apply= holds an object that cannot be pickled, such "
            "as a client, a connection or a lock",
            fix="Create that object in the function, each time that it is called",
        ) from None
    found: list[TaskResult] = []
    for part in _parts(results, at_most):
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
    ends = time.monotonic() + _CONNECT_TIMEOUTS * writer.access.connect_timeout
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
    """Return the error for the driver: the batch is repeated, and finds what was written."""
    if isinstance(error, RetriableSinkError):
        return error
    return error.as_kind(RetriableSinkError)


def _parts(results: DataFrame, at_most: int | None) -> Iterator[list[Any]]:
    """Yield the rows of `results`, of at most `at_most` tasks at a time."""
    tasks = 0 if at_most is None else results.rdd.getNumPartitions()
    if at_most is None or tasks <= at_most:
        yield results.collect()
        return
    for begin in range(0, tasks, at_most):
        some = list(range(begin, min(begin + at_most, tasks)))
        yield results.sparkSession.sparkContext.runJob(results.rdd, iter, some)


def _raise_gravest(failures: list[EoListenerError]) -> None:
    if failures:
        passing = (RetriableSinkError, NoConnectionError)
        raise min(failures, key=lambda failure: isinstance(failure, passing))
