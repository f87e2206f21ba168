"""The event of a batch that failed. Pure."""

from __future__ import annotations

from eo_listener.model.errors import EoListenerError
from eo_listener.model.events import BatchFailed


def batch_failed(
    error: Exception, *, query: str, run_id: str, batch_id: int, sink: str | None
) -> BatchFailed:
    """Return the event; the texts of foreign errors may hold secrets, and are left out."""
    ours = error if isinstance(error, EoListenerError) else None
    return BatchFailed(
        query=query,
        run_id=run_id,
        batch_id=batch_id,
        sink=sink,
        error=type(error).__name__,
        problem=ours.problem if ours else "the transform or Spark failed, not eo_listener",
        cause=ours.cause if ours else None,
        fix=ours.fix
        if ours
        else "Read the query's own error: query.exception(), or the log of the driver",
    )
