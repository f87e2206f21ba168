"""Rows of a batch that an executor kept, and has taken along. Pure."""

from __future__ import annotations

from typing import Final

from eo_listener.errors import RetriableSinkError

LOST: Final = "Checkpoint block"
"""Spark's name for a part of rows whose lineage was cut, if it no longer exists."""


def rows_lost(problem: str) -> RetriableSinkError:
    """Return the error for rows that are computed again with the next try of their batch."""
    return RetriableSinkError(
        problem,
        cause="an executor has ended",
        fix="Nothing to do: the batch is retried. If this recurs, find out why executors end "
        "(memory, preemption)",
    )
