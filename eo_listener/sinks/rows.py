"""The rows of a DataFrame on the driver, as Arrow batches, in bounded memory.

Spark hands a task's rows to the driver as a whole: its JVM holds one task at a time. So a frame
whose tasks are planned larger than `task_rows` is cut into more of them first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from eo_listener.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

TASK_ROWS: Final = 50_000
"""How many rows of one task may come to the driver at once."""


def stream(
    frame: Any, plan: Plan, *, task_rows: int = TASK_ROWS, ordered: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `frame`, a classic DataFrame, by record batches of its columns.

    Timestamps are in UTC. A cut loses the order of rows; with `ordered` it keeps the order within
    a partition, at the price of running the frame twice. Close the iterator when it is left early.
    Raises SettingsError for a type that Arrow has no form for, SinkError where Spark says that a
    task's rows are too many.
    """
    raise NotImplementedError


def tasks_wanted(plan: Plan, partitions: int, task_rows: int) -> int | None:
    """Return into how many tasks a frame of so many partitions is to be cut; None: not at all."""
    raise NotImplementedError
