"""How long a sink takes to write a batch, and each step of it, by fault points."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame

from eo_listener.model import fault_points

Write = Callable[[DataFrame, int], None]


def timed(write: Write, frame: DataFrame, number: int) -> float:
    """The seconds that batch `number` takes."""
    begun = time.perf_counter()
    write(frame, number)
    return time.perf_counter() - begun


def timed_steps(
    write: Write, frame: DataFrame, number: int
) -> tuple[float, list[tuple[str, float]]]:
    """The same, and at each point that is reached the seconds since the one before it."""
    steps: list[tuple[str, float]] = []
    last = time.perf_counter()

    def note(point: str) -> None:
        nonlocal last
        now = time.perf_counter()
        steps.append((point, now - last))
        last = now

    fault_points.arm(note)
    try:
        took = timed(write, frame, number)
    finally:
        fault_points.arm(None)
    return took, steps
