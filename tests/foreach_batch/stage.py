"""What the steps of a batch need around them: plans by number, and frames that are lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from eo_listener.errors import OutcomeUnknownError, StorageError
from eo_listener.events import Event, Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner, Frames
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.model import fault_points
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink, MemoryStore

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TWO = {0: {P0: (0, 2), P1: (0, 1)}, 1: {P0: (2, 5), P1: (1, 2)}}
NAME = "flights"
_Kind = TypeVar("_Kind", bound=Event)


class InDoubt(MemorySink):
    """A store to which something happens when the outcome of a commit is unknown."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__(store)
        self.act: Callable[[Entry], object] = lambda entry: None

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        try:
            return super().apply(frame, entry, plan)
        except OutcomeUnknownError:
            self.act(entry)
            raise

    def is_away(self, times: int) -> None:
        """After such a commit have so many readings fail."""
        self.act = lambda entry: setattr(self, "unreadable", times)


class Crash(BaseException):
    """The driver is gone: nothing catches it but what must also happen when a process dies."""


@dataclass
class Frame:
    """Rows that are computed when they are asked for; counts how often."""

    rows: list[dict[str, Any]]
    computed: int = 0
    held: bool = False

    def collect(self) -> list[dict[str, Any]]:
        """Compute the rows, or take those that are held."""
        if not (self.held and self.computed):
            self.computed += 1
        return list(self.rows)


@dataclass
class ListFrames(Frames):
    """`Frames` over `Frame`; `log` names what was done, in order."""

    log: list[str] = field(default_factory=list)
    shuffled: bool = False

    def is_frame(self, made: Any) -> bool:
        """Whether it is a Frame."""
        return isinstance(made, Frame)

    def has_shuffle(self, frame: Frame) -> bool:
        """As the test has it."""
        return self.shuffled

    @contextmanager
    def cached(self, frame: Frame) -> Iterator[None]:
        """Note it."""
        self.log.append("cache")
        yield
        self.log.append("release")

    @contextmanager
    def computed(self, frame: Frame, source: Frame, plan: Any) -> Iterator[Frame]:
        """Compute it, as a frame of its own."""
        self.log.append("compute")
        computed = Frame(frame.collect(), computed=1, held=True)
        try:
            yield computed
        finally:
            self.log.append("release")
            computed.held = False

    def discard(self, frame: Frame) -> None:
        """Compute it."""
        self.log.append("discard")
        frame.collect()


@dataclass
class Plans:
    """A `PlanReader` that knows its plans: ranges by batch number; `drivers` have read them."""

    ranges: Mapping[int, Mapping[TopicPartition, tuple[int, int]]]
    run_id: str = "r1"
    query: str | None = NAME
    stateful: bool = False
    query_id: str = "q"
    topic_id: str = "T"
    continued: frozenset[TopicPartition] = frozenset()
    initial: Mapping[TopicPartition, int] = field(default_factory=dict)
    unreadable: bool = False
    asked: int = 0
    drivers: int = 0

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Where the checkpoint began to read; counts how often it was asked."""
        self.asked += 1
        if self.unreadable:
            raise StorageError("sources/0/0 cannot be read")
        return self.initial

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """The plan of that number."""
        planned = self.ranges[batch_id]
        return PlannedBatch(
            query_id=self.query_id,
            run_id=self.run_id,
            query=self.query,
            batch_id=batch_id,
            sources={0: {tp: OffsetRange(*span) for tp, span in planned.items()}},
            stateful=self.stateful,
            topic_ids={"t": self.topic_id},
            log_starts={},
            log_ends={},
            continued=self.continued,
        )


def frame_of(ranges: Mapping[TopicPartition, tuple[int, int]]) -> Frame:
    """One row for each offset."""
    return Frame(
        [
            {"topic": tp.topic, "partition": tp.partition, "offset": offset}
            for tp, span in ranges.items()
            for offset in range(*span)
        ]
    )


@dataclass(frozen=True)
class Run:
    """The plans as one run of the query reads them."""

    plans: Plans
    number: int

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """The plan of that number, with the id of this run."""
        plan = self.plans.plan(frame, batch_id)
        return replace(plan, run_id=f"{plan.run_id}.{self.number}")

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """As the plans say."""
        return self.plans.began(plan)


@dataclass
class Stage:
    """The steps with all around them; `events` and `slept` say what they did.

    Time passes where they sleep, and by `took`.
    """

    plans: Plans
    sinks: list[Sink]
    frames: ListFrames = field(default_factory=ListFrames)
    events: list[Event] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    took: float = 0.0
    process: ProcessWrites = field(default_factory=ProcessWrites)

    def batches(self, **how: Any) -> BatchRunner:
        """The steps, as a driver that starts now would have them."""
        how = {"retry": RetryLimits(timeout=6.0, first=1.0, longest=3.0)} | how
        self.plans.drivers += 1
        return BatchRunner(
            Run(self.plans, self.plans.drivers),
            self.sinks,
            self.frames,
            observers=Observers(self.events.append),
            sleep=self.slept.append,
            clock=lambda: self.took + sum(self.slept),
            process=self.process,
            **how,
        )

    def last(self, kind: type[_Kind]) -> _Kind:
        """The newest event, which is of this kind."""
        event = self.events[-1]
        assert isinstance(event, kind), event
        return event

    def run(self, batch_id: int, **how: Any) -> Frame:
        """Run one batch, by a driver that starts now."""
        frame = frame_of(self.plans.ranges[batch_id])
        self.batches(**how).run(frame, batch_id)
        return frame


def stage_of(*sinks: MemorySink, **how: Any) -> Stage:
    """A stage with batches 0 and 1 of `TWO`; `how` is more of its plans."""
    return Stage(Plans(TWO, **how), list(sinks) or [MemorySink()])


def rows_of(stage: Stage) -> list[int]:
    """How many rows each sink has."""
    return [len(sink.rows) for sink in stage.sinks if isinstance(sink, MemorySink)]


@contextmanager
def crashing(at: str, *, nth: int = 1) -> Iterator[None]:
    """The driver dies when it gets to a fault point for the nth time."""
    seen = 0

    def hook(name: str) -> None:
        nonlocal seen
        seen += name == at
        if name == at and seen == nth:
            raise Crash(at)

    fault_points.arm(hook)
    try:
        yield
    finally:
        fault_points.arm(None)
