"""A stand-in for running queries, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets


class MemoryQueries:
    """A `QueryReader` for invented queries, known by their run ids. All have the same sources.

    `source_options` are reader options by source index, or None if no query answers.
    """

    def __init__(self, source_options: Mapping[int, Mapping[str, str]] | None) -> None:
        self.source_options = source_options
        self.positions: dict[str, LivePosition] = {}
        self.starts: dict[str, Mapping[int, Offsets]] = {}
        self.modes: dict[str, QueryMode] = {}
        self.ended_runs: set[str] = set()
        self.forgotten_runs: list[str] = []
        self.requests = 0

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:  # noqa: ARG002  # the protocol's
        """Return the options of the sources."""
        self.requests += 1
        if self.source_options is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return self.source_options

    def mode(self, query_id: str, run_id: str) -> QueryMode:  # noqa: ARG002  # the protocol's
        """Return the run's mode: micro-batch, unless `modes` has a different mode."""
        return self.modes.get(run_id, QueryMode.MICRO_BATCH)

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """Return the position that `positions` has for the run, or None."""
        if self.source_options is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return self.positions.get(run_id)

    def beginnings(self, query_id: str, run_id: str) -> Mapping[int, Offsets]:  # noqa: ARG002  # the protocol's
        """Return the offsets that `starts` has for the run."""
        return self.starts.get(run_id, {})

    def has_ended(self, query_id: str, run_id: str) -> bool:
        """Return True if `ended_runs` contains the run."""
        if self.source_options is None:
            raise JvmError(f"cannot read the state of query {query_id}")
        return run_id in self.ended_runs

    def forget(self, run_id: str) -> None:
        """Remember that the run was forgotten."""
        self.forgotten_runs.append(run_id)
