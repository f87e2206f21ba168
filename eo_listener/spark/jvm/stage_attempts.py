"""The stages that Spark has run for a batch, from its own status store (AppStatusStore).

If an executor is lost, Spark runs the lost part of a map stage again, and keeps the rest. The two
parts fit together only if the rows of the stage do not depend on the order in which Spark reads
their input. With `dropDuplicates`, `first` or `row_number` over ties they do: some rows are then
missing, and others doubled.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from eo_listener.errors import SinkError
from eo_listener.spark.jvm.calls import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 30.0  # seconds until the store has the end of a job; it is told asynchronously
_PAUSE: Final = 0.01
_UNFINISHED: Final = ("RUNNING", "UNKNOWN")


class StageAttempts:
    """Compares the stages of a run's jobs. For the query's thread."""

    def __init__(self) -> None:
        self._compared: dict[str, int] = {}  # by run: the newest job whose stages were compared

    @contextmanager
    def tagged_jobs(self, session: SparkSession) -> Iterator[str]:
        """Tag the jobs of the block, and yield the tag. Raises JvmError."""
        tag = f"eo-listener-{uuid.uuid4().hex}"
        context = session.sparkContext._jsc.sc()  # noqa: SLF001  # pyspark 3.5 has no public way
        with asking("tag its jobs"):
            context.addJobTag(tag)
        try:
            yield tag
        finally:
            with asking("tag its jobs"):
                context.removeJobTag(tag)

    def has_repeated(self, session: SparkSession, run_id: str, tag: str) -> bool:
        """Return True if a map stage of a batch has run more than once, as a whole or in part.

        The batch is all jobs of the run since the last call, and those with `tag`. Raises JvmError,
        and SinkError if Spark does not report how they ended.
        """
        context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001  # as above
        arrays = session._jvm.java.util.Arrays  # type: ignore[union-attr]  # noqa: SLF001  # as above
        with asking("read the stages of a batch"):
            tracker, store = context.statusTracker(), context.statusStore()
            tagged = _numbers(arrays.toString(tracker.getJobIdsForTag(tag)))
            deadline = time.monotonic() + _PATIENCE
            while not tagged or any(_is_unfinished(store, job) for job in tagged):
                if time.monotonic() > deadline:
                    raise SinkError(
                        "Spark does not report how the jobs of the batch ended",
                        cause="its queue of events is full or slow (spark.scheduler.listenerbus."
                        "eventqueue.appStatus.capacity)",
                        fix="Restart the query: it computes the batch again",
                    )
                time.sleep(_PAUSE)
                tagged = _numbers(arrays.toString(tracker.getJobIdsForTag(tag)))
            since = self._compared.get(run_id, -1)
            of_run = _numbers(arrays.toString(tracker.getJobIdsForGroup(run_id)))
            jobs = {*tagged, *(job for job in of_run if job > since)}
            self._compared = {run_id: max(jobs)}
            return _has_repeated(store, jobs)


def _has_repeated(store: Any, jobs: set[int]) -> bool:
    stages = {stage for job in jobs for stage in _numbers(store.job(job).stageIds().mkString(", "))}
    written: set[str] = set()
    for number in stages:
        stage = store.lastStageAttempt(number)
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


def _is_unfinished(store: Any, job: int) -> bool:
    return store.job(job).status().name() in _UNFINISHED


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.strip("[]").split(", ") if number]
