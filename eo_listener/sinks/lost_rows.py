"""Rows of a batch that an executor kept, and has taken along. Pure."""

from __future__ import annotations

from typing import Final

from eo_listener.model.errors import RetriableSinkError

LOST: Final = "Checkpoint block"
"""What Spark calls a part of rows whose lineage was cut, where it is not there any more."""


def rows_lost(problem: str) -> RetriableSinkError:
    """Return the error for rows that are computed again with the next try of their batch."""
    return RetriableSinkError(
        problem,
        cause="an executor has ended",
        fix="The batch is repeated; if this goes on, find out why executors end (memory, "
        "preemption)",
    )
