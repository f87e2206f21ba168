"""By which method a batch is written, decided without Spark and without a server."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.model.counted_sources import CountedSources
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres.executor_check import too_few
from eo_listener.sinks.postgres.write_methods import (
    Choice,
    Proved,
    WriteMethod,
    fit,
    missing,
    of_each_task,
)
from eo_listener.testing.made_up_entries import entry_of, plan_of

A, B, C = (TopicPartition("flights", number) for number in range(3))
SPANS = {A: OffsetRange(0, 5), B: OffsetRange(3, 4), C: OffsetRange(7, 7)}


def choice(write_method: str = "auto", atomicity: str = "batch", rows: int | None = None) -> Choice:
    return Choice.of(write_method=write_method, atomicity=atomicity, rows=rows, connections=None)


@pytest.mark.parametrize(
    ("given", "planned", "method"),
    [
        ({}, 4_999_999, WriteMethod.DRIVER),
        ({}, 5_000_000, WriteMethod.STAGING),
        ({"rows": 10}, 9, WriteMethod.DRIVER),
        ({"rows": 10}, 10, WriteMethod.STAGING),
        ({"write_method": "driver"}, 10**9, WriteMethod.DRIVER),
        ({"write_method": "staging"}, 0, WriteMethod.STAGING),
        ({"atomicity": "partition"}, 199_999, WriteMethod.DRIVER),
        ({"atomicity": "partition"}, 200_000, WriteMethod.TASKS),
        ({"atomicity": "partition", "rows": 0}, 0, WriteMethod.TASKS),
    ],
)
def test_the_size_of_a_batch_and_the_user_choose(
    given: dict[str, object], planned: int, method: WriteMethod
) -> None:
    """From so many planned rows on the executors write."""
    assert choice(**given).wants(planned) is method  # type: ignore[arg-type]  # a dict of several types


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"write_method": "tasks"}, "got 'tasks'"),
        ({"atomicity": "row"}, "got 'row'"),
        ({"atomicity": "partition", "write_method": "driver"}, "do not go together"),
        ({"atomicity": "partition", "write_method": "staging"}, "do not go together"),
        ({"rows": -1}, "got -1"),
        ({"connections": 0}, "got 0"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(given: dict[str, object], said: str) -> None:
    """Each by what was given, with what to write instead."""
    whole: dict[str, Any] = {
        "write_method": "auto",
        "atomicity": "batch",
        "rows": 0,
        "connections": 1,
    }
    assert Choice.of(**whole).connections == 1
    with pytest.raises(SettingsError, match=said) as refused:
        Choice.of(**{**whole, **given})
    assert refused.value.fix


def test_what_was_not_proved_is_not_taken() -> None:
    """What keeps executors from the server prevents both methods, a missing right only one."""
    both = Proved(executors="no module", staging="no right")
    assert [both.obstacle(method) for method in WriteMethod] == [None, "no module", "no module"]
    one = Proved(staging="no right")
    assert [one.obstacle(method) for method in WriteMethod] == [None, "no right", None]
    assert [Proved().obstacle(method) for method in WriteMethod] == [None, None, None]


def entry(*partitions: TopicPartition) -> Entry:
    return entry_of({}, {tp: SPANS[tp] for tp in partitions})


def test_an_empty_range_is_not_missed() -> None:
    """A batch is there in part only where a partition with offsets has no move."""
    plan = replace(plan_of(entry(A, B, C)))
    assert not missing(plan, entry(A, B, C))
    assert not missing(plan, entry(A, B))
    assert missing(plan, entry(A, C))
    assert missing(plan, entry())


def test_tasks_fit_where_each_reads_all_of_one_partition() -> None:
    """Every partition with offsets has a task, with just these offsets, and no other has one."""
    plan = plan_of(entry(A, B, C))
    assert fit([(B, SPANS[B]), (A, SPANS[A])], plan)
    assert not fit([(A, SPANS[A])], plan)
    assert not fit([(A, SPANS[A]), (B, OffsetRange(3, 5))], plan)
    assert not fit([(A, SPANS[A]), (B, SPANS[B]), (C, OffsetRange(7, 8))], plan)
    assert fit([(A, SPANS[A]), (C, SPANS[C]), (B, SPANS[B])], plan)
    assert fit([], plan_of(entry(C)))
    beside = CountedSources(indices=(1,), plan_id="a", before=None)
    assert not fit([(A, SPANS[A]), (B, SPANS[B])], replace(plan, counted=beside))


def test_the_number_of_a_task_names_its_partition() -> None:
    """Tasks of partitions without a move have nothing to write."""
    ranges = [(B, SPANS[B]), (A, SPANS[A])]
    assert of_each_task(ranges, entry(A, C)) == {1: A}
    assert of_each_task(ranges, entry(A, B, C)) == {0: B, 1: A}


@pytest.mark.parametrize(
    ("free", "wanted", "said"),
    [
        ((9, None, None), 8, None),
        ((8, None, None), 8, "8 tasks run at once, and 8 .* max_conn"),
        ((97, 4, None), 8, "LIMIT of the role.*max_connections="),
        ((97, 9, 3), 8, "LIMIT of the database"),
        ((-2, None, None), 8, "and 0 connections"),
        (None, 8, None),
    ],
)
def test_connections_are_counted_before_they_are_needed(
    free: tuple[int | None, ...] | None, wanted: int, said: str | None
) -> None:
    """One for each task that runs at once, and one to look for whoever holds a lock."""
    found = too_few(free, wanted)
    assert found is None if said is None else re.search(said, str(found))
