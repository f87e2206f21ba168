"""Keeps lag and rate of each group over time, in limited memory. Reads and writes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from eo_listener.cli.group_status import GroupStatus
from eo_listener.offsets import TopicPartition

POINTS: Final = 360
"""The maximum number of points of a group: an hour with a reading every 10 s."""
_TOTAL: Final = 200_000
_GROUPS: Final = 2_000
_KEPT: Final = 3600.0  # seconds that a group is remembered after it last held offsets

_Offsets = Mapping[TopicPartition, int]


class Point(NamedTuple):
    """One reading of a group. A value that is None is unknown.

    `at` is in monotonic seconds, `rate` in records a second.
    """

    at: float
    lag: int | None
    rate: float | None


class LagHistory:
    """The last points of each group, in limited memory.

    If there are many groups, each group keeps fewer points. If there are more than `groups` groups,
    only the first `groups` of them have points.
    """

    def __init__(self, *, points: int = POINTS, total: int = _TOTAL, groups: int = _GROUPS) -> None:
        self._points, self._total, self._groups = points, total, groups
        self._rings: dict[str, deque[Point]] = {}
        self._held: dict[str, tuple[float, _Offsets]] = {}
        self._seen: dict[str, float] = {}

    def add(self, at: float, statuses: Sequence[GroupStatus]) -> None:
        """Add a reading; `at` is in monotonic seconds."""
        present = {group.group: group for group in statuses if group.rows}
        self._forget(at, present.keys() | {group.group for group in statuses if group.error})
        for name, group in present.items():
            if name in self._rings or len(self._rings) < self._groups:
                self._rings.setdefault(name, deque()).append(self._point(at, group))
                self._seen[name] = at
        for name in self._rings.keys() - present.keys():
            self._interrupt(at, name)
        self._shorten()

    def gap(self, at: float) -> None:
        """Add a gap to every group, because a reading has failed."""
        for name in self._rings:
            self._interrupt(at, name)
        self._shorten()

    def points(self, group: str) -> tuple[Point, ...]:
        """Return the points of a group, the oldest first."""
        return tuple(self._rings.get(group, ()))

    def gone(self, statuses: Sequence[GroupStatus]) -> dict[str, float]:
        """Return the groups that no longer hold offsets, with the time when they last had some."""
        present = {group.group for group in statuses if group.rows or group.error}
        return {name: at for name, at in sorted(self._seen.items()) if name not in present}

    def _point(self, at: float, group: GroupStatus) -> Point:
        offsets = {row.partition: row.committed for row in group.rows if row.committed is not None}
        before = self._held.get(group.group)
        self._held[group.group] = (at, offsets)
        return Point(at, group.lag, None if before is None else _rate(*before, at, offsets))

    def _interrupt(self, at: float, name: str) -> None:
        """Add one point without numbers for all consecutive readings without the group `name`."""
        self._held.pop(name, None)
        ring = self._rings[name]
        if ring and ring[-1] != Point(ring[-1].at, None, None):
            ring.append(Point(at, None, None))

    def _forget(self, at: float, present: set[str]) -> None:
        """Drop groups that disappeared more than an hour ago.

        If there are too many groups, also drop those that disappeared first.
        """
        gone = sorted(self._seen.keys() - present, key=self._seen.__getitem__)
        needed = len(self._seen.keys() | present) - self._groups
        for count, name in enumerate(gone):
            if count < needed or at - self._seen[name] > _KEPT:
                for memory in (self._rings, self._held, self._seen):
                    memory.pop(name, None)

    def _shorten(self) -> None:
        share = max(2, min(self._points, self._total // max(1, len(self._rings))))
        for ring in self._rings.values():
            while len(ring) > share:
                ring.popleft()


def _rate(before: float, held_before: _Offsets, at: float, offsets: _Offsets) -> float | None:
    """Return the rate between two readings, for the partitions in both, or None after a rewind."""
    steps = [offsets[tp] - offset for tp, offset in held_before.items() if tp in offsets]
    if at <= before or not steps or min(steps) < 0:
        return None
    return sum(steps) / (at - before)
