"""Spark and Kafka as far as a batch on its way to a sink sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from eo_listener.model.planned_batch import BATCHES, CountedSources, PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from tests.model_checking.batches.tape import NAME, Answer, Planned, Row, Stand

P0, P1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
F0 = TopicPartition("files", 0)
"""What a counted source has: records in a row, whose numbers nobody tells the product."""
Ends = Mapping[TopicPartition, int]
Ids = Mapping[str, str]


def of_kafka(ends: Ends) -> dict[TopicPartition, int]:
    return {tp: at for tp, at in ends.items() if tp != F0}


@dataclass(slots=True)
class Log:
    """The topics: how often each was made, and where their partitions start and end."""

    lives: dict[str, int]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> Log:
        none = dict.fromkeys(partitions, 0)
        return cls({tp.topic: 1 for tp in none}, none, dict(none))

    @property
    def ids(self) -> dict[str, str]:
        return {topic: f"{topic}#{life}" for topic, life in self.lives.items()}

    @property
    def recreated(self) -> bool:
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

    A stateful query emits in a batch what it read in the one before. With a counted source it has a
    plan id, and `begins`: where the source stood before it, and before each batch ahead of it.
    """

    spans: tuple[tuple[TopicPartition, OffsetRange], ...]
    before: tuple[tuple[TopicPartition, int], ...] = ()
    plan_id: str = ""
    begins: tuple[int, ...] = ()

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {tp: span.until for tp, span in self.spans}

    @property
    def starts(self) -> dict[TopicPartition, int]:
        return {tp: span.start for tp, span in self.spans}

    @property
    def empty(self) -> bool:
        return all(span.start == span.until for _, span in self.spans)

    @property
    def kafka(self) -> dict[TopicPartition, OffsetRange]:
        return {tp: span for tp, span in self.spans if tp != F0}

    @property
    def files(self) -> OffsetRange | None:
        """Its range of the counted source; None where that has no offset yet."""
        return dict(self.spans).get(F0)


@dataclass(slots=True)
class Checkpoint:
    """`offsets/0..`, and how many of them have a `commits/N`; a new one has its own start.

    `topics` are the lives of the topics when it began. `lost` counts how often plans were lost: the
    plans of one batch that were made since then have other ids.
    """

    first: dict[TopicPartition, int]
    topics: dict[str, int]
    life: int = 1
    batches: list[Batch] = field(default_factory=list)
    done: int = 0
    lost: int = 0

    @property
    def id(self) -> str:
        return f"query/{self.life}"

    @property
    def durable(self) -> dict[TopicPartition, int]:
        return self.batches[self.done - 1].ends if self.done else dict(self.first)


class Phase(Enum):
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
    consent: str | None = None  # new_checkpoint
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

    @property
    def position(self) -> dict[TopicPartition, int]:
        """Where its next batch starts; a counted source without an offset is still at its start."""
        return {**{tp: at for tp, at in self.first.items() if tp == F0}, **self.ends}

    @property
    def untouched(self) -> bool:
        """Whether it is in a batch of which no store was asked anything yet."""
        pending = None if self.stand is None else self.stand.pending
        return len(self.answers) == 1 and pending is not None and pending.name == "read"

    def begin(self, batch: Batch) -> None:
        self.phase, self.current, self.answers, self.stand = Phase.BATCH, batch, (), None
        self.robbed = False

    def go_on(self) -> None:
        assert self.current is not None
        self.last, self.ends, self.batch = self.current, self.current.ends, self.batch + 1
        self.phase, self.current, self.answers, self.stand = Phase.IDLE, None, (), None


def following(driver: Driver, ends: Ends, lost: int) -> Batch:
    """The batch up to `ends`, planned when `lost` plans were lost; files begin without offset."""
    starts, last = driver.position, driver.last
    without = {F0} - (last.ends.keys() if last else set()) if ends.get(F0) == starts.get(F0) else {}
    spans = tuple(
        (tp, OffsetRange(starts.get(tp, 0), end))
        for tp, end in sorted(ends.items())
        if tp not in without
    )
    before = tuple((driver.ends if last is None else last.starts).items())
    if F0 not in starts:
        return Batch(spans, before)
    begins = (*(last.begins if last else ()), starts[F0])
    return Batch(spans, before, f"{driver.query_id}, {driver.batch}, {lost}", begins)


def resumed(driver: Driver, batch: Batch) -> Batch:
    """A batch that the checkpoint has, as a driver runs it: from where the one before it ended."""
    starts = driver.position
    spans = tuple((tp, OffsetRange(starts.get(tp, 0), span.until)) for tp, span in batch.spans)
    return replace(following(driver, batch.ends, 0), spans=spans, plan_id=batch.plan_id)


def planned(driver: Driver, log: Log, *, stateful: bool) -> Answer:
    """What is planned, as the product is told of it, with the rows that Spark will make."""
    batch = driver.current
    assert batch is not None
    plan = PlannedBatch(
        query_id=driver.query_id,
        run_id=driver.run,
        query=driver.name,
        batch_id=driver.batch,
        sources={0: batch.kafka} if batch.kafka else {},
        counted=_counted(driver, batch),
        stateful=stateful,
        topic_ids={topic: one for topic, one in log.ids.items() if topic != F0.topic},
        log_starts=of_kafka(log.starts),
        log_ends=of_kafka(log.ends),
        has_log_bounds=True,
        continued=frozenset(BATCHES if tp == F0 else tp for tp in driver.ends if driver.batch),
    )
    read = {tp: range(*span) for tp, span in batch.spans}
    if stateful:
        known = batch.starts
        read = {tp: range(start, known[tp]) for tp, start in batch.before if tp in known}
    rows = tuple(
        Row(tp.topic, tp.partition, offset, log.ids[tp.topic])
        for tp, offsets in read.items()
        for offset in offsets
        if tp in log.ends and log.starts[tp] <= offset < log.ends[tp]
    )
    at = tuple(tuple(each.items()) for each in (log.lives, log.starts, log.ends, driver.first))
    digest = (driver.run, driver.query_id, driver.batch, batch, plan.counted, plan.continued, at)
    return Answer(Planned(plan, rows, of_kafka(driver.first)), digest)


def _counted(driver: Driver, batch: Batch) -> CountedSources | None:
    if batch.files is None:
        return None
    before = None if driver.last is None else driver.last.plan_id
    return CountedSources(indices=(1,), plan_id=batch.plan_id, before=before)
