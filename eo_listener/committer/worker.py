"""The thread that commits to the groups of one cluster."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from eo_listener.committer.board import Attempt, Board, Retry
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.events import Event, Observer
from eo_listener.offsets import Position, TopicPartition
from eo_listener.protocols import GroupStore

REQUEST_TIMEOUT = 8.0  # longer than the client's own, so that its answer is not missed
_TEND_EVERY = 5.0

logger = logging.getLogger("eo_listener")


class Worker:
    """Commits to the groups of one cluster; offers never block on Kafka.

    `open_store` is called on the thread itself, at the first commit: building a client may
    take time, and must not take the caller's.
    """

    def __init__(
        self,
        name: str,
        open_store: Callable[[], GroupStore],
        *,
        cluster: str,
        observe: Observer,
        retry: Retry | None = None,
        request_timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        self._open_store = open_store
        self._observe = observe
        self._request_timeout = request_timeout
        self._board = Board(cluster, retry)
        self._changed = threading.Condition()
        self._stopping = False
        self._store: GroupStore | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def offer(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Hand positions over; returns at once."""
        with self._changed:
            refused = self._board.offer(group, positions)
            self._changed.notify_all()
        if refused is not None:
            self._tell((refused,))

    def hurry(self) -> None:
        """Try everything that waits for a retry now; returns at once."""
        with self._changed:
            self._board.hurry()
            self._changed.notify_all()

    def flush(self, deadline: float) -> bool:
        """Wait until all is confirmed; say whether it is.

        Gives up when the monotonic clock passes `deadline`, and at once when Kafka refused
        all that is left: that lasts until somebody changes something.
        """
        with self._changed:
            self._board.hurry()
            self._changed.notify_all()
            while not self._board.idle():
                now = time.monotonic()
                left = deadline - now
                if left <= 0 or self._board.stuck(now):
                    return False
                self._changed.wait(left)
        return True

    def close(self, deadline: float) -> None:
        """Stop the thread, give up what is unconfirmed, and say so.

        The thread is joined until `deadline`; a request that is still unanswered then is
        left behind on its daemon thread and named in the log.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(max(0.1, deadline - time.monotonic()))
        if self._thread.is_alive():
            logger.info(
                "%s is left behind: Kafka has not answered its last request",
                self._thread.name,
            )
        with self._changed:
            given_up = self._board.abandon()
        self._tell(given_up)

    def _run(self) -> None:
        try:
            while self._wait():
                attempt = self._next()
                if attempt is not None:
                    self._try(attempt)
                self._tend()
        finally:
            if self._store is not None:
                self._store.close()

    def _wait(self) -> bool:
        """Wait until something is due, or it is time to look after the client; False to stop."""
        with self._changed:
            wait = self._board.wait(time.monotonic())
            if not self._stopping and wait != 0.0:
                self._changed.wait(_TEND_EVERY if wait is None else min(wait, _TEND_EVERY))
            return not self._stopping

    def _next(self) -> Attempt | None:
        with self._changed:
            return None if self._stopping else self._board.next(time.monotonic())

    def _tend(self) -> None:
        try:
            if self._store is not None:
                self._store.tend()
        except Exception:
            # As in `_try`: whatever it is, the commits must go on.
            logger.exception("eo_listener could not look after its Kafka client")

    def _try(self, attempt: Attempt) -> None:
        answer: Mapping[TopicPartition, str | None]
        detail = None
        try:
            if self._store is None:
                self._store = self._open_store()
            answer = self._store.commit(
                attempt.group, attempt.positions, timeout=self._request_timeout
            )
        except KafkaError as error:
            answer, detail = dict.fromkeys(attempt.positions, error.code), error.cause
        except SettingsError as error:
            answer, detail = dict.fromkeys(attempt.positions, "_INVALID_ARG"), error.problem
        except Exception:
            # A fault of ours or of the client library. The thread must outlive it, or every
            # later commit would be lost in silence: say it, and let the retry run its course.
            logger.exception("eo_listener could not commit to group %s", attempt.group)
            answer = dict.fromkeys(attempt.positions, "_MALFUNCTION")
        with self._changed:
            events = self._board.settle(attempt, answer, time.monotonic(), detail)
            self._changed.notify_all()
        self._tell(events)

    def _tell(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._observe(event)
