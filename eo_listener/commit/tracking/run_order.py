"""Which run of a query is the newest, and which have ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from eo_listener.commit.tracking.event_buffer import RUNS_KEPT
from eo_listener.commit.tracking.query_run import QueryRun
from eo_listener.model.progress import Progress


class RunOrder:
    """The runs of each query in their order, for one thread; `runs` are those that are there.

    Events may come late, when their run was followed by another or has ended.
    """

    def __init__(self, runs: Mapping[str, QueryRun]) -> None:
        self._runs = runs
        self._newest: dict[str, str] = {}  # by query
        # Runs that ended, with the last batch.
        self._ended_runs: OrderedDict[str, int] = OrderedDict()

    def newest(self, query_id: str) -> QueryRun | None:
        """The run of a query that began last, while it is there."""
        return self._runs.get(self._newest.get(query_id, ""))

    def is_newest(self, run: QueryRun) -> bool:
        """Whether no later run of its query is known: of two, Spark lets only one be active.

        So an earlier one is over. Spark may drop its end event when its bus is full, and what
        a run has reached would hold its own successor up forever.
        """
        return self._newest.get(run.query_id, run.run_id) == run.run_id

    def has_ended(self, run_id: str) -> bool:
        """Whether a run has ended, and is not there any more."""
        return run_id in self._ended_runs

    def set_newest(self, query_id: str, run_id: str) -> None:
        """From now on this is the newest run of its query."""
        self._newest[query_id] = run_id
        self._ended_runs.pop(run_id, None)

    def becomes_newest(self, progress: Progress) -> bool:
        """Whether this event makes its run the newest: one that goes on is above all others.

        A run without an event so far gives way to one that is not known yet.
        """
        run_id = progress.run_id
        newest = self.newest(progress.query_id)
        if newest is None:
            return progress.batch_id > self._ended_runs.get(run_id, -1)
        if newest.newest is None:
            return run_id not in self._runs and run_id not in self._ended_runs
        return newest.run_id != run_id and progress.batch_id > newest.newest.batch_id

    def end(self, run_id: str, run: QueryRun | None) -> None:
        """A run has ended: late events must not bring it back."""
        self._ended_runs[run_id] = -1 if run is None else run.last_batch
        while len(self._ended_runs) > RUNS_KEPT:
            self._ended_runs.popitem(last=False)

    def drop(self, run: QueryRun) -> None:
        """A run is not there any more."""
        if self._newest.get(run.query_id) == run.run_id:
            del self._newest[run.query_id]
