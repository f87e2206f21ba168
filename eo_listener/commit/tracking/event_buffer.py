"""Buffers events from Spark's thread for the tracker, in limited memory, without losing offsets.

Not thread-safe: `TrackerThread` holds a lock around it. Every method returns at once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from eo_listener.commit.tracking.sequence_guard import SequenceGuard
from eo_listener.errors import FormatError
from eo_listener.events import Violation
from eo_listener.model.progress import Progress

# A limit for runs whose end Spark never reports, since it drops events when its bus is full.
RUNS_KEPT = 10_000
# Events of one run before its newest. The oldest of them matter: a log's start is read after each
# offer, and nothing is offered while events wait.
_EARLIER_KEPT = 20
_FINDINGS_KEPT = 20  # problems of one run's waiting events; the oldest of them matter


@dataclass(frozen=True, slots=True)
class Started:
    """A run has begun."""

    query_id: str
    run_id: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Idle:
    """Spark reported that a run had nothing to do."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A run has ended."""

    run_id: str


QueryEvent = Started | Progress | Idle | Ended | FormatError
"""An event for the buffer: `Progress` if a batch has ended, `FormatError` if it is unreadable."""


@dataclass(slots=True)
class RunEvents:
    """The waiting events of one run: its newest event, and the problems of all its events.

    The newest event holds all offsets. `first` is the first event of the run, if it still waits.
    `earlier` are the kept events before the newest, the oldest first. `wrong` has tuples of a
    batch, a source, and its violations. `missed` has pairs of batches between which events are
    missing.
    """

    newest: Progress
    first: Progress | None = None
    earlier: list[Progress] = field(default_factory=list)
    wrong: list[tuple[int, int, tuple[Violation, ...]]] = field(default_factory=list)
    missed: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class BufferedEvents:
    """The waiting events. `repeated` is an event that came a second time.

    `idle` has the ids of idle runs, in the order of their first idle event.
    """

    started: list[Started] = field(default_factory=list)
    by_run: dict[str, RunEvents] = field(default_factory=dict)
    idle: dict[str, None] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    unreadable: FormatError | None = None
    repeated: Progress | None = None

    @property
    def runs(self) -> tuple[RunEvents, ...]:
        """The events of each run, in the order of the runs' first events."""
        return tuple(self.by_run.values())


class EventBuffer:
    """Collects events, for each run separately, until the tracker takes them."""

    def __init__(self) -> None:
        self._waiting = BufferedEvents()
        self._sequences: OrderedDict[str, SequenceGuard] = OrderedDict()

    def __bool__(self) -> bool:
        return self._waiting != BufferedEvents()

    def add(self, event: QueryEvent) -> None:
        """Add an event."""
        match event:
            case Progress():
                self._add_progress(event)
            case Started():
                self._waiting.started.append(event)
            case Idle(run_id):
                if len(self._waiting.idle) < RUNS_KEPT:
                    self._waiting.idle[run_id] = None
            case Ended(run_id):
                self._waiting.ended.append(run_id)
            case FormatError():
                self._waiting.unreadable = event

    def _add_progress(self, progress: Progress) -> None:
        """Judge an event at once, since every event must be judged, and keep the newest event."""
        sequence = self._sequences.get(progress.run_id)
        first = progress if sequence is None else None
        if sequence is None:
            sequence = self._sequences[progress.run_id] = SequenceGuard()
            while len(self._sequences) > RUNS_KEPT:
                self._sequences.popitem(last=False)
        verdict = sequence.follow(progress)
        if verdict.repeated:
            self._waiting.repeated = progress
            return
        events = self._waiting.by_run.get(progress.run_id)
        if events is None:
            events = RunEvents(newest=progress, first=first)
            self._waiting.by_run[progress.run_id] = events
        elif len(events.earlier) < _EARLIER_KEPT:
            events.earlier.append(events.newest)
        events.newest = progress
        if verdict.missed_after is not None and len(events.missed) < _FINDINGS_KEPT:
            events.missed.append((verdict.missed_after, progress.batch_id))
        for source, violations in verdict.violations.items():
            if len(events.wrong) < _FINDINGS_KEPT:
                events.wrong.append((progress.batch_id, source, violations))

    def take(self) -> BufferedEvents:
        """Remove and return all waiting events."""
        taken, self._waiting = self._waiting, BufferedEvents()
        for run_id in taken.ended:
            self._sequences.pop(run_id, None)
        return taken

    def waiting(self) -> tuple[Progress, ...]:
        """Return the newest waiting event of each run."""
        return tuple(events.newest for events in self._waiting.runs)
