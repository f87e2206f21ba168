"""Events in, commits out: what every road from Spark leads to."""

from __future__ import annotations

import time
from collections.abc import Iterable

from eo_listener.clusters import open_cluster
from eo_listener.committer import Committer, Router
from eo_listener.errors import FormatError
from eo_listener.events import Observer
from eo_listener.fault_points import reached
from eo_listener.kafka import check
from eo_listener.logbook import Logbook
from eo_listener.progress import Progress
from eo_listener.protocols import Hands, QueryReader
from eo_listener.settings import Settings


class Engine:
    """The router and the committer of one driver, wired by its settings.

    `queries` answers for running queries; `observers` see every event, after the log; `hands` do
    in the JVM what needs Java, where there is one. Every method but those with a deadline returns
    at once. Raises SettingsError.
    """

    def __init__(
        self,
        settings: Settings,
        queries: QueryReader,
        observers: Iterable[Observer] = (),
        *,
        hands: Hands | None = None,
    ) -> None:
        mode = settings.mode.value
        check(settings.kafka, mode)
        rules = settings.rules
        self._committer = Committer(
            lambda cluster: open_cluster(cluster, mode, hands),
            observers=(Logbook(), *observers),
            policy=settings.policy,
        )
        self._router = Router(
            rules, queries, self._committer, guard=settings.guard, heartbeat=settings.heartbeat
        )

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """A run has begun."""
        self._router.started(query_id, run_id, name)

    def progressed(self, text: str) -> None:
        """A batch has ended; `text` is the JSON of its StreamingQueryProgress."""
        reached("listener.progress")
        try:
            self._router.progressed(Progress.parse(text))
        except FormatError as error:
            self._router.unreadable(error)

    def ended(self, run_id: str) -> None:
        """A run has ended."""
        self._router.ended(run_id)

    def flush(self, deadline: float) -> bool:
        """Wait until all that is durable is committed, or the monotonic clock passes `deadline`."""
        routed = self._router.flush(deadline)
        return self._committer.flush(_left(deadline)) and routed

    def confirmed(self, deadline: float) -> bool:
        """Wait until all that was offered so far is committed, or until `deadline`."""
        return self._committer.flush(_left(deadline))

    def close(self, deadline: float) -> None:
        """Commit what is left until `deadline`, let go of everything, and name what is lost."""
        self._router.close(deadline)
        self._committer.close(_left(deadline))


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
