"""How many planned rows a task may have, so that few bytes come to the driver at once.

What a batch plans are offsets; how many bytes they become is only known afterwards. So each batch
is cut by what the one before it has shown.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from eo_listener.plan import Plan
from eo_listener.sinks.rows import TASK_ROWS, planned_rows, stream

TASK_BYTES: Final = 32 << 20
"""About how many bytes the rows of a task may have, as Arrow counts them."""

_TELLING = 1000  # fewer rows tell too little
_GROWTH = 4


class TaskSize:
    """For one query's batches, one after the other; `rows` is the most for the next, at least 1.

    It begins with what it is given, and grows to four times as many where rows are small.
    """

    def __init__(self, rows: int = TASK_ROWS) -> None:
        self._most = _GROWTH * rows
        self._telling = min(_TELLING, rows)
        self.rows = rows
        self._last = 0

    def stream(
        self, frame: Any, plan: Plan, *, ordered: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of `frame` as `rows.stream` does, and learn how large they are."""
        size = 0
        many = self._last > TASK_BYTES
        rows = stream(frame, plan, task_rows=self.rows, ordered=ordered, by_task=many)
        with closing(rows) as batches:
            for batch in batches:
                size += batch.nbytes
                yield batch
        self._learn(planned_rows(plan), size)

    def _learn(self, planned: int, size: int) -> None:
        self._last = size
        if planned >= self._telling:
            self.rows = max(1, min(self._most, TASK_BYTES * planned // max(size, 1)))
