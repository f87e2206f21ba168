"""Sets of offsets as runs: spans in order that neither touch nor overlap. Pure.

A day of records is one run, so a set of them takes no more memory than its gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eo_listener.model.offsets import OffsetRange

Runs = tuple[OffsetRange, ...]


def runs(spans: Iterable[OffsetRange]) -> Runs:
    """The union of spans in any order; empty ones and those turned about count for nothing."""
    found: list[OffsetRange] = []
    for start, until in sorted(span for span in spans if span.start < span.until):
        if found and start <= found[-1].until:
            found[-1] = OffsetRange(found[-1].start, max(until, found[-1].until))
        else:
            found.append(OffsetRange(start, until))
    return tuple(found)


def of_offsets(offsets: Iterable[int]) -> Runs:
    """The runs of offsets that rise, none of them twice."""
    found: list[OffsetRange] = []
    for offset in offsets:
        if found and offset == found[-1].until:
            found[-1] = OffsetRange(found[-1].start, offset + 1)
        else:
            found.append(OffsetRange(offset, offset + 1))
    return tuple(found)


def common(one: Runs, other: Runs) -> Runs:
    """The offsets in both."""
    return tuple(_common(one, other))


def without(one: Runs, other: Runs) -> Runs:
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


def _common(one: Runs, other: Runs) -> Iterator[OffsetRange]:
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
