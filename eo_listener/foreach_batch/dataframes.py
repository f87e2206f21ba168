"""The DataFrames of a batch, held and run by Spark."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("eo_listener")

_WHOLE = {  # Spark's own formats leave out nulls, and what is less than a millisecond
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def in_session_of(frame: DataFrame) -> AbstractContextManager[None]:
    """Have the calling thread work in the session of the frame, where that is a classic one.

    Raises JvmError.
    """
    session = getattr(frame, "sparkSession", None)
    if getattr(session, "_jsparkSession", None) is None:
        return nullcontext()
    from eo_listener.spark.jvm.sessions import working_in  # noqa: PLC0415  # py4j is not in every client of Spark Connect

    return working_in(session)


class SparkFrames:
    """The `Frames` of pyspark, classic and Connect."""

    def is_one(self, made: object) -> bool:
        """Whether it is a DataFrame, classic or Connect, and none of pandas."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(made).__mro__
        )

    def are_same(self, one: DataFrame, other: DataFrame) -> bool | None:
        """By their plans, then by their rows, where these are the same each time.

        A step such as uuid() gives other values to the same rows, and a local checkpoint hides the
        steps behind it. There only another number of rows shows that they are not the same. A plan
        of Spark Connect has the names of views, which may mean others by now.
        """
        if one is other or (_are_classic(one, other) and _have_one_plan(one, other)):
            return True
        try:
            return _have_one_content(one, other)
        except Exception as error:  # noqa: BLE001  # of Spark, Spark Connect, or the data: not known then
            logger.warning("Two DataFrames could not be compared: %s", type(error).__name__)
            return None

    def hold(self, frame: DataFrame) -> DataFrame:
        """Keep the rows in memory and on disk once they are computed."""
        return self.replan(frame.persist())

    def replan(self, frame: DataFrame) -> DataFrame:
        """Plan it again: a frame that has run keeps its plan, and sees no cache that came later."""
        return frame.select("*")

    def release(self, frame: DataFrame) -> None:
        """Release them."""
        try:
            frame.unpersist()
        except Exception:  # an earlier error counts more, and Spark ends what is left
            logger.debug("a batch's cached rows could not be released", exc_info=True)

    def discard(self, frame: DataFrame) -> None:
        """Compute all rows, and keep none."""
        frame.write.format("noop").mode("overwrite").save()


def _are_classic(*frames: DataFrame) -> bool:
    return all(getattr(frame, "_jdf", None) is not None for frame in frames)


def _have_one_plan(one: DataFrame, other: DataFrame) -> bool:
    """Whether plans and names of columns are alike: Spark's own comparison leaves the names out."""
    return one.columns == other.columns and one.sameSemantics(other)


def _have_one_content(one: DataFrame, other: DataFrame) -> bool | None:
    if one.count() != other.count():
        return False
    if not _are_classic(one, other):
        return None
    from eo_listener.spark.jvm.repeatable import repeat_the_same  # noqa: PLC0415  # as above

    if not repeat_the_same(one, other):
        return None
    return _as_text(one).exceptAll(_as_text(other)).isEmpty()


def _as_text(frame: DataFrame) -> DataFrame:
    """Each row as one text, as maps cannot be compared; its columns by name, which may be equal."""
    from pyspark.sql import functions  # noqa: PLC0415  # commands need no pyspark

    named = sorted((name, f"_{place}") for place, name in enumerate(frame.columns))
    row = functions.struct(*(functions.col(column).alias(name) for name, column in named))
    plain = frame.toDF(*(f"_{place}" for place in range(len(named))))
    return plain.select(functions.to_json(row, _WHOLE))
