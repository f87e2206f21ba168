"""When the demo has passed, and what it says when it has not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from examples.demo.verdict import DemoVerdict, judge
from tests.broker import GroupRow
from tests.examples.demo.snapshots import row


def judged(
    rows: Sequence[GroupRow], *, partitions: int = 2, produced: int = 30, counted: int = 30
) -> DemoVerdict:
    """Judge rows of the topic flights."""
    return judge(rows, topic="flights", partitions=partitions, produced=produced, counted=counted)


def test_all_three_checks_pass() -> None:
    """Every partition at its end, no lag, every row counted."""
    verdict = judged([row(1, 20, 20), row(0, 10, 10)])
    assert verdict.passed
    assert [check.passed for check in verdict.checks] == [True, True, True]
    assert verdict.checks[0].found == "2 of 2 partitions (30 and 30 in all)"
    assert verdict.checks[2].found == "30 counted by the query, 30 produced"


@pytest.mark.parametrize(
    ("rows", "passed", "found"),
    [
        ([row(0, 10, 10), row(1, 19, 20)], [False, False, True], "not in 1"),
        ([row(0, 11, 10), row(1, 19, 20)], [False, False, True], "not in 0, 1"),
        ([row(0, 10, 10)], [False, False, True], "not in 1"),
        ([row(0, 10, 10), row(1, None, 20)], [False, False, True], "not in 1"),
        ([row(0, 10, 10), row(1, 20, None)], [False, False, True], "not in 1"),
        ([row(0, 10, 10), row(1, 20, 20, topic="other")], [False, False, True], "not in 1"),
        ([], [False, False, True], "0 of 2 partitions"),
    ],
    ids=["behind", "ahead", "missing", "no commit", "no end", "another topic", "empty table"],
)
def test_a_partition_that_is_not_at_its_end_fails(
    rows: Sequence[GroupRow], passed: list[bool], found: str
) -> None:
    """Sums that happen to agree help nobody: each partition is judged by itself."""
    verdict = judged(rows)
    assert not verdict.passed
    assert [check.passed for check in verdict.checks] == passed
    assert found in verdict.checks[0].found


@pytest.mark.parametrize("counted", [29, 31])
def test_rows_lost_or_counted_twice_fail(counted: int) -> None:
    """The query must have counted exactly what was produced."""
    verdict = judged([row(0, 10, 10), row(1, 20, 20)], counted=counted)
    assert [check.passed for check in verdict.checks] == [True, True, False]
