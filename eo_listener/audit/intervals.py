"""Sets of offsets as intervals: ranges in order that neither touch nor overlap. Pure.

A day of records is one interval, so a set of them takes no more memory than its gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eo_listener.offsets import OffsetRange

Intervals = tuple[OffsetRange, ...]


def union(ranges: Iterable[OffsetRange]) -> Intervals:
    """The union of ranges in any order; those that are empty or reversed count for nothing."""
    found: list[OffsetRange] = []
    for start, until in sorted(one for one in ranges if one.start < one.until):
        if found and start <= found[-1].until:
            found[-1] = OffsetRange(found[-1].start, max(until, found[-1].until))
        else:
            found.append(OffsetRange(start, until))
    return tuple(found)


def of_offsets(offsets: Iterable[int]) -> Intervals:
    """The intervals of offsets that rise, none of them twice."""
    found: list[OffsetRange] = []
    for offset in offsets:
        if found and offset == found[-1].until:
            found[-1] = OffsetRange(found[-1].start, offset + 1)
        else:
            found.append(OffsetRange(offset, offset + 1))
    return tuple(found)


def common(one: Intervals, other: Intervals) -> Intervals:
    """The offsets in both."""
    return tuple(_common(one, other))


def without(one: Intervals, other: Intervals) -> Intervals:
    """The offsets in the first and not in the second."""
    found = []
    rest = iter(other)
    gap = next(rest, None)
    for start, until in one:
        while gap is not None and gap.until <= start:
            gap = next(rest, None)
        at = start
        while gap is not None and gap.start < until:
            if at < gap.start:
                found.append(OffsetRange(at, gap.start))
            at = gap.until
            if at >= until:
                break
            gap = next(rest, None)
        if at < until:
            found.append(OffsetRange(at, until))
    return tuple(found)


def _common(one: Intervals, other: Intervals) -> Iterator[OffsetRange]:
    left, right = iter(one), iter(other)
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        start, until = max(a.start, b.start), min(a.until, b.until)
        if start < until:
            yield OffsetRange(start, until)
        if a.until <= b.until:
            a = next(left, None)
        else:
            b = next(right, None)
