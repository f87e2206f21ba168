"""Spark and Kafka as far as a batch on its way to a sink sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from tests.model_checking.batches.tape import NAME, Answer, Planned, Row, Stand

P0, P1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
Ends = Mapping[TopicPartition, int]
Ids = Mapping[str, str]


@dataclass(slots=True)
class Log:
    """The topics: how often each was made, and where their partitions start and end."""

    lives: dict[str, int]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> Log:
        """New and empty."""
        none = dict.fromkeys(partitions, 0)
        return cls({tp.topic: 1 for tp in none}, none, dict(none))

    @property
    def ids(self) -> dict[str, str]:
        """The topics' ids."""
        return {topic: f"{topic}#{life}" for topic, life in self.lives.items()}

    @property
    def recreated(self) -> bool:
        """Whether a topic was deleted and recreated."""
        return any(life > 1 for life in self.lives.values())

    def recreate_topic(
        self, topic: str, partitions: Iterable[TopicPartition], records: int
    ) -> None:
        """Delete a topic, and make one of its name, with so many records in each partition."""
        self.lives[topic] += 1
        for ends, at in ((self.starts, 0), (self.ends, records)):
            for tp in [tp for tp in ends if tp.topic == topic]:
                del ends[tp]
            ends.update(dict.fromkeys(partitions, at))


@dataclass(frozen=True, slots=True)
class Batch:
    """What `offsets/N` holds, with the start that goes with it; `before` is the last one's start.

    A stateful query emits in a batch what it read in the one before.
    """

    spans: tuple[tuple[TopicPartition, OffsetRange], ...]
    before: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where it ends."""
        return {tp: span.until for tp, span in self.spans}

    @property
    def starts(self) -> dict[TopicPartition, int]:
        """Where it starts."""
        return {tp: span.start for tp, span in self.spans}

    @property
    def empty(self) -> bool:
        """Whether it reads nothing."""
        return all(span.start == span.until for _, span in self.spans)


@dataclass(slots=True)
class Checkpoint:
    """`offsets/0..`, and how many of them have a `commits/N`; a new one has its own start.

    `topics` are the lives of the topics when it began.
    """

    first: dict[TopicPartition, int]
    topics: dict[str, int]
    life: int = 1
    batches: list[Batch] = field(default_factory=list)
    done: int = 0

    @property
    def id(self) -> str:
        """The query's id."""
        return f"query/{self.life}"

    @property
    def durable(self) -> dict[TopicPartition, int]:
        """Where the last finished batch ended."""
        return self.batches[self.done - 1].ends if self.done else dict(self.first)


class Phase(Enum):
    """Where a run is."""

    IDLE = "idle"
    BATCH = "batch"  # foreachBatch runs, or has returned


@dataclass(slots=True)
class Driver:
    """A driver process with its one run of the query; what it holds in memory."""

    run: str
    query_id: str
    batch: int
    ends: dict[TopicPartition, int]
    last: Batch | None
    topics: dict[str, int]  # those of its checkpoint
    first: dict[TopicPartition, int]  # where that began to read
    name: str = NAME
    ids: Ids = field(default_factory=dict)  # of the topics, as the batch's plan has them
    phase: Phase = Phase.IDLE
    current: Batch | None = None
    answers: tuple[Answer, ...] = ()
    stand: Stand | None = None
    stopped: bool = False
    zombie: bool = False  # was stopped once
    overtaken: bool = False  # another run has written since this one began
    robbed: bool = False  # a store was put back while its batch ran
    ousted: set[str] = field(default_factory=set)  # sinks that have ended its transaction

    def begin(self, batch: Batch) -> None:
        """Call foreachBatch."""
        self.phase, self.current, self.answers, self.stand = Phase.BATCH, batch, (), None
        self.robbed = False

    def go_on(self) -> None:
        """The batch is finished."""
        assert self.current is not None
        self.last, self.ends, self.batch = self.current, self.current.ends, self.batch + 1
        self.phase, self.current, self.answers, self.stand = Phase.IDLE, None, (), None


def following(driver: Driver, ends: Ends) -> Batch:
    """The batch from where the driver stands to `ends`."""
    spans = tuple(
        (tp, OffsetRange(driver.ends.get(tp, 0), end)) for tp, end in sorted(ends.items())
    )
    before = driver.last.starts if driver.last is not None else driver.ends
    return Batch(spans, tuple(before.items()))


def planned(driver: Driver, log: Log, *, stateful: bool) -> Answer:
    """What is planned, as the product is told of it, with the rows that Spark will make."""
    batch = driver.current
    assert batch is not None
    plan = PlannedBatch(
        query_id=driver.query_id,
        run_id=driver.run,
        query=driver.name,
        batch_id=driver.batch,
        sources={0: dict(batch.spans)},
        stateful=stateful,
        topic_ids=log.ids,
        log_starts=dict(log.starts),
        log_ends=dict(log.ends),
        asked=True,
        continued=frozenset(driver.ends) if driver.batch else frozenset(),
    )
    read = {tp: range(*span) for tp, span in batch.spans}
    if stateful:
        read = {tp: range(start, batch.starts[tp]) for tp, start in batch.before}
    rows = tuple(
        Row(tp.topic, tp.partition, offset, log.ids[tp.topic])
        for tp, offsets in read.items()
        for offset in offsets
        if tp in log.ends and log.starts[tp] <= offset < log.ends[tp]
    )
    there = tuple(span.until <= log.ends.get(tp, -1) for tp, span in batch.spans)
    lives, starts = tuple(log.lives.values()), tuple(log.starts.items())
    first = tuple(driver.first.items())
    digest = (driver.run, driver.batch, batch, lives, starts, there, first)
    return Answer(Planned(plan, rows, dict(first)), digest)
