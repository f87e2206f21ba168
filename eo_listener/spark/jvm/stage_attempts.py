"""Reads the stages that Spark has run for a batch from Spark's status store (AppStatusStore).

If an executor is lost, Spark runs the lost part of a map stage again, and keeps the rest. The two
parts fit together only if the rows of the stage do not depend on the order in which Spark reads
their input. With `dropDuplicates`, `first` or `row_number` over ties, the rows depend on that
order: then some rows are missing, and others doubled.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from eo_listener.errors import RetriableSinkError
from eo_listener.spark.computed_rows import rows_lost
from eo_listener.spark.jvm.calls import asking, call, class_of
from eo_listener.spark.jvm.running_query import elements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPEATED: Final = "Spark has computed a part of the batch twice, and the parts may not fit together"
LOST_SHUFFLE: Final = "an executor was lost, and with it a part of a shuffle"

_TIMEOUT: Final = 30.0  # seconds; the listener bus updates the store asynchronously
_PAUSE: Final = 0.01
_TASK: Final = "read the stages of a batch"
_END: Final = "-end"
_STEP: Final = re.compile(r"[\s:+-]*(?:\*?\(\d+\) )?(\w+)")
"""Matches the step in a line of a physical plan, as Spark draws it."""
_SHUFFLED: Final = re.compile(r"\+-\(\d+\)")
"""Matches a shuffle in the lineage of an RDD, as Spark draws it."""


def has_shuffle(frame: Any) -> bool:
    """Return True if Spark shuffles rows to compute `frame`. Raises the errors of py4j.

    A shuffle for a broadcast does not count: every task gets all rows of that side of a join.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001  # pyspark does not show it
    broadcast: int | None = None  # the column of the last broadcast's name
    for line in str(execution.executedPlan().toString()).splitlines():
        step = _STEP.match(line)
        if step is None or (broadcast is not None and step.start(1) > broadcast):
            continue
        broadcast = step.start(1) if step[1] == "BroadcastExchange" else None
        if broadcast is None and step[1].endswith("Exchange"):
            return True
    leaves = elements(execution.sparkPlan().collectLeaves())
    rdds = [rdd for leaf in leaves if (rdd := call(leaf, "rdd")) is not None]  # LogicalRDDs
    return any(_SHUFFLED.search(str(rdd.toDebugString())) for rdd in rdds)


@contextmanager
def tagged_jobs(session: SparkSession) -> Iterator[str]:
    """Tag the jobs of the `with` block, and yield the tag. Raises JvmError."""
    tag = f"eo-listener-{uuid.uuid4().hex}"
    with _tagged(session, tag):
        _run_empty_job(session)  # the oldest job: if the store still has this job, it has all jobs
        yield tag
    with _tagged(session, tag + _END):
        _run_empty_job(session)  # if the store has the end of this job, it has all earlier events


def has_repeated(session: SparkSession, tag: str) -> bool:
    """Return True if jobs with `tag` have run a map stage more than once, as a whole or in part.

    Raises JvmError, and RetriableSinkError if Spark does not report all jobs.
    """
    with asking(_TASK):
        return _has_repeated(_context(session).statusStore(), _ended_jobs(session, tag), {})


@contextmanager
def refuse_repeated_stages(session: SparkSession) -> Iterator[None]:
    """Raise RetriableSinkError if jobs of the `with` block ran a map stage more than once."""
    with tagged_jobs(session) as tag:
        yield
    if has_repeated(session, tag):
        raise rows_lost(REPEATED, LOST_SHUFFLE)


class RunStages:
    """Checks the stages of a query's batches, one after another.

    Only the query's thread may use it.
    """

    def __init__(self) -> None:
        self._batch: tuple[str, int] | None = None
        self._since = 0  # the first job that may belong to the batch
        self._written: dict[str, int] = {}  # the map stages of this batch, by their RDDs

    def have_repeated(self, session: SparkSession, batch: tuple[str, int], tag: str) -> bool:
        """Return True if a map stage of `batch` has run more than once, like `has_repeated`.

        `batch` is the run's id and the batch's number. The batch's jobs are the run's jobs since
        the last `skip_jobs`, and the jobs with `tag`. All calls for one batch count together.
        """
        if batch != self._batch:
            self._batch, self._written = batch, {}
        context = _context(session)
        with asking(_TASK):
            jobs = _ended_jobs(session, tag)
            of_run = _numbers(session, context.statusTracker().getJobIdsForGroup(batch[0]))
            jobs |= {job for job in of_run if job >= self._since}
            self._since = max(jobs) + 1
            return _has_repeated(context.statusStore(), jobs, self._written)

    def skip_jobs(self, session: SparkSession) -> None:
        """Ignore the jobs so far, which a sink ran over rows that were already computed."""
        with asking(_TASK):
            self._since = int(_context(session).dagScheduler().numTotalJobs())


@contextmanager
def _tagged(session: SparkSession, tag: str) -> Iterator[None]:
    with asking("tag its jobs"):
        _context(session).addJobTag(tag)
    try:
        yield
    finally:
        with asking("tag its jobs"):
            _context(session).removeJobTag(tag)


def _run_empty_job(session: SparkSession) -> None:
    """Run a job without tasks, which Spark's status store records like any other job."""
    with asking("run a job"):
        session.sparkContext._jsc.emptyRDD().count()  # noqa: SLF001  # pyspark's own runs Python


def _ended_jobs(session: SparkSession, tag: str) -> set[int]:
    """Return the jobs with `tag`, after Spark's status store has recorded their ends.

    If the store has recorded the end of a job, it has also recorded the job's stages.
    """
    context = _context(session)
    store, tracker = context.statusStore(), context.statusTracker()
    deadline = time.monotonic() + _TIMEOUT
    while True:
        last = _numbers(session, tracker.getJobIdsForTag(tag + _END))
        if last and store.job(last[0]).status().name() != "RUNNING":
            jobs = set(_numbers(session, tracker.getJobIdsForTag(tag)))
            if jobs and int(store.job(min(jobs)).numTasks()) == 0:
                return jobs
            raise _unknown("it keeps fewer jobs than the batch has", "spark.ui.retainedJobs")
        if time.monotonic() > deadline:
            raise _unknown(
                "its queue of events is full or slow",
                "spark.scheduler.listenerbus.eventqueue.appStatus.capacity",
            )
        time.sleep(_PAUSE)


def _has_repeated(store: Any, jobs: set[int], written: dict[str, int]) -> bool:
    """Return True if a map stage of `jobs` ran twice; add the map stages that ran to `written`.

    Spark removes skipped stages from its status store first. So missing stages were skipped if the
    status store still has a skipped stage, or if the jobs have skipped at least as many stages as
    are missing.
    """
    skipped, missing = 0, set[int]()
    has_skipped = False
    for number in jobs:
        job = store.job(number)
        skipped += int(job.numSkippedStages())
        for stage_id in map(int, str(job.stageIds().mkString(" ")).split()):
            stage = _stage(store, stage_id)
            if stage is None:
                missing.add(stage_id)
            elif stage.status().name() == "SKIPPED":  # its shuffle files are complete
                has_skipped = True
            elif stage.attemptId() > 0:
                return True
            elif stage.shuffleWriteRecords() > 0:
                # For the lost files of an earlier shuffle, a later job runs a new stage.
                rdds = str(stage.rddIds().mkString(","))
                if written.setdefault(rdds, stage_id) != stage_id:
                    return True
    if len(missing) > skipped and not has_skipped:
        raise _unknown("it keeps fewer stages than it runs", "spark.ui.retainedStages")
    return False


def _stage(store: Any, number: int) -> Any:
    try:
        return store.lastStageAttempt(number)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "NoSuchElementException":
            return None
        raise


def _unknown(cause: str, setting: str) -> RetriableSinkError:
    return RetriableSinkError(
        "Spark does not report whether it has computed a part of the batch twice",
        cause=cause,
        fix=f"Raise {setting}",
    )


def _numbers(session: SparkSession, jobs: Any) -> list[int]:
    """Return the numbers in an array of the JVM, in one call."""
    arrays: Any = class_of(session._jvm, "java.util.Arrays")  # noqa: SLF001  # as below
    text = str(arrays.toString(jobs))
    return [int(number) for number in text.strip("[]").split(", ") if number]


def _context(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc()  # noqa: SLF001  # pyspark shows no stage attempts
