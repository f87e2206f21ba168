"""Did it all arrive? Judged by what Kafka's own tool printed, not by our reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.broker import GroupRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold, and the numbers that say whether it does."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVerdict:
    """The checks; the demo has passed when all of them have."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)


def judge(
    rows: Sequence[GroupRow], *, topic: str, partitions: int, produced: int, counted: int
) -> DemoVerdict:
    """Judge the table of kafka-consumer-groups, and what the query has counted."""
    checks = judge_group(rows, topic=topic, partitions=partitions)
    return DemoVerdict(checks=(*checks, _all_counted(produced, counted)))


def judge_group(rows: Sequence[GroupRow], *, topic: str, partitions: int) -> tuple[Check, ...]:
    """Judge the table of kafka-consumer-groups for a topic that had `partitions` partitions."""
    own = {row.partition: row for row in rows if row.topic == topic}
    expected = [own.get(number) for number in range(partitions)]
    return _at_the_end(expected), _no_lag(expected)


def _at_the_end(rows: Sequence[GroupRow | None]) -> Check:
    behind = [
        number
        for number, row in enumerate(rows)
        if row is None or row.current_offset is None or row.current_offset != row.log_end_offset
    ]
    current = sum(row.current_offset or 0 for row in rows if row)
    end = sum(row.log_end_offset or 0 for row in rows if row)
    found = f"{len(rows) - len(behind)} of {len(rows)} partitions ({current:,} and {end:,} in all)"
    if behind:
        found += f"; not in {', '.join(map(str, behind))}"
    return Check(name="group end = log end", passed=bool(rows) and not behind, found=found)


def _no_lag(rows: Sequence[GroupRow | None]) -> Check:
    lags = [row.lag if row else None for row in rows]
    known = [lag for lag in lags if lag is not None]
    unknown = len(lags) - len(known)
    found = f"{sum(known):,} in all" + (f", unknown in {unknown} partitions" if unknown else "")
    return Check(name="lag 0", passed=bool(rows) and not unknown and not any(known), found=found)


def _all_counted(produced: int, counted: int) -> Check:
    return Check(
        name="rows counted = rows produced",
        passed=counted == produced,
        found=f"{counted:,} counted by the query, {produced:,} produced",
    )
