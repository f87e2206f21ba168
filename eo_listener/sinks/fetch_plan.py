"""Decides how the driver fetches a batch: in how many tasks, and how many at a time. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from eo_listener.model.planned_batch import PlannedBatch

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
