"""One run of a query, as the tracker knows it, and the events about the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from eo_listener.commit.groups.group_offsets import Beginning, GroupOffsets
from eo_listener.commit.tracking.routing import RoutedOffsets, Unread, skips_losses
from eo_listener.commit.tracking.sequence_guard import judge
from eo_listener.errors import JvmError
from eo_listener.events import (
    GuardViolation,
    QueryProgressed,
    RunGroupsChanged,
    SourceIgnored,
    SourceProgressed,
    Violation,
)
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets, TopicPartition

RECOMMIT_INTERVAL: Final = 3600.0
"""Seconds after which unchanged offsets are committed again, so that they do not expire.

Kafka deletes the offsets of a group without members if nobody has committed them for
`offsets.retention.minutes`, by default 7 days. A query without new records commits nothing new.
"""


def is_due(last: float | None, now: float, interval: float) -> bool:
    """Return True if at least `interval` seconds have passed since `last`, or `last` is None."""
    return last is None or now - last >= interval


_RESTORING_INTERVAL = 1.0  # seconds between two checks while a query restores, at most
_MAX_RESTORING_CHECKS = 600  # checks, after which a query without a position is checked less often
# Seconds from the first position to the next check: Spark restores in two steps.
_RESTORED_INTERVAL = 2.0
_NEARLY = 0.9  # of the recommit interval, so that a check that comes a little early recommits too
_POLL = 5.0  # seconds between two checks of a run that is polled
_SILENCE = 60.0  # seconds after the last event before the tracker asks the query for its position
_OPTIONS_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # seconds between attempts

UNKNOWN_MODE = (
    "its progress events are assumed to match its checkpoint; with asynchronous progress "
    "tracking they may be ahead of it, and the listener does not catch up at the start"
)
_MODE_EFFECTS = {
    QueryMode.ASYNC_PROGRESS: (
        "its progress events may be ahead of its checkpoint, so its group follows the checkpoint "
        "instead, with a delay of a few seconds"
    ),
    QueryMode.CONTINUOUS: (
        "it sends no progress events, so its group follows its checkpoint, and the guard cannot "
        "check it"
    ),
    QueryMode.REAL_TIME: (
        "its batches are long (5 minutes unless configured otherwise), and its group moves only "
        "at the end of a batch: lag grows within a batch"
    ),
}


@dataclass(slots=True)
class QueryRun:
    """One run of a query, as the tracker knows it.

    `options` are None until the tracker has read them. Times are on the monotonic clock: `due` is
    the time of the next planned check. `silence` is the time of an additional check, which is
    needed only if no event comes before. `beginnings`, by source index, have not been given to the
    committer yet; they are None until the tracker has asked the query for them.
    """

    query_id: str
    run_id: str
    name: str | None
    due: float
    mode: QueryMode | None = None
    options: Mapping[int, Mapping[str, str]] | None = field(default=None, repr=False)  # secrets
    unread: Unread | None = None  # why the last attempt to read the options failed
    options_attempts: int = 0  # failed attempts since Spark has planned the sources
    options_due: float = 0.0  # no attempt before
    options_reported: bool = False  # that they cannot be read
    delay: float = 0.1  # seconds to the next check while the query restores; each doubles it
    silent: int = 0  # checks that found no position
    unanswered: int = 0  # failed attempts in a row to ask for the position
    positions_read: int = 0
    recommitted_at: float | None = None
    ignored: tuple[SourceIgnored, ...] = ()  # of the last offer
    reported: set[tuple[int | None, str]] = field(default_factory=set)
    withheld: set[int] = field(default_factory=set)
    beginnings: dict[int, dict[TopicPartition, Beginning]] | None = None
    newest: Progress | None = None
    restored: LivePosition | None = None
    passed: LivePosition | None = None  # an offered position, until an event has reached it
    ended: bool = False  # reported by the query itself, not by Spark's bus
    awaited: int | None = None  # the batch for whose event a position has waited once
    finished: bool = False  # the run has ended, and its last position was offered
    last: LivePosition | None = None  # the run's last position, if its options were read
    silence: float | None = None

    @property
    def query(self) -> str:
        """The query's name, or its id if it has no name."""
        return self.name or self.query_id

    @property
    def follows_checkpoint(self) -> bool:
        """True if the run's offsets must be committed from its checkpoint, not from its events."""
        return self.mode in (QueryMode.ASYNC_PROGRESS, QueryMode.CONTINUOUS)

    @property
    def reads_no_kafka(self) -> bool:
        """True if the newest event has no Kafka source.

        A position without offsets does not prove that the run reads no Kafka.
        """
        return self.newest is not None and not self.newest.sources

    @property
    def is_polled(self) -> bool:
        """True if the run must be polled: it follows its checkpoint, or skips lost records."""
        source_options = (self.options or {}).values()
        return self.follows_checkpoint or any(map(skips_losses, source_options))

    def on_unread(self, error: JvmError, now: float) -> None:
        """Plan the next attempt to read the options, which `error` has prevented."""
        cause = f"{error.problem}: {error.cause}" if error.cause else error.problem
        self.unread = Unread(cause=cause, fix=error.fix)
        self.options_due = (
            now + _OPTIONS_PAUSES[min(self.options_attempts, len(_OPTIONS_PAUSES) - 1)]
        )
        self.options_attempts += 1

    def on_late_options(self, now: float) -> None:
        """Plan to offer, now that the options are known, what could not be offered without them."""
        self.unread, self.recommitted_at, self.due = None, None, now

    def mode_effect(self) -> str | None:
        """Return the execution mode's effect on the group, or None for a micro-batch query."""
        return _MODE_EFFECTS.get(self.mode) if self.mode is not None else None

    def at(self, position: LivePosition) -> Progress:
        """Return the durable `position` of the run in the form of a progress event."""
        sources = (
            SourceProgress(index=index, description="", start=None, end=offsets)
            for index, offsets in sorted(position.committed.items())
        )
        return Progress(
            query_id=self.query_id,
            run_id=self.run_id,
            name=self.name,
            batch_id=position.batch_id,
            timestamp="",
            sources=tuple(sources),
        )

    def begin(self, offsets: Mapping[int, Offsets], batch_id: int) -> None:
        """Record the offsets at which the query's checkpoint began to read, by source index.

        `batch_id` is the first batch that the run is known to have completed.
        """
        self.beginnings = {}
        for source, begins in offsets.items():
            event = self.violated(source, batch_id)
            self.beginnings[source] = {tp: Beginning(at, event) for tp, at in begins.items()}

    def add_partitions(self, event: Progress) -> None:
        """Record the partitions that this batch is the first to read, if Spark skips lost records.

        Otherwise Spark itself fails the query if it cannot read a new partition from offset 0. A
        topic that is new to the source may be older than the query, so nothing is due from it.
        """
        for source in event.sources:
            if self.beginnings is None or source.start is None or source.end is None:
                continue
            if skips_losses((self.options or {}).get(source.index)):
                new, topics = source.end.keys() - source.start.keys(), source.start.topics()
                beginning = Beginning(None, self.violated(source.index, event.batch_id))
                added = {tp: beginning for tp in new if tp.topic in topics}
                self.beginnings.setdefault(source.index, {}).update(added)

    def violated(self, source: int, batch_id: int) -> GuardViolation:
        """Return the event that reports violations in a batch, without the violations."""
        run = {"query": self.query, "run_id": self.run_id}
        return GuardViolation(
            **run, batch_id=batch_id, source=source, violations=(), withheld=False
        )

    def judge_first(self, first: Progress) -> dict[int, tuple[Violation, ...]]:
        """Compare a run's first event with the position that the run restored from its checkpoint.

        Returns violations by source. The batch id of a position may be too low, so the offsets
        decide: if the position has the event's end offsets, it is not the position before this
        event, and the method judges nothing.
        """
        restored = self.restored
        if restored is None or restored.batch_id != first.batch_id - 1:
            return {}
        if _is_at_end(restored, first):
            return {}
        judged = {
            source.index: judge(restored.committed.get(source.index), source.start, source.end)
            for source in first.sources
            if source.end is not None
        }
        return {index: violations for index, violations in judged.items() if violations}

    def is_early(self, position: LivePosition) -> bool:
        """Return True if the progress event of this position's batch has not arrived yet.

        The method returns True only once for a batch, since Spark may have dropped the event. The
        position's batch id may be too low. So if it is not above the newest event's batch id, the
        offsets decide.
        """
        newest = self.newest
        if newest is None or self.follows_checkpoint:
            return False
        batch = position.batch_id
        if batch <= newest.batch_id:
            if _is_at_end(position, newest):
                return False
            batch = newest.batch_id + 1
        waited = self.awaited is not None and newest.batch_id < self.awaited <= batch
        self.awaited = None if waited else batch
        return not waited

    def offered(self, position: LivePosition) -> None:
        """Remember an offered position, because events of earlier batches may still arrive."""
        reached = self.newest is not None and _is_at_end(position, self.newest)
        self.passed = position if position.committed and not reached else None

    def is_late(self, event: Progress) -> bool:
        """Return True if an offered position is ahead of `event`.

        Such an event is judged, but its offsets are not offered.

        The position's batch id may be too low. So if the event's batch id is above it, the offsets
        decide. A batch that begins at the position is never late, wherever it ends.
        """
        passed = self.passed
        if passed is None or _is_at_end(passed, event):
            return False
        if event.batch_id <= passed.batch_id:
            return True
        ends = [(source, passed.committed.get(source.index, Offsets())) for source in event.sources]
        if all(source.start == reached for source, reached in ends):
            return False
        changes = {
            end - reached[tp] if tp in reached else 1
            for source, reached in ends
            for tp, end in (source.end or {}).items()
        }
        return bool(changes) and min(changes) < 0 and max(changes) <= 0

    def take(self, event: Progress, now: float) -> bool:
        """Record an event as the run's newest; return True if its offsets must be offered."""
        repeated = self.finished and self.last is not None and _is_at_end(self.last, event)
        late = repeated or self.is_late(event)
        self.newest = event
        self.on_event(now)
        if not late:
            self.passed = None  # later events come after it
            self.finished = False
        elif self.finished:
            self.plan_check(now)  # keep the run for its last events, which may still come
        return not late

    @property
    def last_batch(self) -> int:
        """The higher of the batch ids of the newest event and the offered position, or -1."""
        event, position = self.newest, self.passed
        return max(event.batch_id if event else -1, position.batch_id if position else -1)

    @property
    def furthest(self) -> Progress | None:
        """The newest known offsets of the run, as a progress event, or None before any event."""
        return self.newest if self.passed is None else self.at(self.passed)

    def plan_check(self, now: float) -> None:
        """Plan the next check.

        Call this method before a check, so that a failed check is not repeated at once.
        """
        self.due = now + _SILENCE
        self._end_silence(now)

    def on_position(
        self, position: LivePosition | None, now: float, recommit_interval: float, *, early: bool
    ) -> bool:
        """Plan the next check, after the tracker has read `position`.

        Returns True if all offsets must be committed again.
        """
        self._end_silence(now)
        pause = min(_POLL, recommit_interval) if self.is_polled else recommit_interval
        if early:
            self.due = now + min(_POLL, recommit_interval)
        elif position is None:
            self.silent += 1
            self.delay = min(_RESTORING_INTERVAL, self.delay * 2)
            restoring = self.positions_read == 0 and self.silent < _MAX_RESTORING_CHECKS
            self.due = now + (self.delay if restoring else pause)
        else:
            if self.restored is None:
                self.restored = position
            self.positions_read += 1
            self.due = now + (_RESTORED_INTERVAL if self.positions_read == 1 else pause)
        recommit = is_due(self.recommitted_at, now, recommit_interval * _NEARLY)
        if recommit and (position is not None or self.newest is not None):
            self.recommitted_at = now
        elif self.recommitted_at is not None:
            self.due = min(
                self.due, max(self.recommitted_at + recommit_interval, now + _RESTORING_INTERVAL)
            )
        return self.recommitted_at == now

    def _end_silence(self, now: float) -> None:
        """Clear `silence` if its time has come, since this is the check planned for that time."""
        if self.silence is not None and self.silence <= now:
            self.silence = None

    def on_event(self, now: float) -> None:
        """Plan a check in case no more events come, since the last event may have been lost."""
        self.silence = now + _SILENCE

    def check_soon(self, now: float, *, at_once: bool) -> None:
        """Check soon whether this run has ended, because it may hold up another run."""
        if at_once:
            self.due = min(self.due, now)
        elif self.silence is None:
            self.silence = now + _SILENCE

    @property
    def next_check(self) -> float:
        """The time of the next check."""
        retry = None if self.unread is None or self.finished else self.options_due
        return min(time for time in (self.due, self.silence, retry) if time is not None)


def _is_at_end(position: LivePosition, event: Progress) -> bool:
    """Return True if the position has, for each source of the event, the event's end offsets."""
    ends = {source.index: source.end for source in event.sources if source.end is not None}
    return all(position.committed.get(index) == end for index, end in ends.items())


class RunReporter:
    """Builds QueryProgressed and RunGroupsChanged events, and remembers each run's groups.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, int], str] = {}
        self._fed: dict[str, frozenset[tuple[str, str]]] = {}

    def progressed(self, progress: Progress, routed: RoutedOffsets) -> QueryProgressed:
        """Return the event that reports the offsets of a run, including withheld sources."""
        sources = (
            SourceProgressed(
                source=source.index,
                cluster=self._cluster(progress.run_id, source.index, routed),
                ends=source.end,
                log_ends=source.log_ends,
            )
            for source in progress.sources
            if source.end is not None
        )
        return QueryProgressed(
            query=progress.query,
            run_id=progress.run_id,
            batch_id=progress.batch_id,
            metrics=progress.metrics,
            sources=tuple(sources),
        )

    def fed(
        self, query: str, run_id: str, commits: Iterable[GroupOffsets]
    ) -> RunGroupsChanged | None:
        """Return the event RunGroupsChanged if a group is new for this run, else None."""
        earlier = self._fed.get(run_id, frozenset())
        groups = earlier.union((str(commit.cluster), commit.group) for commit in commits)
        if groups == earlier:
            return None
        self._fed[run_id] = groups
        return RunGroupsChanged(query=query, run_id=run_id, groups=groups, ended=False)

    def ended(self, query: str, run_id: str) -> RunGroupsChanged:
        """Forget the groups of a run; return the event that reports the end of the run."""
        for key in [key for key in self._clusters if key[0] == run_id]:
            del self._clusters[key]
        groups = self._fed.pop(run_id, frozenset())
        return RunGroupsChanged(query=query, run_id=run_id, groups=groups, ended=True)

    def _cluster(self, run_id: str, source: int, routed: RoutedOffsets) -> str | None:
        """Return the cluster of a source's groups, or None if the source never had a group."""
        parts = routed.sources.get(source)
        if parts is not None:
            self._clusters[run_id, source] = str(parts[0].cluster)
        return self._clusters.get((run_id, source))  # also if the source now has no partitions
