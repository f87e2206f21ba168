"""Reads from Spark's status store (AppStatusStore) which stages Spark has run for a batch.

If an executor is lost, Spark runs the lost part of a map stage again, and keeps the rest. The two
parts fit together only if the rows of the stage do not depend on the order in which Spark reads
their input. With `dropDuplicates`, `first` or `row_number` over ties they do depend on it: some
rows are then missing, and others doubled.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from eo_listener.errors import RetriableSinkError, SinkError
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.running_jvm import class_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPEATED: Final = "Spark has computed a part of the batch twice, and the parts may not fit together"
LOST_SHUFFLE: Final = "an executor was lost, and with it a part of a shuffle"
OFTEN: Final = "If this recurs, find out why executors end (memory, preemption)"

_TIMEOUT: Final = 30.0  # seconds until the store has the end of a job; it is told asynchronously
_PAUSE: Final = 0.01
_TASK: Final = "read the stages of a batch"
_END: Final = "-end"


@contextmanager
def tagged_jobs(session: SparkSession) -> Iterator[str]:
    """Tag the jobs that run in the block, and yield the tag. Raises JvmError."""
    tag = f"eo-listener-{uuid.uuid4().hex}"
    with _tagged(session, tag):
        yield tag
    # A job without tasks. When the store has its end, it has all that happened before.
    with _tagged(session, tag + _END), asking("run a job"):
        session.sparkContext._jsc.emptyRDD().count()  # noqa: SLF001  # pyspark's own runs in Python


def has_repeated(session: SparkSession, tag: str) -> bool:
    """Return True if jobs with `tag` have run a map stage more than once, as a whole or in part.

    Raises JvmError, and SinkError if Spark does not report how the jobs ended.
    """
    with asking(_TASK):
        return _has_repeated(_context(session).statusStore(), _ended_jobs(session, tag))


@contextmanager
def refuse_repeated_stages(session: SparkSession) -> Iterator[None]:
    """Raise RetriableSinkError if jobs in the block have run a map stage more than once."""
    with tagged_jobs(session) as tag:
        yield
    if has_repeated(session, tag):
        raise RetriableSinkError(
            REPEATED,
            cause=LOST_SHUFFLE,
            fix=f"Nothing to do: the batch is retried. {OFTEN}",
        )


class RunStages:
    """The stages that the jobs of a run have run. Only the query's thread may use it."""

    def __init__(self) -> None:
        self._compared: dict[str, int] = {}  # by run: the newest job whose stages were compared

    def have_repeated(self, session: SparkSession, run_id: str, tag: str) -> bool:
        """Return True if a map stage of a batch has run more than once, as `has_repeated` does.

        The jobs of the batch are all jobs of the run since the last call, and the jobs with `tag`.
        """
        context = _context(session)
        with asking(_TASK):
            tagged, since = _ended_jobs(session, tag), self._compared.get(run_id, -1)
            of_run = _numbers(session, context.statusTracker().getJobIdsForGroup(run_id))
            jobs = tagged | {job for job in of_run if job > since}
            self._compared = {run_id: max(jobs, default=since)}
            return _has_repeated(context.statusStore(), jobs)


@contextmanager
def _tagged(session: SparkSession, tag: str) -> Iterator[None]:
    with asking("tag its jobs"):
        _context(session).addJobTag(tag)
    try:
        yield
    finally:
        with asking("tag its jobs"):
            _context(session).removeJobTag(tag)


def _ended_jobs(session: SparkSession, tag: str) -> set[int]:
    """Return the jobs with `tag`, once the store has the end of each, and thus all their stages."""
    context = _context(session)
    store, tracker = context.statusStore(), context.statusTracker()
    deadline = time.monotonic() + _TIMEOUT
    while True:
        last = _numbers(session, tracker.getJobIdsForTag(tag + _END))
        if last and store.job(last[0]).status().name() != "RUNNING":
            return set(_numbers(session, tracker.getJobIdsForTag(tag)))
        if time.monotonic() > deadline:
            raise SinkError(
                "Spark does not report how the jobs of the batch ended",
                cause="its queue of events is full or slow "
                "(spark.scheduler.listenerbus.eventqueue.appStatus.capacity)",
                fix="Restart the query: it computes the batch again",
            )
        time.sleep(_PAUSE)


def _has_repeated(store: Any, jobs: set[int]) -> bool:
    texts = [str(store.job(job).stageIds().mkString(" ")) for job in jobs]
    written: set[str] = set()
    for number in {int(number) for text in texts for number in text.split()}:
        try:
            stage = store.lastStageAttempt(number)
        except Py4JJavaError as error:
            raise SinkError(
                f"Spark no longer has stage {number} of the batch",
                cause="it keeps fewer stages than the batch has, so a stage that ran twice "
                "would not be seen",
                fix="Raise spark.ui.retainedStages (1000 by default)",
            ) from error
        if stage.status().name() == "SKIPPED":  # its shuffle files are complete
            continue
        if stage.attemptId() > 0:
            return True
        if stage.shuffleWriteRecords() > 0:
            # A later job runs a stage of its own for the lost files of an earlier job's shuffle.
            rdds = str(stage.rddIds().mkString(","))
            if rdds in written:
                return True
            written.add(rdds)
    return False


def _numbers(session: SparkSession, jobs: Any) -> list[int]:
    """Return the numbers in an array of the JVM, by one call."""
    arrays: Any = class_of(session._jvm, "java.util.Arrays")  # noqa: SLF001  # as below
    text = str(arrays.toString(jobs))
    return [int(number) for number in text.strip("[]").split(", ") if number]


def _context(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc()  # noqa: SLF001  # pyspark shows no stage attempts
