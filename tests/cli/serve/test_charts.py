"""The line of a chart, from its points."""

from __future__ import annotations

from collections.abc import Sequence

from eo_listener.cli.serve.groups_section import chart
from eo_listener.cli.serve.lag_history import Point


def lines(points: Sequence[Point], now: float) -> list[list[tuple[float, float]]]:
    """The places of each line that is drawn of the lag."""
    made = chart(points, now, "lag", lambda point: point.lag)
    if made is None:
        return []
    return [
        [
            (float(x), float(y))
            for x, y in (pair.split(",") for pair in line.attrib["points"].split())
        ]
        for line in made.iter("polyline")
    ]


def test_a_gap_has_no_line() -> None:
    """What is left of it ends there, what is right of it begins there."""
    lags = [5, 10, None, 10, 0]
    points = [Point(float(at), lag, None) for at, lag in enumerate(lags)]
    assert lines(points, 4.0) == [[(0, 24), (75, 1)], [(225, 1), (300, 47)]]


def test_one_point_is_no_line() -> None:
    """Nor are several that have a gap between each other, nor none."""
    assert lines([], 10.0) == []
    assert lines([Point(0.0, 5, None)], 10.0) == []
    assert lines([Point(0.0, 5, None), Point(1.0, None, None), Point(2.0, 5, None)], 10.0) == []


def test_a_peak_is_kept() -> None:
    """Of many points one in each column is drawn, and it is the highest of them."""
    points = [Point(float(at), 1000 if at == 777 else 1, None) for at in range(3000)]
    (line,) = lines(points, 3000.0)
    assert len(line) == 60
    assert min(y for _, y in line) == 1


def test_a_lag_below_zero_is_drawn_as_zero() -> None:
    """A group that is ahead of its log; a line of zeros is at the bottom."""
    points = [Point(float(at), lag, None) for at, lag in enumerate([-5, 0, -7])]
    assert lines(points, 2.0) == [[(0, 47), (150, 47), (300, 47)]]
