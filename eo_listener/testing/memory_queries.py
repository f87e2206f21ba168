"""Running queries in memory."""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode


class MemoryQueries:
    """A `QueryReader` of queries that exist only here, by run id; all have the same `given`.

    `given` are reader options by source index; None for queries that cannot be asked at all.
    """

    def __init__(self, source_options: Mapping[int, Mapping[str, str]] | None) -> None:
        self.given = source_options
        self.positions: dict[str, LivePosition] = {}
        self.modes: dict[str, QueryMode] = {}
        self.over: set[str] = set()
        self.forgotten: list[str] = []
        self.asked = 0

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:  # noqa: ARG002  # the protocol's
        """Return `given`."""
        self.asked += 1
        if self.given is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return self.given

    def mode(self, query_id: str, run_id: str) -> QueryMode:  # noqa: ARG002  # the protocol's
        """Return the run's mode, micro-batch unless `modes` has another."""
        return self.modes.get(run_id, QueryMode.MICRO_BATCH)

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """Return what `positions` says."""
        if self.given is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return self.positions.get(run_id)

    def has_ended(self, query_id: str, run_id: str) -> bool:
        """Return True if `over` has the run."""
        if self.given is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return run_id in self.over

    def forget(self, run_id: str) -> None:
        """Remember that the run was forgotten."""
        self.forgotten.append(run_id)
