"""How many planned rows a task may have, so that few bytes come to the driver at once.

What a batch plans are offsets; how many bytes they become is only known afterwards. So each batch
is cut by what the one before it has shown, and the first of a process comes task by task.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any

import pyarrow as pa

from eo_listener.model.errors import RetriableSinkError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_rows import TooManyBytesError, stream
from eo_listener.sinks.fetch_plan import TASK_BYTES, TASK_ROWS, planned_rows

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
        self._last: int | None = None  # bytes

    def stream(self, frame: Any, plan: PlannedBatch) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of `frame` as `rows.stream` does, and learn how large they are.

        Raises RetriableSinkError, besides what that raises, where smaller tasks may help and some
        rows have been given already.
        """
        size, planned, begun = 0, planned_rows(plan), False
        while True:
            most, together = self.rows, self.at_once(plan)
            rows = stream(frame, plan, task_rows=most, at_once=together)
            try:
                with closing(rows) as batches:
                    for batch in batches:
                        begun = True
                        size += batch.nbytes
                        yield batch
                break
            except TooManyBytesError as error:
                if not self.shrink(planned):
                    raise
                if begun:  # the caller has to begin again
                    raise RetriableSinkError(
                        error.problem, cause=error.cause, fix=error.fix
                    ) from error
        self.learn(planned, size)

    def at_once(self, plan: PlannedBatch) -> bool:
        """Whether the rows of a batch are surely few enough to come together.

        What a query keeps in its state may become many rows in any batch.
        """
        known = self._last is not None and self._last <= TASK_BYTES
        return known and not plan.stateful and planned_rows(plan) <= self.rows

    def learn(self, planned: int, size: int) -> None:
        """Take note of a batch: so many offsets have become so many bytes."""
        self._last = size
        if planned >= self._telling:
            self.rows = max(1, min(self._most, TASK_BYTES * planned // max(size, 1)))

    def shrink(self, planned: int) -> bool:
        """Take note that a task of a batch was too large; tell whether there are smaller ones."""
        before = min(self.rows, planned)
        if before <= 1:
            return False
        self._last = None
        self.rows = max(1, before // _GROWTH)
        return True
