"""Makes Spark compute the rows of a DataFrame once, and cuts the lineage of these rows.

`persist()` is not enough: Spark drops the rows of a cached frame when somebody writes a table that
the frame's plan reads, and computes lost rows again. Rows whose lineage is cut can be lost, but
they never change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eo_listener.errors import RetriableSinkError, SettingsError

OFTEN: Final = "If this recurs, find out why executors end (memory, preemption)"

logger = logging.getLogger("eo_listener")


def is_connect(frame: Any) -> bool:
    """Return True if `frame` is a DataFrame of Spark Connect, whose JVM is in another process."""
    return getattr(frame, "_jdf", None) is None


def rows_lost(problem: str, cause: str = "an executor has ended") -> RetriableSinkError:
    """Return the error for lost rows, which a retry of the batch computes again."""
    error = RetriableSinkError(
        problem, cause=cause, fix=f"Nothing to do: the batch is retried. {OFTEN}"
    )
    error.lost_rows = True
    return error


@contextmanager
def computed_rows(frame: Any) -> Iterator[Any]:
    """Compute the rows of `frame`, and yield a frame with the computed rows.

    The executors keep these rows during the block.

    Raises SettingsError under Spark Connect 3.5, which has no `localCheckpoint`.
    """
    try:
        # A frame that has run keeps its plan; a new plan uses frames that were cached since.
        computed = frame.select("*").localCheckpoint()
    except NotImplementedError as error:
        raise SettingsError(
            "Spark Connect 3.5 cannot compute the rows of a batch once",
            cause="its DataFrame has no localCheckpoint()",
            fix="Use Spark 4.0 or later, or run the query without Spark Connect",
        ) from error
    try:
        yield computed
    finally:
        try:
            computed._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001  # pyspark frees no checkpoint
        except Exception:  # an earlier error is more important, and Spark drops the rows later
            logger.debug("the rows of a batch could not be dropped", exc_info=True)


@contextmanager
def cached_rows(frame: Any) -> Iterator[None]:
    """Cache the rows of `frame` in the block, so that frames made from it read the source once.

    A frame that the user has cached stays cached after the block.
    """
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        yield
        return
    frame.persist()
    try:
        yield
    finally:
        try:
            frame.unpersist()
        except Exception:  # as above
            logger.debug("a batch's cached rows could not be released", exc_info=True)
