"""A tracker with its event buffer and a committer, all in memory, and progress events for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.policy import OnRewind, Policy
from eo_listener.commit.tracking.event_buffer import Ended, EventBuffer, Started
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker import Moment, QueryTracker
from eo_listener.events import Event, GuardViolation, Observers, ViolationKind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.testing import MemoryGroups, MemoryQueries

HOUR = 3600.0
P0, P1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
OPTIONS = {0: {"kafka.bootstrap.servers": "k:9092", "eo.commit.group": "g"}}

_Kind = TypeVar("_Kind", bound=Event)


class MemoryTracking:
    """Buffer, tracker and committer, which run when a test calls `serve`."""

    def __init__(
        self,
        queries: MemoryQueries,
        *,
        guard: GuardMode = GuardMode.WITHHOLD,
        on_rewind: OnRewind = OnRewind.REFUSE,
    ) -> None:
        self.queries = queries
        self.store = MemoryGroups()
        self.events: list[Event] = []
        observers = Observers(self.events.append)
        policy = Policy(on_rewind=on_rewind, accept_marks=guard is GuardMode.WARN)
        self.committer = Committer(lambda cluster: self.store, observers=observers, policy=policy)
        self.buffer = EventBuffer()
        self.tracker = QueryTracker(
            GroupRouting(), queries, self.committer, observers, guard=guard, recommit_interval=HOUR
        )

    def hear(self, now: float, *events: Progress) -> bool:
        """Let these events come, then serve."""
        for one in events:
            self.buffer.add(one)
        return self.serve(now)

    def answer(self, mode: QueryMode, durable: LivePosition) -> None:
        """Let the run r1 be of this mode, and have made this position durable."""
        self.queries.modes["r1"] = mode
        self.queries.positions["r1"] = durable

    def begin(self, run: str, name: str | None = None, query: str = "q1") -> None:
        """Let the start of a run be told."""
        self.buffer.add(Started(query_id=query, run_id=run, name=name))

    def start(self, now: float, run: str, *, query: str = "q1", name: str | None = None) -> bool:
        """Let the start of a run be told, then serve."""
        self.begin(run, name, query)
        return self.serve(now)

    def end(self, now: float, *runs: str) -> bool:
        """Let the ends of these runs be told, then serve."""
        for run in runs:
            self.buffer.add(Ended(run))
        return self.serve(now)

    def serve(self, now: float, *, check_all: bool = False) -> bool:
        """Run the tracker's loop once and wait for commits; return whether all are confirmed."""
        self.tracker.serve(self.buffer.take(), self.moment(now), check_all=check_all)
        return self.committer.flush(5.0)

    @staticmethod
    def moment(now: float) -> Moment:
        """The same time by both clocks."""
        return Moment(now, now)

    def pass_until(self, moment: float, since: float = 0.0) -> None:
        """Serve whenever something is due, up to a moment."""
        now = since
        if self.buffer:
            self.serve(now)
        for _ in range(10_000):
            due = self.tracker.due()
            if due is None or due > moment:
                return
            now = max(now, due)
            self.serve(now)
        raise AssertionError("something is always due")

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """The events of one kind, so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def at(self, tp: TopicPartition = P0, group: str = "g") -> int | None:
        """The offset that a group holds; None without one."""
        position = self.store.groups.get(group, {}).get(tp)
        return None if position is None else position.offset

    @property
    def held(self) -> int:
        """The offset of the first partition in group g, which must have one."""
        offset = self.at()
        assert offset is not None
        return offset


def tracker(
    opened: list[MemoryTracking],
    guard: GuardMode = GuardMode.WITHHOLD,
    options: Mapping[int, Mapping[str, str]] = OPTIONS,
) -> MemoryTracking:
    """A tracker in memory, which is closed when the test has ended."""
    opened.append(MemoryTracking(MemoryQueries(options), guard=guard))
    return opened[-1]


def kinds(tracking: MemoryTracking) -> list[tuple[int, ViolationKind]]:
    """The batches that were complained of, and why."""
    return [
        (reported.batch_id, one.kind)
        for reported in tracking.of(GuardViolation)
        for one in reported.violations
    ]


def offsets(at: int | Mapping[TopicPartition, int] | None) -> Offsets | None:
    """Those of the first partition, or of several."""
    if at is None:
        return None
    return Offsets({P0: at} if isinstance(at, int) else at)


def source(
    index: int,
    start: int | Mapping[TopicPartition, int] | None,
    end: int | Mapping[TopicPartition, int] | None,
) -> SourceProgress:
    """A source of an event."""
    return SourceProgress(index=index, description="", start=offsets(start), end=offsets(end))


def event(
    batch: int,
    start: int | Mapping[TopicPartition, int] | None = None,
    end: int | Mapping[TopicPartition, int] | None = None,
    run: str = "r1",
    query: str = "q1",
    *,
    more: tuple[SourceProgress, ...] = (),
    planned: float | None = None,
) -> Progress:
    """A progress event of one source, or of more."""
    return Progress(
        query_id=query,
        run_id=run,
        name=None,
        batch_id=batch,
        timestamp="",
        sources=(source(0, start, end), *more),
        planned=planned,
    )


def position(batch: int, at: int | Mapping[TopicPartition, int] = 5) -> LivePosition:
    """What a run has made durable, of its one source."""
    return LivePosition(batch_id=batch, committed={0: offsets(at) or Offsets()})


def marked(tracking: MemoryTracking, tp: TopicPartition = P0) -> bool:
    """Return True if the group carries the guard's mark."""
    metadata = CommitMetadata.parse(tracking.store.groups["g"][tp].metadata)
    return metadata is not None and metadata.withheld
