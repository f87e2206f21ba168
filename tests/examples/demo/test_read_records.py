"""What is wrong with a topic is found while it grows, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from examples.demo.read_records import (
    DISORDERED,
    TORN,
    TWICE,
    ReadRecords,
    SourceRecord,
)
from examples.demo.stored_rows import Rows

Shown = tuple[int, int, int, int, int]
"""Partition and offset of the target; partition, offset and batch of the source's record."""


def read(*rounds: Iterable[Shown]) -> ReadRecords:
    """What is taken in so many rounds."""
    records = ReadRecords()
    for shown in rounds:
        for target, place, *record in shown:
            records.take(target, place, SourceRecord(*record))
        records.round_ended()
    return records


FIRST = [(0, 0, 0, 0, 0), (0, 1, 1, 0, 0), (1, 0, 0, 1, 0)]
SECOND = [(0, 3, 0, 2, 1), (1, 2, 1, 1, 1)]  # 0:2 and 1:1 are markers
THIRD = [(0, 5, 0, 3, 2)]


def test_batches_that_are_whole_and_in_order_have_no_fault() -> None:
    """Also where a batch is shown in parts, and nothing new in some rounds."""
    records = read(FIRST[:1], FIRST[1:], [], SECOND[:1], SECOND[1:], [], [])
    report = records.report()
    assert (report.faults, report.first) == ({}, None)
    assert (report.rounds, report.batches) == (7, 2)
    assert records.count({0: 3, 1: 2}) == (
        {0: Rows(found=3, records=3), 1: Rows(found=2, records=2)},
        5,
    )


@pytest.mark.parametrize(
    ("rounds", "faults"),
    [
        ([FIRST, [*SECOND, (1, 4, 0, 0, 2)]], {TWICE: 1, DISORDERED: 1}),
        ([FIRST, [*SECOND, (2, 0, 0, 0, 2)]], {TWICE: 1}),
        ([[(0, 0, 0, 1, 0), (0, 1, 0, 0, 0)]], {DISORDERED: 1}),
        ([[(0, 0, 0, 0, 0), (0, 2, 0, 1, 0)]], {TORN: 1}),
        ([[(0, 0, 0, 0, 0), (0, 1, 0, 1, 1)]], {TORN: 1}),
        ([[(0, 0, 0, 0, 1), (0, 2, 1, 0, 0)]], {TORN: 1}),
        ([FIRST[:2], SECOND[:1], THIRD, []], {TORN: 1}),
        ([FIRST[::2], SECOND, THIRD, []], {TORN: 1}),
    ],
    ids=[
        "a record twice in one partition",
        "a record twice in two",
        "two that have changed places",
        "a batch in two transactions",
        "two batches in one transaction",
        "a batch that comes late",
        "a record is missing after the next batch was read",
        "all of a partition is missing, which shows with its next records",
    ],
)
def test_each_kind_of_fault_is_found(rounds: list[list[Shown]], faults: dict[str, int]) -> None:
    """By its kind; the first one is described."""
    report = read(*rounds).report()
    assert report.faults == faults
    assert report.first is not None


def test_a_part_that_is_late_is_no_fault_before_the_next_batch_was_read() -> None:
    """Markers are written one partition after the other: nobody may expect them all at once."""
    assert read(FIRST[:2], [], [], FIRST[2:]).report().faults == {}


def test_rows_of_other_records_count_as_a_whole_only() -> None:
    """Beyond the end of a source, or of a partition that it does not have."""
    records = read([(0, 0, 0, 0, 0), (0, 1, 0, 1, 0), (0, 2, 7, 0, 0)])
    assert records.count({0: 1, 1: 2}) == (
        {0: Rows(found=1, records=1), 1: Rows(found=0, records=0)},
        3,
    )
