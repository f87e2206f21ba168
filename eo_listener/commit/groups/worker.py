"""The thread that commits to the groups of one cluster."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from eo_listener.commit.groups.cluster_state import STANDSTILL, ClusterState
from eo_listener.commit.groups.group_state import CommitRequest, GroupState, SnapshotRequest
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.events import Event, InternalError, Observer
from eo_listener.model.fault_points import fault_point
from eo_listener.model.kafka_errors import STOOD_STILL
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import TopicPartition

REQUEST_TIMEOUT = 8.0  # longer than the client's own time-out, so that its answer is not missed
SNAPSHOT_TIMEOUT = 4.0  # shorter than for a commit, since a failed read leaves nothing in flight
_POLL_INTERVAL = 5.0
_NOTICEABLE = 1.0
_PAUSE = 1.0  # after an internal error, which may recur at once

logger = logging.getLogger("eo_listener")


class Worker:
    """Commits to the groups of one cluster; an offer never waits for Kafka.

    The worker's thread calls `open_store` at its first request, because building a client may take
    time and must not delay the caller. If no run feeds the cluster, the thread calls `may_end`. If
    `may_end` returns True, the thread closes the group store and ends.
    """

    def __init__(
        self,
        name: str,
        open_store: Callable[[], GroupStore],
        *,
        cluster: str,
        observe: Observer,
        retry: Backoff | None = None,
        policy: Policy | None = None,
        may_end: Callable[[], bool] = lambda: False,
    ) -> None:
        self._may_end = may_end
        #: The time since which no run feeds this cluster; the committer sets it, under its lock.
        self.unused_since: float | None = None
        self._open_store = open_store
        self._observe = observe
        self._cluster_state = ClusterState(cluster, retry, policy=policy)
        self._changed = threading.Condition()
        self._suspended_before = _suspended()
        self._stopping = False
        self._notifying = False  # the thread is notifying the observers of a request's outcome
        self._store: GroupStore | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @contextmanager
    def groups(self, *, changes: bool = True) -> Iterator[ClusterState]:
        """Yield the state of the worker's groups, under the worker's lock.

        The `with` block must be short. After the block, the worker's thread wakes up if `changes`
        is True.
        """
        with self._changed:
            yield self._cluster_state
            if changes:
                self._changed.notify_all()

    def unused_for(self, seconds: float) -> bool:
        """Return True if no run has fed the cluster for `seconds`, and no offset is unconfirmed."""
        with self._changed:
            now = time.monotonic()
            unused = self.unused_since is not None and now - self.unused_since >= seconds
            return unused and self._cluster_state.idle() and self._cluster_state.wait(now) is None

    def flush(self, deadline: float) -> bool:
        """Wait until no offset is pending; return True if Kafka has confirmed all offered offsets.

        When the method returns, the observers have been notified, unless an observer itself calls
        the method. The method returns False when the monotonic clock passes `deadline`, and earlier
        if Kafka rejected all remaining offsets with lasting errors.
        """
        with self._changed:
            self._cluster_state.retry_now()
            self._changed.notify_all()
            while not self._cluster_state.idle():
                now = time.monotonic()
                remaining = deadline - now
                if remaining <= 0 or self._cluster_state.stuck(now):
                    return False
                self._changed.wait(remaining)
            complete = self._cluster_state.complete()
            if threading.current_thread() is not self._thread:
                self._changed.wait_for(lambda: not self._notifying, deadline - time.monotonic())
            return complete

    def close(self, deadline: float) -> None:
        """Stop the thread, drop unconfirmed offsets, and report them to the observer.

        Waits for the thread until `deadline`. If a request is still unanswered then, its daemon
        thread continues, and the log reports that.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(max(0.1, deadline - time.monotonic()))
        if self._thread.is_alive():
            logger.info(
                "%s is abandoned: Kafka has not answered its last request", self._thread.name
            )
        with self._changed:
            abandoned = self._cluster_state.abandon()
        self._notify(abandoned)

    def _run(self) -> None:
        try:
            while self._wait():
                try:
                    match self._next():
                        case SnapshotRequest() as request:
                            self._read_snapshot(request)
                        case CommitRequest() as request:
                            self._send_commit(request)
                except Exception as error:
                    # An internal error: the thread must survive it, or every later commit of the
                    # cluster would be lost unnoticed.
                    logger.exception("eo_listener could not serve %s", self._thread.name)
                    self._observe(
                        InternalError(where=self._thread.name, problem=type(error).__name__)
                    )
                    time.sleep(_PAUSE)
                self._poll_store()
                if self.unused_since is not None and self._may_end():
                    break
        finally:
            if self._store is not None:
                self._store.close()

    def _wait(self) -> bool:
        """Wait until a request or a poll of the client is due; return False to stop the thread."""
        with self._changed:
            wait = self._cluster_state.wait(time.monotonic())
            if not self._stopping and wait != 0.0:
                self._changed.wait(_POLL_INTERVAL if wait is None else min(wait, _POLL_INTERVAL))
            return not self._stopping

    def _next(self) -> CommitRequest | SnapshotRequest | None:
        with self._changed:
            if self._was_suspended():
                self._suspended_before = _suspended()
                self._cluster_state.invalidate_snapshots()
            return None if self._stopping else self._cluster_state.next(time.monotonic())

    def _was_suspended(self) -> bool:
        return _suspended() - self._suspended_before > _NOTICEABLE

    def _poll_store(self) -> None:
        try:
            if self._store is not None:
                self._store.poll()
        except Exception:
            # As in `_run`, the commits must go on, whatever the error is.
            logger.exception("eo_listener could not poll its Kafka client")

    def _read_snapshot(self, request: SnapshotRequest) -> None:
        try:
            fault_point("snapshot.before-request")
            if request.takes_over:
                logger.info(
                    "group %s: a new run takes it back from another committer", request.group
                )
                self._opened().take_over(request.group)
            snapshot = self._opened().snapshot(
                request.group, request.partitions, timeout=SNAPSHOT_TIMEOUT
            )
            fault_point("snapshot.answered")
        except Exception as error:  # noqa: BLE001  # `_failure` classifies and logs it
            code, detail = _failure("read", request.group, error)
            self._take_in(
                request.group,
                lambda group, now: group.on_snapshot_failed(request, code, now, detail),
            )
        else:
            self._take_in(
                request.group, lambda group, now: group.on_snapshot(request, snapshot, now)
            )

    def _send_commit(self, request: CommitRequest) -> None:
        answer: Mapping[TopicPartition, str | None]
        detail = None
        try:
            answer = self._commit(request)
        except Exception as error:  # noqa: BLE001  # `_failure` classifies and logs it
            code, detail = _failure("commit to", request.group, error)
            answer = dict.fromkeys(request.positions, code)
        self._take_in(
            request.group, lambda group, now: group.on_commit_answer(request, answer, now, detail)
        )

    def _take_in(
        self, group: str, answer: Callable[[GroupState, float], tuple[Event, ...]]
    ) -> None:
        """Pass a request's outcome to its group's state, and the resulting events to observers."""
        with self._changed:
            events = answer(self._cluster_state.group(group), time.monotonic())
            self._notifying = True
            self._changed.notify_all()
        try:
            self._notify(events)
        finally:
            with self._changed:
                self._notifying = False
                self._changed.notify_all()

    def _commit(self, request: CommitRequest) -> Mapping[TopicPartition, str | None]:
        fault_point("commit.before-request")
        if time.monotonic() - request.started > STANDSTILL or self._was_suspended():
            raise KafkaError("this process was suspended", code=STOOD_STILL)
        answer = self._opened().commit(request.group, request.positions, timeout=REQUEST_TIMEOUT)
        fault_point("commit.answered")
        return answer

    def _opened(self) -> GroupStore:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _notify(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._observe(event)


def _suspended() -> float:
    """Return for how many seconds the machine, and its monotonic clock, were suspended."""
    if not hasattr(time, "CLOCK_BOOTTIME"):  # not Linux
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _failure(action: str, group: str, error: Exception) -> tuple[str, str | None]:
    """Return the error name and the detail for an exception that a request raised.

    The thread must also survive an internal error of eo_listener or the client library, or every
    later commit would be lost unnoticed. The function logs such an error, and the request is
    retried.
    """
    if isinstance(error, KafkaError):
        return error.code, error.cause
    if isinstance(error, SettingsError):
        return "_INVALID_ARG", error.problem
    logger.error("eo_listener could not %s group %s", action, group, exc_info=error)
    return "_MALFUNCTION", None
