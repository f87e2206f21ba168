"""Many checkpoints, followed by one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.tracking.recommit import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.follow.checkpoint_poller import CheckpointPoller
from eo_listener.follow.checkpoint_tracker import INTERVAL, CheckpointTracker, Step
from eo_listener.follow.config import FollowedCheckpoint, open_all
from eo_listener.follow.notices import Notice, NoticeKind
from eo_listener.follow.report import Outcomes, Report
from eo_listener.model.events import Event
from eo_listener.model.observers import Observer, Observers
from eo_listener.model.protocols import GroupStore
from eo_listener.spark.checkpoint import Checkpoint

_Commits = tuple[GroupOffsets, ...]

_CLOSE_TIMEOUT = 2.0
_SILENT = 60.0  # seconds without an answer from a storage, after which it is said


class Follower:
    """Commits what the queries of `targets` make durable, for as long as it is open.

    A thread reads each checkpoint, a thread commits to each cluster. Where several checkpoints
    feed one partition of one group, the lowest of their offsets counts. Raises SettingsError for a
    checkpoint named twice, and StorageError for a storage whose driver is not installed.
    """

    def __init__(
        self,
        targets: Sequence[FollowedCheckpoint],
        open_store: Callable[[Cluster], GroupStore],
        *,
        observers: Iterable[Observer] = (),
        guard: GuardMode = GuardMode.WITHHOLD,
        policy: Policy | None = None,
        retry: Backoff | None = None,
        interval: float = INTERVAL,
        recommit_interval: float = RECOMMIT_INTERVAL,
    ) -> None:
        opened = open_all(targets)
        self._outcomes: Outcomes | None = None
        self._observers = Observers(*observers, self._note)
        self._committer = Committer(
            open_store, observers=self._observers, policy=policy, retry=retry
        )
        self._shared = SharedPartitions()
        self._order = threading.Lock()
        self._silent: set[str] = set()
        self._pollers: list[CheckpointPoller] = []
        for target, location in opened:
            shown = str(location)
            tracker = CheckpointTracker(
                target, shown, guard=guard, interval=interval, recommit_interval=recommit_interval
            )
            self._pollers.append(
                CheckpointPoller(Checkpoint(location), tracker, partial(self._act, shown))
            )

    def start(self) -> None:
        """Start to follow; returns at once."""
        for poller in self._pollers:
            poller.start()

    def poll(self) -> None:
        """Say which storages have not answered for a minute; to be called every few seconds."""
        for poller in self._pollers:
            shown = str(poller.checkpoint.location)
            if poller.unanswered_for() < _SILENT:
                self._silent.discard(shown)
            elif shown not in self._silent:
                self._silent.add(shown)
                self._observers.notify(_silence(shown, _SILENT))

    def once(self, timeout: float) -> tuple[Report, ...]:
        """Commit what is durable now, close, and return the results.

        Takes at most about `timeout` seconds. A follower is either started, or asked once.
        """
        deadline = time.monotonic() + timeout
        outcomes = self._outcomes = Outcomes()
        for poller in self._pollers:
            poller.start(once=True)
        for poller in self._pollers:
            # Half of the time is Kafka's, whatever the storages do.
            if not poller.join(deadline - timeout / 2):
                shown = str(poller.checkpoint.location)
                self._observers.notify(_silence(shown, timeout / 2))
            if poller.fault is not None:
                raise poller.fault
        flushed = self._committer.flush(max(0.0, deadline - time.monotonic()))
        # The last events come after the last commit: they are all there when it is closed.
        self.close(_CLOSE_TIMEOUT)
        return tuple(
            outcomes.report(str(poller.checkpoint.location), flushed=flushed)
            for poller in self._pollers
        )

    def close(self, timeout: float) -> None:
        """Stop, commit what was found, and close everything, within about `timeout` seconds.

        What could not be confirmed is reported as CommitAbandoned. A thread whose storage does not
        answer is left behind, as a daemon.
        """
        deadline = time.monotonic() + timeout
        for poller in self._pollers:
            poller.stop()
        for poller in self._pollers:
            poller.join(min(deadline, time.monotonic() + 1.0))
        self._committer.close(max(0.0, deadline - time.monotonic()))

    def _act(self, shown: str, step: Step) -> None:
        """Do what a reading of one checkpoint asks for; called on its thread."""
        with self._order:  # what was allowed first must be offered first
            commits, others, shared = self._allowed(shown, step)
            if self._outcomes is not None:
                self._outcomes.offered(shown, commits)
            for event in (*step.events, *shared):
                self._observers.notify(event)
            for commit in step.withheld:
                self._committer.withhold(commit, recommit=step.recommit)
            for commit in commits:
                self._committer.offer(commit, recommit=step.recommit)
            for commit in others:
                self._committer.offer(commit)

    def _allowed(self, shown: str, step: Step) -> tuple[_Commits, _Commits, tuple[Event, ...]]:
        """What of a step may be committed beside the other checkpoints, and what to say of it.

        In the middle: what others may commit now that this checkpoint no longer counts.
        """
        others = self._shared.drop(shown) if step.released else ()
        commits: list[GroupOffsets] = []
        events: list[Event] = []
        for commit in step.commits:
            lowest, shared = self._shared.lowest(shown, shown, commit)
            commits.append(lowest)
            events += [shared] if shared is not None else []
        return tuple(commits), others, tuple(events)

    def _note(self, event: Event) -> None:
        if self._outcomes is not None:
            self._outcomes(event)


def _silence(shown: str, seconds: float) -> Notice:
    return Notice(
        checkpoint=shown,
        kind=NoticeKind.SILENT,
        what=f"its storage has not answered for {seconds:.0f} s",
        cause="the network or the storage hangs",
        fix="check it from this machine; the other checkpoints go on",
    )
