"""Sets of offsets as intervals: ranges in order that neither touch nor overlap.

A day of records is one interval, so the memory of a set grows only with its gaps. Reads and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.offsets import OffsetRange

Intervals = tuple[OffsetRange, ...]


def size(ranges: Iterable[OffsetRange]) -> int:
    """Return the number of offsets in all the ranges together."""
    return sum(until - start for start, until in ranges)


def union(ranges: Iterable[OffsetRange]) -> Intervals:
    """Return the union of ranges in any order; empty and reversed ranges are ignored."""
    intervals: list[OffsetRange] = []
    for start, until in sorted(offsets for offsets in ranges if offsets.start < offsets.until):
        if intervals and start <= intervals[-1].until:
            intervals[-1] = OffsetRange(intervals[-1].start, max(until, intervals[-1].until))
        else:
            intervals.append(OffsetRange(start, until))
    return tuple(intervals)


def of_offsets(offsets: Iterable[int]) -> Intervals:
    """Return the intervals of `offsets`, which must ascend without repeats."""
    intervals: list[OffsetRange] = []
    for offset in offsets:
        if intervals and offset == intervals[-1].until:
            intervals[-1] = OffsetRange(intervals[-1].start, offset + 1)
        else:
            intervals.append(OffsetRange(offset, offset + 1))
    return tuple(intervals)


def common(first: Intervals, second: Intervals) -> Intervals:
    """Return the offsets in both `first` and `second`."""
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
    """Return the offsets in `intervals` that are not in `removed`."""
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
