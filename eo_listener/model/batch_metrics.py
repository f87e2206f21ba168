"""Spark's measurements of a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetrics:
    """Spark's own numbers for one batch; a number is None if the progress event lacks it.

    `started` is the time when the trigger started, by the driver's clock, `seconds` the trigger's
    duration. `rows` counts the input rows of all sources; a row that is read twice counts twice.
    `newest` is the latest event time, for queries with a watermark. Times are seconds since the
    epoch.
    """

    started: float | None = None
    seconds: float | None = None
    rows: int | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    newest: float | None = None
    watermark: float | None = None
