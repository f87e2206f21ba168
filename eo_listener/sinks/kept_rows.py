"""Rows of a batch that Spark computes once: rows that are computed again can be others."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from eo_listener.errors import OutcomeUnknownError, PoisonRowError
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.dead_letters import REASON, RowFilter
from eo_listener.sinks.lost_rows import LOST, rows_lost
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_columns import quoted
from eo_listener.spark.jvm.calls import FAILURES, thrown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

_FILTER: Final = (
    "Filter such rows out in the transform, or into a sink of their own: "
    "exactly_once([sink, other], transform=...)"
)

logger = logging.getLogger("eo_listener")


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute the rows of `frame`, and have the executors keep them until the end.

    Raises RetriableSinkError if one of these has ended before; nothing must be written then unless
    OutcomeUnknownError is raised inside.
    """
    computed = frame.localCheckpoint()
    try:
        yield computed
    except OutcomeUnknownError:
        raise
    except Exception as error:
        if not _is_of_lost_rows(error):
            raise
        raise rows_lost("rows of the batch were lost before all were written") from error
    finally:
        _release(computed)


@contextmanager
def named(frame: DataFrame, view: str) -> Iterator[DataFrame]:
    """As `kept`, with a name in the session of `frame`."""
    with kept(frame) as rows:
        rows.createOrReplaceTempView(view)
        try:
            yield rows
        finally:
            try:
                frame.sparkSession.catalog.dropTempView(view)
            except FAILURES:  # as below
                logger.debug("the view %s could not be dropped", view, exc_info=True)


@contextmanager
def unmarked(frame: DataFrame, label: str, fix: str = _FILTER) -> Iterator[DataFrame]:
    """The rows of `frame` for a sink without dead letters; kept if some may be marked.

    Raises PoisonRowError for one that is, with `fix`, and SettingsError as `RowFilter.of` does.
    """
    if not RowFilter.of(frame.columns, None).marked:
        yield frame
        return
    with kept(frame) as computed:
        _refuse_marked(computed, label, fix)
        yield computed.drop(REASON)


def poison_row(
    origin: Sequence[Any], label: str, reason: str, *, cause: str, fix: str
) -> PoisonRowError:
    """Return the error for a row that cannot be written to `label`.

    `origin` are its topic, partition and offset; None where the row does not say them.
    """
    topic, partition, offset = origin
    known = None not in origin
    tp = TopicPartition(topic, partition) if known else None
    where = f"the row from offset {offset} of {tp}" if known else "a row"
    return PoisonRowError(
        f"{where} cannot be written to {label}: {reason}",
        partition=tp,
        offset=offset if known else None,
        cause=cause,
        fix=fix,
    )


def _refuse_marked(frame: DataFrame, label: str, fix: str) -> None:
    names = [F.col(quoted(name)) if name in frame.columns else F.lit(None) for name in ORIGIN]
    marked = frame.where(F.col(REASON).isNotNull()).select(*names, REASON).limit(1).collect()
    for *origin, reason in marked:
        raise poison_row(
            origin,
            label,
            reason,
            cause="such a row fails its batch; nothing was written",
            fix=fix,
        )


def _is_of_lost_rows(error: BaseException) -> bool:
    at: BaseException | None = error
    while at is not None:
        if any(LOST in one.text for one in thrown(at)):
            return True
        at = None if at.__cause__ is at else at.__cause__
    return False


def _release(computed: DataFrame) -> None:
    try:
        computed._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001  # pyspark frees no checkpoint
    except FAILURES:  # an earlier error counts more, and Spark drops them in the end
        logger.debug("the rows of a batch could not be dropped", exc_info=True)
