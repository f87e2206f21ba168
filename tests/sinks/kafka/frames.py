"""Frames that need no Spark: Arrow tables, read in parts as the rows of a DataFrame are."""

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa
import pytest

from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.kafka import driver_writer

_PART = 10_000


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a sink take Arrow tables as frames."""

    def stream(
        frame: pa.Table, plan: PlannedBatch, *, task_rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        yield from frame.to_batches(max_chunksize=_PART)

    monkeypatch.setattr(driver_writer, "schema_of", lambda frame: frame.schema)
    monkeypatch.setattr(driver_writer, "stream", stream)
