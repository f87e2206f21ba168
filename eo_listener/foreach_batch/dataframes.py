"""The DataFrames of a batch, held and run by Spark."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("eo_listener")


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

    def are_same(self, one: DataFrame, other: DataFrame) -> bool:
        """Whether both have one plan, but for what names and ids differ in."""
        return one is other or one.sameSemantics(other)

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
