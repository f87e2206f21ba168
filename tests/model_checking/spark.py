"""Spark as far as its source side goes: a checkpoint, and runs of the query that move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from eo_listener.errors import JvmError
from eo_listener.model.progress import Progress, SourceProgress
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets, TopicPartition


class Glitch(Enum):
    """How a batch can fail to follow the one before it."""

    GAP = "gap"
    REPEAT = "repeat"
    BACKWARD = "backward"
    VANISHED = "vanished"
    LOST = "lost"  # Kafka had deleted records before it was planned


_NOWHERE = Offsets()
PLANNED = (Glitch.GAP, Glitch.REPEAT, Glitch.BACKWARD, Glitch.VANISHED)


@dataclass(frozen=True, slots=True)
class Batch:
    """What `offsets/N` holds: where the batch starts (None: from the source's start) and ends."""

    start: Offsets | None
    end: Offsets
    glitch: Glitch | None = None
    known: bool = False  # by its driver, before it was planned


@dataclass(slots=True)
class Checkpoint:
    """`offsets/0..`, and how many of them have a `commits/N`."""

    query: str
    life: int = 1  # a new checkpoint is a new query to Spark, of the same name
    began: Offsets = field(default_factory=Offsets)  # `sources/0/0`; 0 for other partitions
    batches: list[Batch] = field(default_factory=list)
    done: int = 0

    @property
    def id(self) -> str:
        return f"{self.query}/{self.life}"

    @property
    def durable(self) -> Offsets:
        return self.batches[self.done - 1].end if self.done else Offsets()

    def rewind(self, done: int) -> None:
        """Somebody restores an older state of it."""
        del self.batches[done:]
        self.done = done


class Phase(Enum):
    """Where a run is between two batches."""

    NEW = "new"  # the checkpoint is not restored yet
    IDLE = "idle"
    PLANNED = "planned"  # offsets/N is written
    DONE = "done"  # commits/N too; the event is not posted yet
    OVER = "over"


@dataclass(slots=True)
class QueryRun:
    """One run of a query: what it holds in memory, which a checkpoint edited by others is not."""

    run: str
    checkpoint: Checkpoint
    phase: Phase = Phase.NEW
    batch: int = 0
    current: Batch | None = None
    last: int = -1
    restored: bool = False
    committed: Offsets = field(default_factory=Offsets)
    told: Offsets = field(default_factory=Offsets)  # the end of the last event
    reported: Offsets = field(default_factory=Offsets)  # and of the last that was served
    untold: list[Batch] = field(default_factory=list)  # finished since the last event came through
    planned: float | None = None  # when the batch was, where the event is to say so
    posted: Progress | None = None  # the last event, where it may come again

    @property
    def query(self) -> str:
        return self.checkpoint.query

    def restore(self) -> None:
        """Take up where the checkpoint stands; a batch that was planned is planned again."""
        self.batch = self.checkpoint.done
        self.last = self.batch - 1
        self.committed = self.checkpoint.durable
        self.restored = True
        planned = self.checkpoint.batches[self.batch :]
        self.current = planned[0] if planned else None
        self.phase = Phase.PLANNED if planned else Phase.IDLE

    def plan(self, batch: Batch) -> None:
        self.checkpoint.batches.append(batch)
        self.current = batch
        self.phase = Phase.PLANNED

    def replan(self, batch: Batch) -> None:
        """Put this in the place of the batch that the checkpoint has planned."""
        self.checkpoint.batches[self.batch] = self.current = batch

    def finish(self) -> bool:
        """Write `commits/N`; False, and the end of the run, when another run has."""
        if self.checkpoint.done != self.batch or self.checkpoint.batches[self.batch :] != [
            self.current
        ]:
            return False
        self.checkpoint.done += 1
        self.last = self.batch
        self.committed = self.checkpoint.durable
        self.phase = Phase.DONE
        return True

    def event(self) -> Progress:
        batch = self.current
        assert batch is not None
        source = SourceProgress(index=0, description="", start=batch.start, end=batch.end)
        return Progress(
            query_id=self.checkpoint.id,
            run_id=self.run,
            name=self.query,
            batch_id=self.batch,
            timestamp="",
            sources=(source,),
            planned=self.planned,
        )

    def posting(self) -> LateEvent:
        """That event, as it is posted to the listener bus."""
        return LateEvent(self.run, self.event(), self.current, tuple(self.untold))

    def go_on(self) -> None:
        self.batch += 1
        self.phase = Phase.IDLE


@dataclass(frozen=True, slots=True)
class LateEvent:
    """What the listener bus holds back: an event, with batches `hidden` before it, or an end."""

    run: str
    progress: Progress | None = None
    batch: Batch | None = None
    hidden: tuple[Batch, ...] = ()


@dataclass(slots=True)
class Queries:
    """The `QueryReader` over the runs of one driver, those that have ended included."""

    options_of: Mapping[str, Mapping[str, str]]
    behind: bool = False
    runs: dict[str, QueryRun] = field(default_factory=dict)

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """The query's reader options; its sources exist once it has restored its checkpoint."""
        return {0: self.options_of[self._restored(run_id).query]}

    def mode(self, query_id: str, run_id: str) -> QueryMode:
        self._restored(run_id)
        return QueryMode.MICRO_BATCH

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """`committedOffsets`, as the run holds them."""
        run = self._of(run_id)
        if not run.restored:
            return None
        committed = {0: run.committed} if run.last >= 0 else {}
        number = max(-1, run.last - 1) if self.behind else run.last
        return LivePosition(batch_id=number, committed=committed)

    def beginnings(self, query_id: str, run_id: str) -> Mapping[int, Offsets]:
        return {0: self._restored(run_id).checkpoint.began}

    def has_ended(self, query_id: str, run_id: str) -> bool:
        return self._of(run_id).phase is Phase.OVER

    def forget(self, run_id: str) -> None:
        self.runs.pop(run_id, None)

    def _of(self, run_id: str) -> QueryRun:
        try:
            return self.runs[run_id]
        except KeyError:
            raise JvmError("the query has ended") from None

    def _restored(self, run_id: str) -> QueryRun:
        run = self._of(run_id)
        if not run.restored:
            raise JvmError("no sources yet")
        return run


def following(
    last: Batch | None, step: Mapping[TopicPartition, int], began: Offsets = _NOWHERE
) -> Batch:
    """The batch that continues where the last one ended, or begins where the checkpoint does."""
    start = last.end if last is not None else None
    reached: Mapping[TopicPartition, int] = began if start is None else start
    end = Offsets({tp: reached.get(tp, 0) + step.get(tp, 0) for tp in {*reached, *step}})
    return Batch(start=start, end=end)


def glitches_after(last: Batch, glitches: Sequence[Glitch]) -> list[Glitch]:
    """Those that can spoil the batch after this one: no offset goes below 0."""
    reached = next(iter(last.end.values()), None)
    lower = {Glitch.REPEAT, Glitch.BACKWARD}
    return [how for how in glitches if reached or (reached == 0 and how not in lower)]


def spoilt(last: Batch, step: Mapping[TopicPartition, int], how: Glitch) -> Batch:
    """A batch that does not follow the last one, in its first partition."""
    tp, reached = next(iter(last.end.items()))
    rest = last.end.without([tp])
    good = following(last, step).end
    if how is Glitch.GAP:
        return Batch(rest.merge({tp: reached + 1}), good.merge({tp: reached + 2}), how)
    if how is Glitch.REPEAT:
        return Batch(rest.merge({tp: reached - 1}), good.merge({tp: reached}), how)
    if how is Glitch.BACKWARD:
        return Batch(last.end, good.without([tp]).merge({tp: reached - 1}), how)
    return Batch(rest, good.without([tp]), how)
