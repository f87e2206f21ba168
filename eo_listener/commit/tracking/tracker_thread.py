"""The thread between Spark's events and the committer."""

from __future__ import annotations

import logging
import threading
import time

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.event_buffer import BufferedEvents, EventBuffer, QueryEvent
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker import Moment, QueryTracker
from eo_listener.events import InternalError, Observers
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import QueryReader

logger = logging.getLogger("eo_listener")


class TrackerThread:
    """Takes progress events from Spark's thread, and offers their offsets to the committer.

    `QueryTracker` makes the decisions; this class has the thread and the clock.
    """

    def __init__(
        self,
        routing: GroupRouting,
        queries: QueryReader,
        committer: Committer,
        observers: Observers,
        *,
        guard: GuardMode = GuardMode.WITHHOLD,
        recommit_interval: float = RECOMMIT_INTERVAL,
    ) -> None:
        self._observers = observers
        self._tracker = QueryTracker(
            routing, queries, committer, observers, guard=guard, recommit_interval=recommit_interval
        )
        self._changed = threading.Condition()
        self._buffer = EventBuffer()
        self._check_all = False
        self._busy = False
        self._stopping = False
        self._logged_late = False
        self._thread = threading.Thread(target=self._run, name="eo-listener-tracker", daemon=True)
        self._thread.start()

    def put(self, event: QueryEvent) -> None:
        """Take an event, and return at once.

        A listener may stay registered after `close`, and Spark then calls it for every batch. This
        method ignores the events of these batches, and logs the first one.

        If the event reports the end of a run, the run's commits that wait for a retry are retried
        at once.
        """
        progress = event if isinstance(event, Progress) else None
        if progress and progress.sources and all(item.end is None for item in progress.sources):
            return
        with self._changed:
            if not self._stopping:
                self._buffer.add(event)
                self._changed.notify_all()
                return
            is_first = progress is not None and not self._logged_late
            self._logged_late = self._logged_late or is_first
        if progress and is_first:
            logger.warning(
                "query %s: batch %d arrived after the listener was closed; it and later batches "
                "will not be committed. Fix: call spark.streams.removeListener(listener) "
                "together with close()",
                progress.query,
                progress.batch_id,
            )

    def flush(self, deadline: float) -> bool:
        """Wait until the committer has all durable offsets; return True if it has all of them.

        Returns False when the monotonic clock passes `deadline`.
        """
        with self._changed:  # or the tracker's thread may go on after the check
            return self._drain(deadline) and self._tracker.complete

    def _drain(self, deadline: float) -> bool:
        """Wait until the tracker has checked all queries; return False if that takes too long."""
        with self._changed:
            self._check_all = True
            self._changed.notify_all()
            while self._buffer or self._check_all or self._busy:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._thread.is_alive():
                    return False
                self._changed.wait(remaining)
            return True

    def close(self, deadline: float) -> None:
        """Handle waiting events until `deadline`, then stop the thread, and report lost batches."""
        done = self._drain(deadline)
        with self._changed:
            self._stopping = True
            lost = [*(() if done else self._tracker.unserved), *self._buffer.waiting()]
            self._buffer = EventBuffer()
            self._changed.notify_all()
        self._thread.join(max(0.1, deadline - time.monotonic()))
        reason = (
            "it arrived while the listener was closing" if done else "Spark did not answer in time"
        )
        for progress in lost:
            self._observers.notify(
                InternalError(
                    where=f"query {progress.query}",
                    problem=f"batch {progress.batch_id} is not committed: {reason}",
                )
            )

    def _run(self) -> None:
        while True:
            buffered, check_all = self._wait()
            if buffered is None:
                return
            moment = Moment(time.monotonic(), time.time())
            self._tracker.serve(buffered, moment, check_all=check_all)

    def _wait(self) -> tuple[BufferedEvents | None, bool]:
        """Wait for work; return the events (None: stop), and whether to check all queries."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._buffer or self._check_all or self._stopping):
                due = self._tracker.due()
                timeout = None if due is None else due - time.monotonic()
                if timeout is not None and timeout <= 0:
                    break
                self._changed.wait(timeout)
            if self._stopping:
                return None, False
            self._busy = True
            check_all, self._check_all = self._check_all, False
            return self._buffer.take(), check_all
