"""Runs the MERGE of a batch in a separate session: the batch's number is a session setting."""

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
    """Stage the rows of `frame`, and yield a function that merges them in one commit.

    `commit` are the session settings for that commit.

    Raises the errors of `Merge.staged` and `Merge.check_table`.
    """
    with merge.staged(frame) as view:
        merge.check_table(frame.sparkSession, view)
        # Other threads may use the batch's session at the same time.
        own = clone_session(frame.sparkSession, {**_OF_MERGE, **commit})
        text = merge.statement(view)
        yield lambda: own.sql(text)
