"""How rows come to the driver, decided without Spark."""

from __future__ import annotations

import pytest

from eo_listener.sinks.fetch_plan import (
    TASK_BYTES,
    Fetch,
    fetch,
    next_count,
    planned_rows,
    tasks_wanted,
)
from tests.sinks.plans import planned


@pytest.mark.parametrize(
    ("counts", "partitions", "wanted"),
    [
        ((), 0, None),
        ((100,), 1, None),
        ((101,), 1, 2),
        ((1000,), 1, 10),
        ((1000,), 40, 10),  # whichever of them has the long partition of Kafka
        ((60, 60), 2, None),
        ((60, 60), 1, 2),  # after a coalesce
        ((1, 1, 500), 3, 6),
        ((150, 1, 1), 3, 2),  # though the tasks of the others are small
    ],
)
def test_a_task_that_is_too_large_is_cut(
    counts: tuple[int, ...], partitions: int, wanted: int | None
) -> None:
    """By the longest partition of Kafka, and by all offsets over the tasks there are."""
    assert tasks_wanted(planned(*counts), partitions, 100) == wanted


def test_all_offsets_of_all_sources_count() -> None:
    """What a batch plans are the offsets of every partition."""
    assert planned_rows(planned()) == 0
    assert planned_rows(planned(3, 0, 4)) == 7


@pytest.mark.parametrize(
    ("tasks", "cores", "may_change", "is_cut", "how"),
    [
        (3, None, False, False, Fetch.KEPT),
        (16, 8, False, False, Fetch.KEPT),
        (3, 3, False, False, Fetch.KEPT),
        (16, 8, False, True, Fetch.PINNED),  # its rows came through a shuffle of ours
        (16, 2, False, True, Fetch.PAIRWISE),
        (16, 2, False, False, Fetch.PAIRWISE),
        (2, None, False, False, Fetch.PAIRWISE),
        (2, 8, False, False, Fetch.PAIRWISE),
        (0, None, False, False, Fetch.PAIRWISE),
        (16, 1, True, False, Fetch.PINNED),
        (1, 1, True, True, Fetch.PINNED),
        (16, None, True, False, Fetch.PINNED),
    ],
)
def test_more_than_two_tasks_are_computed_by_all_cores(
    tasks: int, cores: int | None, may_change: bool, is_cut: bool, how: Fetch
) -> None:
    """Two at a time is enough for two tasks or two cores only; what may change is computed once."""
    given = {"tasks": tasks, "cores": cores, "may_change": may_change, "is_cut": is_cut}
    assert fetch(at_once=False, **given) is how  # type: ignore[arg-type]  # a dict of several types
    assert fetch(at_once=True, **given) is Fetch.AT_ONCE  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(
    ("count", "size", "following"),
    [
        (1, 0, 4),
        (1, 100, 4),
        (4, TASK_BYTES // 100, 16),
        (1, TASK_BYTES, 1),
        (1, TASK_BYTES // 2, 2),
        (1, 5 * TASK_BYTES, 1),
        (8, TASK_BYTES, 8),
        (8, 2 * TASK_BYTES, 4),
        (8, 100 * TASK_BYTES, 1),
    ],
)
def test_tasks_come_together_while_they_are_small(count: int, size: int, following: int) -> None:
    """As many as make 32 MB, as the last ones were; at most four times as many, at least one."""
    assert next_count(count, size) == following


def test_spark_s_own_limit_counts_too() -> None:
    """Half of it may come together: the next tasks may be larger than the last ones."""
    assert next_count(4, 400, limit=1000) == 5
    assert next_count(4, 400, limit=4 * TASK_BYTES) == 16
