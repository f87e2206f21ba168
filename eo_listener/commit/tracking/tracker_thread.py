"""The thread between Spark's events and the committer: finds out where offsets go."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.event_buffer import BufferedEvents, EventBuffer, Started
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker import Moment, QueryTracker
from eo_listener.errors import FormatError
from eo_listener.events import InternalError, Observers
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import QueryReader

logger = logging.getLogger("eo_listener")


class TrackerThread:
    """Takes progress events over from Spark's thread, and offers their offsets for committing.

    `QueryTracker` decides what becomes of them; here are the thread and the clock.
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
            routing,
            queries,
            committer,
            observers,
            guard=guard,
            recommit_interval=recommit_interval,
        )
        self._changed = threading.Condition()
        self._buffer = EventBuffer()
        self._check_all = False
        self._busy = False
        self._stopping = False
        self._reported_late = False
        self._thread = threading.Thread(target=self._run, name="eo-listener-tracker", daemon=True)
        self._thread.start()

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Hand over that a run has begun; returns at once."""
        run = Started(query_id=query_id, run_id=run_id, name=name)
        self._put(lambda buffer: buffer.started(run))

    def progressed(self, progress: Progress) -> None:
        """Hand an event over; returns at once. After `close` it is refused, once with a log line.

        A listener may stay registered after its close, and is called for every batch then.
        """
        if progress.sources and all(source.end is None for source in progress.sources):
            return
        with self._changed:
            late, self._reported_late = self._stopping and not self._reported_late, self._stopping
            if not self._stopping:
                self._buffer.progressed(progress)
                self._changed.notify_all()
        if late:
            logger.warning(
                "query %s: batch %d arrived after the listener was closed; it and later batches "
                "will not be committed. Fix: call spark.streams.removeListener(listener) "
                "together with close()",
                progress.query,
                progress.batch_id,
            )

    def idle(self, run_id: str) -> None:
        """Hand over that a run had nothing to do; returns at once."""
        self._put(lambda buffer: buffer.idle(run_id))

    def unreadable(self, error: FormatError) -> None:
        """Hand over that an event could not be read; returns at once."""
        self._put(lambda buffer: buffer.unreadable(error))

    def ended(self, run_id: str) -> None:
        """Hand over that a run has ended: what waits for a retry is tried now. Returns at once."""
        self._put(lambda buffer: buffer.ended(run_id))

    def _put(self, leave: Callable[[EventBuffer], None]) -> None:
        with self._changed:
            if not self._stopping:
                leave(self._buffer)
                self._changed.notify_all()

    def flush(self, deadline: float) -> bool:
        """Wait until all that is durable is offered, or the monotonic clock passes `deadline`."""
        with self._changed:
            self._check_all = True
            self._changed.notify_all()
            while self._buffer or self._check_all or self._busy:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self._thread.is_alive():
                    return False
                self._changed.wait(remaining)
            return self._tracker.complete

    def close(self, deadline: float) -> None:
        """Work off what waits, and stop the thread, until `deadline`; name what is left."""
        done = self.flush(deadline)
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
        """Wait for something to do, and take it; nothing to stop."""
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
