"""Frames that need no Spark: Arrow tables, read in parts as the rows of a DataFrame are."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import driver_writer, task_rows

_PART = 10_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows_at(places: Sequence[tuple[TopicPartition, int]], **columns: Any) -> pa.Table:
    """A row from each of these offsets, with further columns."""
    return pa.table(
        {
            "topic": pa.array([tp.topic for tp, _ in places], pa.string()),
            "partition": pa.array([tp.partition for tp, _ in places], pa.int32()),
            "offset": pa.array([offset for _, offset in places], pa.int64()),
            **columns,
        }
    )


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a sink take Arrow tables as frames."""

    def stream(
        frame: pa.Table, plan: PlannedBatch, *, task_rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        yield from frame.to_batches(max_chunksize=_PART)

    def identities(frame: pa.Table, names: Sequence[str]) -> pa.Table:
        return frame.select(list(names))

    for module in (driver_writer, task_rows):
        monkeypatch.setattr(module, "schema_of", lambda frame: frame.schema)
        monkeypatch.setattr(module, "stream", stream)
    monkeypatch.setattr(task_rows, "identities", identities)
