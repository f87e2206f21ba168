"""Follows many checkpoints in one process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.tracking.query_run import RECOMMIT_INTERVAL
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.errors import ExitCode, StorageError
from eo_listener.events import (
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    Observer,
    Observers,
)
from eo_listener.follow.checkpoint_tracker import INTERVAL, CheckpointTracker, Reading, Step
from eo_listener.follow.config import FollowedCheckpoint, open_all
from eo_listener.follow.notices import Notice, NoticeKind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.spark.checkpoint.errors import CheckpointError

_REREAD_AFTER = 1.0  # seconds before a doubtful reading is repeated, if there is only one
_AFTER_FAULT = 30.0  # seconds
_CLOSE_TIMEOUT = 2.0
_SILENT = 60.0  # seconds without an answer from a storage, until that is reported

logger = logging.getLogger("eo_listener")
_Place = tuple[str, str, TopicPartition]  # a partition in a group of a cluster


def read_once(checkpoint: Checkpoint) -> Reading:
    """Return a reading of a checkpoint; this takes as long as its storage takes to answer."""
    try:
        if not checkpoint.exists():
            return Reading()
        query_id = checkpoint.query_id()
        durable = checkpoint.committed()
        if checkpoint.query_id() != query_id:  # replaced meanwhile: the next reading is whole
            return Reading(query_id=query_id)
    except StorageError as error:
        return Reading(unreachable=error)
    except CheckpointError as error:
        return Reading(findings=(error.finding,))
    return Reading(query_id=query_id, durable=durable.offsets, findings=durable.findings)


class CheckpointPoller:
    """Reads one checkpoint on its own thread, and calls `act` there with each step.

    A read takes as long as the storage takes to answer, but delays no other checkpoint. A poller
    never has a second thread.
    """

    def __init__(
        self, checkpoint: Checkpoint, tracker: CheckpointTracker, act: Callable[[Step], None]
    ) -> None:
        self.checkpoint = checkpoint
        self._tracker = tracker
        self._act = act
        self._stop = threading.Event()
        self._read_started: float | None = None
        self._thread: threading.Thread | None = None
        self.fault: Exception | None = None

    def start(self, *, once: bool = False) -> None:
        """Start to read the checkpoint repeatedly, until `stop` is called.

        With `once`, the thread reads only once, or twice if the first reading is doubtful.
        """
        if self._thread is not None:
            raise RuntimeError("a poller can be started only once")
        self._thread = threading.Thread(
            target=self._run_once if once else self._run,
            name=f"eo-listener-follow {self.checkpoint.location}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stop.set()

    def join(self, deadline: float) -> bool:
        """Wait for the thread until `deadline` (monotonic clock); return True if it has ended."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._thread is None or not self._thread.is_alive()

    def unanswered_for(self) -> float:
        """Return for how many seconds the storage has not answered; 0 if no read is in progress."""
        since = self._read_started
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = self._read()

    def _run_once(self) -> None:
        """Read the checkpoint once, and a second time if the first reading is doubtful."""
        try:
            reading = read_once(self.checkpoint)
            if self._tracker.doubtful(reading):
                self._stop.wait(_REREAD_AFTER)
                reading = read_once(self.checkpoint)
            self._act(self._tracker.on_reading(reading, time.monotonic(), final=True))
        except Exception as fault:  # noqa: BLE001  # see the next line
            self.fault = fault  # `Follower.once` raises it: on this thread nobody would notice it

    def _read(self) -> float:
        self._read_started = time.monotonic()
        try:
            reading = read_once(self.checkpoint)
            self._read_started = None
            if self._stop.is_set():
                return 0.0
            step = self._tracker.on_reading(reading, time.monotonic())
            self._act(step)
        except Exception:
            # A bug of eo_listener: this thread must survive it, or nothing more is committed.
            logger.exception("eo_listener could not read checkpoint %s", self.checkpoint.location)
            return _AFTER_FAULT
        finally:
            self._read_started = None
        return step.pause


class Follower:
    """Commits the offsets that the queries of `targets` make durable, until it is closed.

    Each checkpoint has a thread that reads it, and each cluster has a thread that commits to it. If
    several checkpoints have offsets of one partition for one group, the follower commits the lowest
    of these offsets. Raises SettingsError for a checkpoint that is named twice, and StorageError
    for a storage whose driver is not installed.
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
        """Start to follow the checkpoints; returns at once."""
        for poller in self._pollers:
            poller.start()

    def poll(self) -> None:
        """Report checkpoints whose storage has not answered for a minute.

        Call this method every few seconds.
        """
        for poller in self._pollers:
            shown = str(poller.checkpoint.location)
            if poller.unanswered_for() < _SILENT:
                self._silent.discard(shown)
            elif shown not in self._silent:
                self._silent.add(shown)
                self._observers.notify(_silence(shown, _SILENT))

    def once(self, timeout: float) -> tuple[Report, ...]:
        """Commit the offsets that are durable now, close the follower, and return the results.

        Takes about `timeout` seconds at most. Call either `start` or `once` on a follower, not
        both.
        """
        deadline = time.monotonic() + timeout
        outcomes = self._outcomes = Outcomes()
        for poller in self._pollers:
            poller.start(once=True)
        for poller in self._pollers:
            # Half of the time is for Kafka, however slow the storages are.
            if not poller.join(deadline - timeout / 2):
                shown = str(poller.checkpoint.location)
                self._observers.notify(_silence(shown, timeout / 2))
            if poller.fault is not None:
                raise poller.fault
        flushed = self._committer.flush(max(0.0, deadline - time.monotonic()))
        # The last events come after the last commit: once it is closed, none is missing.
        self.close(_CLOSE_TIMEOUT)
        return tuple(
            outcomes.report(str(poller.checkpoint.location), flushed=flushed)
            for poller in self._pollers
        )

    def close(self, timeout: float) -> None:
        """Stop reading, commit the offsets already read, and close everything in about `timeout` s.

        If offsets are still unconfirmed by then, the follower reports them in CommitAbandoned
        events. A thread whose storage does not answer continues as a daemon.
        """
        deadline = time.monotonic() + timeout
        for poller in self._pollers:
            poller.stop()
        for poller in self._pollers:
            poller.join(min(deadline, time.monotonic() + 1.0))
        self._committer.close(max(0.0, deadline - time.monotonic()))

    def _act(self, shown: str, step: Step) -> None:
        """Carry out a step of one checkpoint, on the thread that reads the checkpoint."""
        with self._order:  # offsets that were allowed first must be offered first
            released: tuple[GroupOffsets, ...] = ()
            if step.released is not None:
                self._committer.end_run(step.released, replaced=step.replaced)
                released = self._shared.drop(shown)
            lowest = [self._shared.lowest(shown, shown, commit) for commit in step.commits]
            commits = tuple(commit for commit, _ in lowest)
            if self._outcomes is not None:
                self._outcomes.offered(shown, commits)
            for event in (*step.events, *filter(None, (shared for _, shared in lowest))):
                self._observers.notify(event)
            for commit in step.withheld:
                self._committer.withhold(commit, recommit=step.recommit)
            for commit in commits:
                self._committer.offer(commit, recommit=step.recommit)
            for commit in released:
                self._committer.offer(commit)

    def _note(self, event: Event) -> None:
        if self._outcomes is not None:
            self._outcomes(event)


def _silence(shown: str, seconds: float) -> Notice:
    return Notice(
        checkpoint=shown,
        kind=NoticeKind.SILENT,
        text=f"its storage has not answered for {seconds:.0f} s",
        cause="the network or the storage hangs",
        fix="check it from this machine; `follow` continues with the other checkpoints",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of `Follower.once` for one checkpoint.

    `groups` are the offsets to commit, and `batch` is the batch of these offsets, or None if there
    are no offsets to commit. `refused` and `failed` give the reason for each partition that was not
    committed.
    """

    checkpoint: str
    batch: int | None
    groups: Mapping[str, Offsets]
    refused: Mapping[TopicPartition, str]
    failed: Mapping[TopicPartition, str]
    notices: tuple[Notice, ...]

    @property
    def exit_code(self) -> int:
        """3 if a checkpoint was unavailable or a commit failed, 1 if there is a finding, else 0."""
        if self.failed or any(notice.kind.unavailable for notice in self.notices):
            return ExitCode.UNREACHABLE
        has_findings = any(notice.kind.finding for notice in self.notices)
        return ExitCode.FOUND if self.refused or has_findings else ExitCode.FINE


class Outcomes:
    """An observer that remembers the notices of each checkpoint, and the outcome of each commit."""

    def __init__(self) -> None:
        self._notices: dict[str, list[Notice]] = {}
        self._offered: dict[str, tuple[GroupOffsets, ...]] = {}
        self._refused: dict[_Place, str] = {}
        self._failed: dict[_Place, str] = {}
        self._confirmed: set[_Place] = set()
        self._lock = threading.Lock()

    def offered(self, checkpoint: str, commits: tuple[GroupOffsets, ...]) -> None:
        """Remember the commits that the follower has offered to the committer for a checkpoint."""
        with self._lock:
            self._offered[checkpoint] = commits

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case Notice():
                    self._notices.setdefault(event.checkpoint, []).append(event)
                case Committed():
                    places = _places(event, event.offsets)
                    self._confirmed.update(places)
                    for place in places:
                        self._failed.pop(place, None)
                case CommitFailed():
                    for place, code in zip(
                        _places(event, event.errors), event.errors.values(), strict=True
                    ):
                        self._failed[place] = code
                case CommitRefused():
                    refusal = event.refusal.value
                    self._refused.update(dict.fromkeys(_places(event, event.offsets), refusal))
                case CommitterFenced():
                    self._failed.update(dict.fromkeys(_places(event, event.offsets), event.code))

    def report(self, checkpoint: str, *, flushed: bool) -> Report:
        """Return the result of one checkpoint; `flushed` is True if no commit is still waiting."""
        refused: dict[TopicPartition, str] = {}
        failed: dict[TopicPartition, str] = {}
        batches: set[int] = set()
        with self._lock:
            commits = self._offered.get(checkpoint, ())
            for commit in commits:
                for tp, position in commit.positions.items():
                    place = (str(commit.cluster), commit.group, tp)
                    metadata = CommitMetadata.parse(position.metadata)
                    batches |= {metadata.batch_id} if metadata else set()
                    if place in self._refused:
                        refused[tp] = self._refused[place]
                    elif place in self._failed:
                        failed[tp] = self._failed[place]
                    elif not flushed and place not in self._confirmed:
                        failed[tp] = "no answer in time"
            notices = tuple(self._notices.get(checkpoint, ()))
        return Report(
            checkpoint=checkpoint,
            batch=max(batches, default=None),
            groups={
                commit.group: Offsets(
                    {tp: position.offset for tp, position in commit.positions.items()}
                )
                for commit in commits
            },
            refused=refused,
            failed=failed,
            notices=notices,
        )


def _places(
    event: Committed | CommitFailed | CommitRefused | CommitterFenced,
    partitions: Iterable[TopicPartition],
) -> list[_Place]:
    return [(event.cluster, event.group, tp) for tp in partitions]
