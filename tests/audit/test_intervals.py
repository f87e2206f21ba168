"""Sets of offsets as runs, against Python's own sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from eo_listener.audit.intervals import Intervals, common, of_offsets, union, without
from eo_listener.model.offsets import OffsetRange

OFFSETS = st.sets(st.integers(0, 40))


def made(offsets: set[int]) -> Intervals:
    return of_offsets(sorted(offsets))


def members(found: Intervals) -> set[int]:
    return {offset for start, until in found for offset in range(start, until)}


def assert_canonical(found: Intervals) -> None:
    assert all(interval.start < interval.until for interval in found)
    assert all(one.until < two.start for one, two in pairwise(found))


@given(OFFSETS, OFFSETS)
def test_they_are_sets(one: set[int], other: set[int]) -> None:
    """Intersection, difference and union hold the offsets that sets would, in the fewest ranges."""
    left, right = made(one), made(other)
    for found, expected in (
        (common(left, right), one & other),
        (without(left, right), one - other),
        (union([*left, *right]), one | other),
    ):
        assert members(found) == expected
        assert_canonical(found)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_any_ranges_make_intervals(intervals: list[tuple[int, int]]) -> None:
    """Ranges in any order, overlapping, empty or reversed, become intervals."""
    found = union(OffsetRange(*interval) for interval in intervals)
    assert members(found) == {
        offset for start, until in intervals for offset in range(start, until)
    }
    assert_canonical(found)
