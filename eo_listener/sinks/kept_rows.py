"""Has Spark compute a batch's rows only once: a second computation can yield different rows."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.errors import OutcomeUnknownError
from eo_listener.sinks.arrow_rows import LOST
from eo_listener.sinks.dead_letters import REASON, DeadLetter, RowFilter
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_names import quoted
from eo_listener.spark.computed_rows import computed_rows, rows_lost
from eo_listener.spark.jvm.calls import FAILURES, thrown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_FILTER: Final = (
    "Filter such rows out in the transform, or write them to a second sink: "
    "exactly_once([sink, other], transform=...)"
)

logger = logging.getLogger("eo_listener")


@contextmanager
def keep_rows(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute the rows of `frame`, and have the executors keep them until the block ends.

    Raises RetriableSinkError if an executor with kept rows is lost before the block ends. If the
    block may have written something by then, it must itself raise OutcomeUnknownError.
    """
    with computed_rows(frame) as computed:
        try:
            yield computed
        except OutcomeUnknownError:
            raise
        except Exception as error:
            if not _is_of_lost_rows(error):
                raise
            raise rows_lost("rows of the batch were lost before all were written") from error


@contextmanager
def keep_as_view(frame: DataFrame, view: str) -> Iterator[DataFrame]:
    """Keep the rows of `frame` as `keep_rows` does, and register them as the view `view`."""
    with keep_rows(frame) as rows:
        rows.createOrReplaceTempView(view)
        try:
            yield rows
        finally:
            try:
                frame.sparkSession.catalog.dropTempView(view)
            except FAILURES:  # an earlier error counts more
                logger.debug("the view %s could not be dropped", view, exc_info=True)


@contextmanager
def unmarked_rows(frame: DataFrame, label: str, fix: str = _FILTER) -> Iterator[DataFrame]:
    """Yield the rows of `frame` for a sink without dead letters.

    If the transform may have marked rows, the executors keep all rows until the block ends.

    Raises PoisonRowError, with `fix`, if a row is marked, and SettingsError as
    `RowFilter.for_target` does.
    """
    if not RowFilter.for_target(frame.columns, None).marked:
        yield frame
        return
    with keep_rows(frame) as computed:
        names = [F.col(quoted(name)) if name in frame.columns else F.lit(None) for name in ORIGIN]
        marked = computed.where(F.col(REASON).isNotNull()).select(*names, REASON)
        for *origin, reason in marked.limit(1).collect():
            raise DeadLetter.from_origin(origin, reason).error(label, fix=fix)
        yield computed.drop(REASON)


def _is_of_lost_rows(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if any(LOST in java_error.text for java_error in thrown(cause)):
            return True
        cause = None if cause.__cause__ is cause else cause.__cause__
    return False
