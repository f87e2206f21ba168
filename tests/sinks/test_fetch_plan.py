"""How rows come to the driver, decided without Spark."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.errors import RetriableSinkError
from eo_listener.model.planned_batch import CountedSources, PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks import arrow_rows
from eo_listener.sinks.arrow_rows import (
    TASK_BYTES,
    Fetch,
    TaskSize,
    TooManyBytesError,
    choose_fetch,
    cut_count,
    next_count,
)
from eo_listener.testing.made_up_entries import entry_of, plan_of


def planned(*counts: int) -> PlannedBatch:
    """A batch with so many offsets in each of its partitions."""
    spans = {
        TopicPartition("flights", at): OffsetRange(7, 7 + count) for at, count in enumerate(counts)
    }
    return plan_of(entry_of({}, spans))


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
    assert cut_count(planned(*counts), partitions, 100) == wanted


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
    assert choose_fetch(at_once=False, **given) is how  # type: ignore[arg-type]  # a dict of several types
    assert choose_fetch(at_once=True, **given) is Fetch.AT_ONCE  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(
    ("count", "size", "limit", "following"),
    [
        (1, 0, None, 4),
        (1, 100, None, 4),
        (4, TASK_BYTES // 100, None, 16),
        (1, TASK_BYTES, None, 1),
        (1, TASK_BYTES // 2, None, 2),
        (1, 5 * TASK_BYTES, None, 1),
        (8, TASK_BYTES, None, 8),
        (8, 2 * TASK_BYTES, None, 4),
        (8, 100 * TASK_BYTES, None, 1),
        (4, 400, 1000, 5),  # half of Spark's own limit
        (4, 400, 4 * TASK_BYTES, 16),
    ],
)
def test_tasks_come_together_while_they_are_small(
    count: int, size: int, limit: int | None, following: int
) -> None:
    """As many as make 32 MB, as the last ones were; at most four times as many, at least one."""
    assert next_count(count, size, **({} if limit is None else {"limit": limit})) == following


# What a batch teaches about the next one

REFUSED = TooManyBytesError("too many", cause="why", fix="how")
ROW = pa.record_batch({"v": pa.array(["x" * 1000])})


class Script:
    """Stands for `arrow_rows.stream`: each call gives the next of `batches`, or raises it."""

    def __init__(self, *batches: int | Exception) -> None:
        self.left = list(batches)
        self.asked: list[tuple[int, bool]] = []

    def __call__(
        self, frame: Any, plan: Any, *, task_rows: int, at_once: bool
    ) -> Generator[pa.RecordBatch, None, None]:
        self.asked.append((task_rows, at_once))
        now = self.left.pop(0)
        if isinstance(now, Exception):
            raise now
        yield from [ROW] * now


def scripted(monkeypatch: pytest.MonkeyPatch, *batches: int | Exception) -> Script:
    script = Script(*batches)
    monkeypatch.setattr(arrow_rows, "stream", script)
    return script


def test_the_first_batch_of_a_process_comes_task_by_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """How large rows are is not known yet; what comes after it comes at once while it is small."""
    script = scripted(monkeypatch, 1, 1, 1, 1, 1)
    size = TaskSize(100)
    for plan in (planned(10), planned(10), planned(50, 50), planned(200, 201)):
        assert len(list(size.stream(None, plan))) == 1
    list(size.stream(None, replace(planned(10), stateful=True)))
    assert [at_once for _, at_once in script.asked] == [False, True, True, False, False]


def test_nobody_knows_how_many_rows_files_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come task by task whatever was before, and teach nothing about Kafka's rows."""
    script = scripted(monkeypatch, 1, 1, 1)
    size = TaskSize(100)
    files = CountedSources(indices=(0,), plan_id="a", before=None)
    for counted in (None, files, None):
        list(size.stream(None, replace(planned(10), counted=counted)))
    assert [at_once for _, at_once in script.asked] == [False, False, True]


def test_after_a_batch_or_a_task_that_was_large_the_next_comes_task_by_task() -> None:
    """Few offsets can become many bytes; how large rows are is not known any more."""
    size = TaskSize(100)
    size.learn(10, TASK_BYTES + 1)
    assert not size.at_once(planned(10))
    size.learn(10, TASK_BYTES)
    assert size.at_once(planned(10))
    assert size.shrink(100)
    assert not size.at_once(planned(3))


@pytest.mark.parametrize(
    ("before", "offsets", "size", "rows"),
    [
        (5000, 5000, 5000 * 100, 20_000),  # four times as many at most
        (5000, 5000, 5000 * (TASK_BYTES // 1000), 1000),
        (5000, 5000, 5000 * (TASK_BYTES // 6000), 6000),
        (5000, 999, 999 * TASK_BYTES, 5000),  # too few to tell
        (5000, 1000, 1000 * TASK_BYTES, 1),
        (5000, 1000, 3000 * TASK_BYTES, 1),
        (5000, 1000, 0, 20_000),
        (10, 10, 10 * TASK_BYTES, 1),  # as few as a task has
    ],
)
def test_tasks_get_as_many_rows_as_make_32_mb(
    before: int, offsets: int, size: int, rows: int
) -> None:
    """By what the offsets of the last batch have become."""
    one = TaskSize(before)
    one.learn(offsets, size)
    assert one.rows == pytest.approx(rows, rel=0.01)


def test_rows_that_are_too_many_make_tasks_of_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come task by task and ever smaller, down to tasks of a single offset."""
    script = scripted(monkeypatch, 1, *[REFUSED] * 3, 1)
    size = TaskSize(100)
    list(size.stream(None, planned(40)))
    assert size.rows == 100
    assert len(list(size.stream(None, planned(40)))) == 1
    assert size.rows == 1
    assert script.asked == [(100, False), (100, True), *((n, False) for n in (10, 2, 1))]


def test_a_single_offset_cannot_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one offset has become, and is still too much, is an error that says what to raise."""
    script = scripted(monkeypatch, *[REFUSED] * 3)
    with pytest.raises(TooManyBytesError, match="how"):
        list(TaskSize(8).stream(None, planned(40)))
    assert [rows for rows, _ in script.asked] == [8, 2, 1]


def test_a_batch_that_was_begun_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows were given before, they would come twice: the whole batch is to be repeated."""

    def later(*_: Any, **__: Any) -> Generator[pa.RecordBatch, None, None]:
        yield ROW
        raise REFUSED

    monkeypatch.setattr(arrow_rows, "stream", later)
    size = TaskSize(100)
    with pytest.raises(RetriableSinkError, match="too many"):
        list(size.stream(None, planned(400)))
    assert size.rows == 25
