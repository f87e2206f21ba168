"""What the demo says when rows are missing, doubled or strange, and when witnesses disagree."""

from __future__ import annotations

from typing import Any

import pytest

from examples.demo.check import Check, Kill, judge_count, judge_group, judge_sink, prove
from tests.broker import GroupRow

ENDS = {0: 10, 1: 20}
ROWS = {(partition, offset): 1 for partition, end in ENDS.items() for offset in range(end)}
SOUND: dict[str, Any] = {
    "ends": ENDS,
    "group": ENDS,
    "ledger": ENDS,
    "checkpoint": ENDS,
    "records": ROWS,
}
NAMES = ["rows found = rows expected", "duplicates 0", "gaps 0", "group = ledger = checkpoint"]


def failing(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if not check.passed]


@pytest.mark.parametrize(
    ("wrong", "failed"),
    [
        ({}, []),
        ({"records": {**ROWS, (1, 5): 2}}, [0, 1]),
        ({"records": {record: 1 for record in ROWS if record != (1, 5)}}, [0, 2]),
        ({"records": {r: 2 if r == (1, 6) else 1 for r in ROWS if r != (1, 5)}}, [1, 2]),
        ({"records": {**ROWS, (1, 20): 1}}, [0, 1]),
        ({"records": {**ROWS, (7, 0): 1}}, [0, 1]),
        ({"group": {0: 10, 1: 19}}, [3]),
        ({"group": {0: 10, 1: None}}, [3]),
        ({"ledger": {0: 10}}, [3]),
        ({"checkpoint": {0: 9, 1: 21}}, [3]),
        ({"ends": {}, "records": {}}, [0, 3]),
    ],
)
def test_what_is_wrong_in_the_sink_is_named(wrong: dict[str, Any], failed: list[int]) -> None:
    """Each kind of fault fails its own check, also when sums happen to agree."""
    proof = prove(**{**SOUND, **wrong})
    assert failing(judge_sink(proof, 30, 0)) == [NAMES[number] for number in failed]


def test_a_driver_that_lived_too_long_fails() -> None:
    """Chaos that did not come about proves nothing."""
    kills = [Kill(batch=3, caught=True), Kill(batch=5, caught=False)]
    checks = judge_sink(prove(**SOUND, kills=kills), 30, 2)
    assert failing(checks) == []
    assert "2 of 2 times, in the middle of batch 3" in checks[-1].found
    assert failing(judge_sink(prove(**SOUND, kills=kills[:1]), 30, 2)) == [checks[-1].name]


def row(partition: int, current: int | None, end: int | None) -> GroupRow:
    lag = None if current is None or end is None else end - current
    return GroupRow("flights-demo", "flights", partition, current, end, lag)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([row(0, 10, 10), row(1, 19, 20)], "not in 1"),
        ([row(0, 11, 10), row(1, 19, 20)], "not in 0, 1"),
        ([row(0, 10, 10)], "not in 1"),
        ([row(0, 10, 10), row(1, None, 20)], "not in 1"),
        ([row(0, 10, 10), row(1, 20, None)], "not in 1"),
        ([], "0 of 2 partitions"),
    ],
)
def test_a_group_that_is_not_at_the_end_fails(rows: list[GroupRow], found: str) -> None:
    """Each partition is judged by itself: sums that happen to agree help nobody."""
    checks = judge_group(rows, 2)
    assert len(failing(checks)) == 2
    assert found in checks[0].found


def test_a_group_at_the_end_passes_and_rows_are_counted() -> None:
    """In whatever order the rows stand; one row too few or too many fails."""
    assert failing(judge_group([row(1, 20, 20), row(0, 10, 10)], 2)) == []
    assert [judge_count(counted, 30).passed for counted in (29, 30, 31)] == [False, True, False]
