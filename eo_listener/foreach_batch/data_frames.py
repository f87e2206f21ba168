"""The DataFrames of a batch: how their rows are computed once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from eo_listener.errors import SinkError
from eo_listener.spark.computed_rows import cached_rows, computed_rows
from eo_listener.spark.jvm.calls import asking
from eo_listener.spark.jvm.stage_attempts import (
    LOST_SHUFFLE,
    OFTEN,
    REPEATED,
    RunStages,
    tagged_jobs,
)

_TRIES: Final = 3
_EXCHANGE: Final = re.compile(r"(?<!Broadcast)Exchange\b")  # in the text of a physical plan
_SHUFFLED: Final = re.compile(r"\+-\(\d+\)")  # in the lineage of an RDD, as Spark draws it


class DataFrames:
    """Handles a batch with DataFrames, classic and Connect. Spark's errors go to the caller."""

    def __init__(self) -> None:
        self._stages = RunStages()

    def is_frame(self, output: object) -> bool:
        """Return True for a DataFrame of Spark, not of pandas. Sends no request to Spark."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(output).__mro__
        )

    def has_shuffle(self, frame: Any, source: Any) -> bool:
        """Return True if a shuffle precedes the rows of `frame`, which is made of `source`.

        `source` is the DataFrame of the batch. False under Spark Connect, where that is not known.
        Raises JvmError.
        """
        if not _is_classic(frame):
            return False
        with asking("read the plan of a batch"):
            plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001  # pyspark does not show it
            return _EXCHANGE.search(plan.toString()) is not None or _is_shuffled(source)

    def cached(self, frame: Any) -> AbstractContextManager[None]:
        """Cache the rows of `frame` while several frames made of it are computed."""
        return cached_rows(frame)

    @contextmanager
    def computed(self, frame: Any, source: Any, run_id: str) -> Iterator[Any]:
        """Compute the rows of `frame` once, and yield the frame to use.

        `source` is the DataFrame of the batch, of which `frame` is made. Raises SinkError if Spark
        has computed a part of them twice; JvmError.
        """
        if not _is_classic(frame):
            with computed_rows(frame) as rows:
                yield rows
            return
        session = frame.sparkSession
        for _ in range(_TRIES):
            with ExitStack() as stack:
                with tagged_jobs(session) as tag:
                    rows = stack.enter_context(computed_rows(frame))
                if not self._stages.have_repeated(session, run_id, tag):
                    yield rows
                    return
            with asking("read the plan of a batch"):
                if _is_shuffled(source):  # each try of ours would read what is left of its files
                    break
        raise SinkError(
            REPEATED,
            cause=LOST_SHUFFLE,
            fix=f"Restart the query: it computes the whole batch again. {OFTEN}",
        )

    def discard(self, frame: Any) -> None:
        """Compute all rows, and keep none."""
        frame.write.format("noop").mode("overwrite").save()


def _is_classic(frame: Any) -> bool:
    return getattr(frame, "_jdf", None) is not None


def _is_shuffled(source: Any) -> bool:
    lineage = source._jdf.queryExecution().toRdd().toDebugString()  # noqa: SLF001  # as above
    return _SHUFFLED.search(lineage) is not None
