"""A line over time as SVG, with nothing that a browser would have to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.cli.serve.elements import node, number
from eo_listener.cli.serve.lag_history import Point
from eo_listener.cli.status_screen import length

_WIDTH: Final = 300.0
_HEIGHT: Final = 48.0
_COLUMNS: Final = 60  # of a line, so that a page of many groups stays small

_Value = Callable[[Point], float | None]


def chart(points: Sequence[Point], now: float, name: str, value: _Value) -> Element | None:
    """The line of one value, from the first point until `now`; None while there is no line.

    Points without a value leave a gap. Of points that are too close to each other the highest is
    drawn.
    """
    lines = _lines(points, now, value)
    if not any(len(line) > 1 for line in lines):
        return None
    highest = max(y for line in lines for _, y in line)
    title = f"{name}: at most {number(highest)}, in {length(now - points[0].at)}"
    drawn = [
        node(
            "polyline",
            points=" ".join(f"{x:.1f},{_y(y, highest):.1f}" for x, y in line),
            vector_effect="non-scaling-stroke",
        )
        for line in lines
        if len(line) > 1
    ]
    made = node(
        "svg",
        node("title", title),
        *drawn,
        role="img",
        preserveAspectRatio="none",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
    )
    return node("figure", made, node("figcaption", title))


def _y(value: float, highest: float) -> float:
    return _HEIGHT - 1 - (_HEIGHT - 2) * (value / highest if highest > 0 else 0)


def _lines(points: Sequence[Point], now: float, value: _Value) -> list[list[tuple[float, float]]]:
    """Lines without gaps, each a list of places from left to right."""
    if not points or now <= points[0].at:
        return []
    begun = points[0].at
    width = (now - begun) / _COLUMNS
    lines: list[list[tuple[float, float]]] = [[]]
    column = -1
    for point in points:
        found = value(point)
        if found is None:
            lines.append([])
            column = -1
            continue
        now_in = int((point.at - begun) / width)
        x = (point.at - begun) / (now - begun) * _WIDTH
        if now_in == column:
            before = lines[-1].pop()
            found = max(found, before[1])
        lines[-1].append((x, max(0.0, found)))
        column = now_in
    return lines
