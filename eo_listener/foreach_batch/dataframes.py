"""The DataFrames of a batch, held and run by Spark."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("eo_listener")


class DataFrames:
    """What a batch does with DataFrames, classic and Connect. Spark's errors go to the caller."""

    def is_frame(self, made: object) -> bool:
        """Return whether it is a DataFrame of Spark, and none of pandas; Spark is not asked."""
        return any(
            kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
            for kind in type(made).__mro__
        )

    def hold(self, frame: Any) -> Any:
        """Keep the rows in memory and on disk once they are computed; return the frame to use."""
        return self.replan(frame.persist())

    def replan(self, frame: Any) -> Any:
        """Plan it again: a frame that has run keeps its plan, and sees no cache that came later."""
        return frame.select("*")

    def release(self, frame: Any) -> None:
        """Release what `hold` was given. Raises nothing: it is called after errors too."""
        try:
            frame.unpersist()
        except Exception:  # an earlier error counts more, and Spark ends what is left
            logger.debug("a batch's cached rows could not be released", exc_info=True)

    def discard(self, frame: Any) -> None:
        """Compute all rows, and keep none."""
        frame.write.format("noop").mode("overwrite").save()
