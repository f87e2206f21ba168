"""How the rows of a batch come to the driver: in which tasks, how many at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from eo_listener.model.planned_batch import PlannedBatch

TASK_ROWS: Final = 25_000
"""How many planned rows a task may have, and a batch that comes as one."""

TASK_BYTES: Final = 32 << 20
"""About how many bytes the rows of a task, or of several that come together, may have in Arrow."""

_PAIR = 2  # tasks that Spark runs at a time for an iterator on the driver
_GROWTH = 4


class Fetch(Enum):
    """How tasks are run for the driver, and when their rows come.

    AT_ONCE is one job, whose rows come together. PAIRWISE is a job for each task, two at a time:
    one that is read, one that is made ready. KEPT is one job for all of them, whose rows stay with
    the executors until they are read, some tasks at a time. PINNED is the same, and rows that are
    lost there are not computed a second time.
    """

    AT_ONCE = "at once"
    PAIRWISE = "pairwise"
    KEPT = "kept"
    PINNED = "pinned"


def choose_fetch(
    *, at_once: bool, tasks: int, cores: int | None, may_change: bool, is_cut: bool
) -> Fetch:
    """Choose. `cores` run tasks at the same time; None if that is unknown or may change.

    `may_change`: rows may be others, or in other tasks, when they are computed a second time;
    `is_cut`: a shuffle of ours precedes the tasks.
    """
    if at_once:
        return Fetch.AT_ONCE
    if may_change:
        return Fetch.PINNED
    if tasks <= _PAIR or (cores is not None and cores <= _PAIR):
        return Fetch.PAIRWISE
    return Fetch.PINNED if is_cut else Fetch.KEPT


def next_count(count: int, size: int, limit: int = 0) -> int:
    """Return how many tasks to read together next, after `count` of them were `size` bytes.

    `limit` is Spark's own, in bytes, of which half is left for those that are larger; 0: none.
    """
    most = min(TASK_BYTES, limit // 2) if limit else TASK_BYTES
    return max(1, min(_GROWTH * count, most * count // max(size, 1)))


def cut_count(plan: PlannedBatch, partitions: int, task_rows: int) -> int | None:
    """Return into how many tasks a frame of so many partitions is to be cut; None: not at all.

    A task may have a whole partition of Kafka, and, after a shuffle, its part of all of them.
    """
    planned = planned_rows(plan)
    longest = max(_lengths(plan), default=0)
    if max(longest, planned / max(partitions, 1)) <= task_rows:
        return None
    return -(-planned // task_rows)


def planned_rows(plan: PlannedBatch) -> int:
    """Return how many offsets of Kafka a batch has; transaction markers and gaps count too.

    Nothing says how many rows there are of other sources.
    """
    return sum(_lengths(plan))


def _lengths(plan: PlannedBatch) -> Iterator[int]:
    return (until - start for part in plan.sources.values() for start, until in part.values())
