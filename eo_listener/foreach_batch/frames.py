"""The DataFrames of a batch, held and run by Spark."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("eo_listener")


class SparkFrames:
    """The `Frames` of pyspark, classic and Connect."""

    def hold(self, frame: DataFrame) -> DataFrame:
        """Keep the rows in memory and on disk once they are computed."""
        return frame.persist()

    def release(self, held: DataFrame) -> None:
        """Let go of them."""
        try:
            held.unpersist()
        except Exception:  # an error on the way here counts more, and Spark ends what is left
            logger.debug("a batch's cached rows could not be let go of", exc_info=True)

    def discard(self, frame: DataFrame) -> None:
        """Compute all rows, and keep none."""
        frame.write.format("noop").mode("overwrite").save()
