"""Has Spark compute the rows of a batch's DataFrames once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from eo_listener.errors import SinkError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.spark.computed_rows import OFTEN, cached_rows, computed_rows, is_connect
from eo_listener.spark.jvm.stage_attempts import (
    LOST_SHUFFLE,
    REPEATED,
    RunStages,
    has_shuffle,
    tagged_jobs,
)

_TRIES: Final = 3


class DataFrames:
    """Carries out a batch's operations on DataFrames, also under Connect. Raises Spark's errors."""

    def __init__(self) -> None:
        self._stages = RunStages()

    def is_frame(self, output: object) -> bool:
        """Return True for a DataFrame of Spark, not of pandas. Sends no request to Spark."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(output).__mro__
        )

    def has_shuffle(self, frame: Any) -> bool:
        """Return True if a shuffle precedes the rows of `frame`; False under Spark Connect.

        A Connect client cannot read the physical plan.
        """
        return not is_connect(frame) and has_shuffle(frame)

    def cached(self, frame: Any) -> AbstractContextManager[None]:
        """Cache the rows of `frame` while Spark computes several frames that use them."""
        return cached_rows(frame)

    @contextmanager
    def computed(self, frame: Any, source: Any, plan: PlannedBatch) -> Iterator[Any]:
        """Compute the rows of `frame` once, and yield the frame to use.

        `source` is the DataFrame of the batch, from which `frame` is made. Raises JvmError, and
        SinkError if Spark has computed a part of the rows twice.
        """
        if is_connect(frame):
            with computed_rows(frame) as rows:
                yield rows
            return
        session, batch = frame.sparkSession, (plan.run_id, plan.batch_id)
        for _ in range(_TRIES):
            with ExitStack() as stack:
                with tagged_jobs(session) as tag:
                    rows = stack.enter_context(computed_rows(frame))
                if not self._stages.have_repeated(session, batch, tag):
                    stack.callback(self._stages.skip_jobs, session)
                    yield rows
                    return
            if self.has_shuffle(source):  # each new attempt would read the same damaged shuffle
                break
        raise SinkError(
            REPEATED,
            cause=LOST_SHUFFLE,
            fix=f"Restart the query: it computes the whole batch again. {OFTEN}",
        )

    def discard(self, frame: Any) -> None:
        """Compute all rows of `frame`, and discard them."""
        frame.write.format("noop").mode("overwrite").save()
