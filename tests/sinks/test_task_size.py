"""What a batch teaches about the next one, decided without Spark."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.counted_sources import CountedSources
from eo_listener.model.errors import RetriableSinkError
from eo_listener.sinks import arrow_rows
from eo_listener.sinks.arrow_rows import TaskSize, TooManyBytesError
from eo_listener.sinks.fetch_plan import TASK_BYTES
from tests.sinks.plans import planned

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


def test_after_a_task_that_was_too_large_the_next_batch_comes_task_by_task() -> None:
    """However few offsets it has: how large rows are is not known any more."""
    size = TaskSize(100)
    size.learn(10, TASK_BYTES)
    assert size.shrink(100)
    assert not size.at_once(planned(3))


def test_after_a_large_batch_the_next_comes_task_by_task() -> None:
    """Few offsets can become many bytes."""
    size = TaskSize(100)
    size.learn(10, TASK_BYTES + 1)
    assert not size.at_once(planned(10))
    size.learn(10, TASK_BYTES)
    assert size.at_once(planned(10))


@pytest.mark.parametrize(
    ("planned", "size", "rows"),
    [
        (5000, 5000 * 100, 20_000),  # four times as many at most
        (5000, 5000 * (TASK_BYTES // 1000), 1000),
        (5000, 5000 * (TASK_BYTES // 6000), 6000),
        (999, 999 * TASK_BYTES, 5000),  # too few to tell
        (1000, 1000 * TASK_BYTES, 1),
        (1000, 3000 * TASK_BYTES, 1),
        (1000, 0, 20_000),
    ],
)
def test_tasks_get_as_many_rows_as_make_32_mb(planned: int, size: int, rows: int) -> None:
    """By what the offsets of the last batch have become."""
    one = TaskSize(5000)
    one.learn(planned, size)
    assert one.rows == pytest.approx(rows, rel=0.01)


def test_few_rows_are_enough_to_tell_where_tasks_are_small() -> None:
    """A size that the user made smaller than 1,000 is learned from as few."""
    size = TaskSize(10)
    size.learn(10, 10 * TASK_BYTES)
    assert size.rows == 1


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
