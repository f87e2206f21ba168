"""The MERGE of a batch, in a session of its own: its number is a setting of the session."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eo_listener.spark.jvm.delta_log import clone_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from eo_listener.sinks.spark_merge import Merge

_CONF: Final = "spark.databricks.delta."
_OF_MERGE: Final = {
    f"{_CONF}schema.autoMerge.enabled": "false",
    f"{_CONF}merge.materializeSource": "none",  # the rows are kept already
}


@contextmanager
def prepared(
    merge: Merge, frame: DataFrame, commit: Mapping[str, str]
) -> Iterator[Callable[[], object]]:
    """Stage the rows of `frame`, and give what merges them, by a commit with these settings.

    Raises as `Merge.staged` and `Merge.check_table` do.
    """
    with merge.staged(frame) as view:
        merge.check_table(frame.sparkSession, view)
        # Others may use the batch's own session at the same time.
        own = clone_session(frame.sparkSession, {**_OF_MERGE, **commit})
        text = merge.statement(view)
        yield lambda: own.sql(text)
