"""Sets of offsets as intervals: ranges in order that neither touch nor overlap. Pure.

A day of records is one interval, so a set of them takes no more memory than its gaps.
"""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.offsets import OffsetRange

Intervals = tuple[OffsetRange, ...]


def size(ranges: Iterable[OffsetRange]) -> int:
    """The number of offsets in all the ranges."""
    return sum(until - start for start, until in ranges)


def union(ranges: Iterable[OffsetRange]) -> Intervals:
    """The union of ranges in any order; those that are empty or reversed count for nothing."""
    intervals: list[OffsetRange] = []
    for start, until in sorted(offsets for offsets in ranges if offsets.start < offsets.until):
        if intervals and start <= intervals[-1].until:
            intervals[-1] = OffsetRange(intervals[-1].start, max(until, intervals[-1].until))
        else:
            intervals.append(OffsetRange(start, until))
    return tuple(intervals)


def of_offsets(offsets: Iterable[int]) -> Intervals:
    """The intervals of offsets that rise, none of them twice."""
    intervals: list[OffsetRange] = []
    for offset in offsets:
        if intervals and offset == intervals[-1].until:
            intervals[-1] = OffsetRange(intervals[-1].start, offset + 1)
        else:
            intervals.append(OffsetRange(offset, offset + 1))
    return tuple(intervals)


def common(first: Intervals, second: Intervals) -> Intervals:
    """The offsets in both."""
    shared = []
    rest, other_rest = iter(first), iter(second)
    a, b = next(rest, None), next(other_rest, None)
    while a is not None and b is not None:
        start, until = max(a.start, b.start), min(a.until, b.until)
        if start < until:
            shared.append(OffsetRange(start, until))
        if a.until <= b.until:
            a = next(rest, None)
        else:
            b = next(other_rest, None)
    return tuple(shared)


def without(intervals: Intervals, removed: Intervals) -> Intervals:
    """The offsets in the first and not in the second."""
    remaining = []
    rest = iter(removed)
    gap = next(rest, None)
    for start, until in intervals:
        while gap is not None and gap.until <= start:
            gap = next(rest, None)
        at = start
        while gap is not None and gap.start < until:
            if at < gap.start:
                remaining.append(OffsetRange(at, gap.start))
            at = gap.until
            if at >= until:
                break
            gap = next(rest, None)
        if at < until:
            remaining.append(OffsetRange(at, until))
    return tuple(remaining)
