"""A batch in progress as the answers it was given: the product's own steps, run over them again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from eo_listener.batch_guard.judge import OnFirst, OnGap, OnRecreated
from eo_listener.errors import EoListenerError
from eo_listener.foreach_batch.batch_runner import BatchRunner, Frames
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.model.ledger import Applied, Entry, Head
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink

NAME, RENAMED = "q", "renamed"
RETRY = RetryLimits(timeout=1.0, first=1.0, longest=1.0)  # once more
Heads = Mapping[TopicPartition, Head]
Ledger = Mapping[tuple[str, TopicPartition], Head]
"""The heads of a sink, by the query's name and the partition."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the output, which knows the record it came from, and that record's topic."""

    topic: str
    partition: int
    offset: int
    topic_id: str

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class Call:
    name: str  # plan, read, moved, history, lock, commit, rollback
    key: str = ""  # the sink's
    query: str = ""  # its name, or for `moved` its id
    rows: tuple[Row, ...] = ()
    moves: tuple[tuple[TopicPartition, Head | None, Head], ...] = ()
    gaps: tuple[tuple[TopicPartition, OffsetRange], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the world says to it: a value, or an error; `digest` stands for the value."""

    value: Any = field(default=None, compare=False)
    digest: Hashable = None
    error: type[EoListenerError] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to `plan`: Spark's plan, and the rows that it leads to."""

    plan: PlannedBatch
    rows: tuple[Row, ...]
    initial: Mapping[TopicPartition, int]  # where the checkpoint began


@dataclass(frozen=True, slots=True)
class How:
    keys: tuple[str, ...] = ("a",)  # a sink each
    per_partition: bool = False
    on_gap: OnGap = "fail"
    on_first: OnFirst = "fail"
    on_recreated: OnRecreated = "fail"
    exclusive: bool = False  # the lock is taken where a transaction begins, as SQLite does


class Paused(BaseException):
    """The batch waits for an answer that nobody has given yet."""


@dataclass(slots=True)
class Tape(Frames):
    """Gives the answers in their order; where they end, `pending` is what was asked."""

    answers: tuple[Answer, ...]
    at: int = 0
    pending: Call | None = None
    executed: bool = False
    rows: tuple[Row, ...] = ()
    initial: Mapping[TopicPartition, int] = field(default_factory=dict)

    def ask(self, call: Call) -> Any:
        if self.pending is not None:
            raise Paused
        if self.at == len(self.answers):
            self.pending = call
            raise Paused
        answer = self.answers[self.at]
        self.at += 1
        if answer.error is not None:
            raise answer.error(f"the world says so to {call.name}")
        return answer.value

    # A `PlanReader`, the DataFrame of the batch, and `Frames`

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        planned: Planned = self.ask(Call("plan"))
        self.rows, self.initial = planned.rows, planned.initial
        return planned.plan

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        return self.initial

    def collect(self) -> list[Row]:
        self.executed = True
        return list(self.rows)

    def is_frame(self, made: Any) -> bool:
        return made is self

    def cached(self, frame: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def has_shuffle(self, frame: Any) -> bool:
        return False

    def computed(self, frame: Any, source: Any, plan: Any) -> AbstractContextManager[Any]:
        return nullcontext(frame)

    def discard(self, frame: Any) -> None:
        frame.collect()


class TapeStore:
    """What `MemorySink` uses of a `MemoryStore`; each visible step of it is a call."""

    late_commit = None

    def __init__(self, tape: Tape, key: str, *, exclusive: bool) -> None:
        self.tape = tape
        self.key = key
        self.exclusive = exclusive

    def begin(self) -> TapeTransaction:
        return TapeTransaction(self)

    def read(self, key: str, query: str) -> Heads:
        heads: Heads = self.tape.ask(Call("read", key, query))
        return heads

    def moved_by(self, query_id: str) -> Any:
        return self.tape.ask(Call("moved", self.key, query_id))

    def read_history(self, key: str) -> Heads:
        """The heads as the last entries of the history alone have them: only a bug asks."""
        heads: Heads = self.tape.ask(Call("history", key))
        return heads


class TapeTransaction:
    """What nobody else can see of a transaction happens here; the lock and the end are calls."""

    def __init__(self, store: TapeStore) -> None:
        self.store = store
        self.rows: list[Row] = []
        self.query = ""
        self.heads: dict[tuple[str, TopicPartition], Head] | None = None
        self.moved: list[tuple[TopicPartition, Head | None, Head]] = []
        self.gaps: list[tuple[TopicPartition, OffsetRange]] = []
        if store.exclusive:
            self.locked()

    def locked(self) -> dict[tuple[str, TopicPartition], Head]:
        """The heads, which from now on nobody else can move."""
        if self.heads is None:
            self.heads = dict(self.store.tape.ask(Call("lock", self.store.key)))
        return self.heads

    def insert(self, key: str, rows: Iterable[Row]) -> int:
        before = len(self.rows)
        self.rows += rows
        return len(self.rows) - before

    def move(self, key: str, query: str, tp: TopicPartition, found: Head | None, head: Head) -> int:
        heads, self.query = self.locked(), query
        if heads.get((query, tp)) != found:
            return 0
        heads[query, tp] = head
        self.moved.append((tp, found, head))
        return 1

    def record(self, key: str, entry: Entry, applied: Applied) -> None:
        self.gaps += [(tp, one.gap) for tp, one in entry.moves.items() if one.gap is not None]

    def commit(self) -> None:
        rows, moves, gaps = tuple(self.rows), tuple(self.moved), tuple(self.gaps)
        call = Call("commit", self.store.key, self.query, rows, moves, gaps)
        try:
            self.store.tape.ask(call)
        finally:
            self.heads = None

    def rollback(self) -> None:
        if self.heads is not None:
            self.heads = None
            self.store.tape.ask(Call("rollback", self.store.key))


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a batch is: it waits for an answer, has ended well, or has failed."""

    pending: Call | None
    executed: bool
    error: EoListenerError | None = None


def play(
    how: How,
    name: str,
    batch_id: int,
    answers: tuple[Answer, ...],
    new_checkpoint: str | None = None,
) -> Stand:
    tape = Tape(answers)
    stores: list[Any] = [TapeStore(tape, key, exclusive=how.exclusive) for key in how.keys]
    sinks = [MemorySink(one, key=one.key, per_partition=how.per_partition) for one in stores]
    slept: list[float] = []
    steps = BatchRunner(
        tape,
        sinks,
        tape,
        name=name,
        on_gap=how.on_gap,
        on_first=how.on_first,
        on_recreated=how.on_recreated,
        new_checkpoint=new_checkpoint,
        retry=RETRY,
        sleep=slept.append,
        clock=lambda: sum(slept),
        process=ProcessWrites(),
    )
    return stand_of(steps, tape, batch_id)


def stand_of(runner: BatchRunner, tape: Tape, batch_id: int) -> Stand:
    """Run the batch as far as the answers reach."""
    try:
        runner.run(tape, batch_id)
    except Paused:
        return Stand(tape.pending, tape.executed)
    except EoListenerError as error:
        return Stand(None, tape.executed, error)
    return Stand(None, tape.executed)
