"""A Kafka cluster as one transactional id sees it, without the second part of KIP-890."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka.transaction import ONGOING, ProducerEpoch

EMPTY = "Empty"
PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
WAIT = "CONCURRENT_TRANSACTIONS"
FENCED = "PRODUCER_FENCED"
NO_STATE = "INVALID_TXN_STATE"
STRANGER = ProducerEpoch(-1, 0)
"""The producer of another sink, which has its ledger in the same partition."""


@dataclass(frozen=True, slots=True)
class Request:
    """An `init`, `add`, `produce`, `commit` or `abort` on its way; its client waits no longer."""

    kind: str
    producer: ProducerEpoch | None = None
    partition: TopicPartition | None = None
    sequence: int = 0
    value: object = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a transaction; `by` names the attempt of a task that has sent it."""

    producer: ProducerEpoch
    value: object
    by: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """What ends a transaction in a partition."""

    producer: ProducerEpoch
    commit: bool


@dataclass(slots=True)
class Log:
    """A partition; `last` is the newest epoch of each producer id, and its last sequence number."""

    items: tuple[Record | Marker, ...] = ()
    last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def has_room(self, request: Request) -> str | None:
        """What a broker answers to a Produce; None if it would be appended."""
        producer = request.producer
        assert producer is not None
        known = self.last.get(producer.producer_id)
        if known is None or producer.epoch > known[0]:
            return None if request.sequence == 0 else "OUT_OF_ORDER_SEQUENCE_NUMBER"
        if producer.epoch < known[0]:
            return FENCED
        if request.sequence <= known[1]:
            return "DUPLICATE_SEQUENCE_NUMBER"
        return None if request.sequence == known[1] + 1 else "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def append(self, request: Request) -> None:
        assert request.producer is not None
        self.items += (Record(request.producer, request.value, request.by),)
        self.last[request.producer.producer_id] = (request.producer.epoch, request.sequence)

    def end(self, producer: ProducerEpoch, *, commit: bool) -> None:
        """Append a marker; what has an older epoch than it is refused from now on."""
        self.items += (Marker(producer, commit),)
        epoch, last = self.last.get(producer.producer_id, (producer.epoch, -1))
        self.last[producer.producer_id] = (producer.epoch, last if epoch == producer.epoch else -1)

    def open(self, producer_id: int) -> Iterator[Record]:
        """The records of a producer id that no marker has ended yet, whatever their epoch."""
        kept: list[Record] = []
        for item in self.items:
            if item.producer.producer_id != producer_id:
                continue
            if isinstance(item, Marker):
                kept.clear()
            else:
                kept.append(item)
        yield from kept

    @property
    def stable(self) -> int:
        opened: dict[int, int] = {}
        for at, item in enumerate(self.items):
            if isinstance(item, Marker):
                opened.pop(item.producer.producer_id, None)
            else:
                opened.setdefault(item.producer.producer_id, at)
        return min(opened.values(), default=len(self.items))

    @property
    def is_stable(self) -> bool:
        return self.stable == len(self.items)

    def committed(self) -> list[Record]:
        seen: list[Record] = []
        ends: dict[int, bool] = {}
        for at in reversed(range(len(self.items))):
            item = self.items[at]
            if isinstance(item, Marker):
                ends[item.producer.producer_id] = item.commit
            elif at < self.stable and ends[item.producer.producer_id]:
                seen.append(item)
        return seen[::-1]


@dataclass(slots=True)
class Coordinator:
    """The state of one transactional id; `producer` is None where the coordinator has none."""

    longest: int  # epochs of one producer id
    state: str = EMPTY
    producer: ProducerEpoch | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    ids: int = 0

    def init(self) -> ProducerEpoch | None:
        """InitProducerId; None where the client has to ask again."""
        if self.state == ONGOING:
            self.fence()
        if self.state in (PREPARE_COMMIT, PREPARE_ABORT):
            return None
        if self.producer is None or self.producer.epoch >= self.longest:
            self.ids += 1
            self.producer = ProducerEpoch(self.ids, 0)
        else:
            self.producer = replace(self.producer, epoch=self.producer.epoch + 1)
        self.state = EMPTY
        return self.producer

    def fence(self) -> None:
        """Abort with an epoch of nobody, as InitProducerId and the time-out do."""
        assert self.producer is not None
        self.producer = replace(self.producer, epoch=self.producer.epoch + 1)
        self.state = PREPARE_ABORT

    def add(self, producer: ProducerEpoch | None, partition: TopicPartition) -> str | None:
        """AddPartitionsToTxn: the first one begins a transaction; gives the error."""
        if producer != self.producer or producer is None:
            return FENCED
        if self.state in (PREPARE_COMMIT, PREPARE_ABORT):
            return WAIT
        held = self.partitions if self.state == ONGOING else frozenset()
        self.state, self.partitions = ONGOING, held | {partition}
        return None

    def end(self, producer: ProducerEpoch | None, *, commit: bool) -> str | None:
        """EndTxn; gives the error."""
        if producer != self.producer or producer is None:
            return FENCED
        prepare = PREPARE_COMMIT if commit else PREPARE_ABORT
        if self.state == ONGOING:
            self.state = prepare
            return None
        if self.state == prepare:
            return WAIT
        return None if self.state == (COMPLETE_COMMIT if commit else COMPLETE_ABORT) else NO_STATE


class Cluster:
    """`verifies`: brokers ask the coordinator before they begin a transaction in a partition."""

    def __init__(
        self, partitions: tuple[TopicPartition, ...], *, verifies: bool, longest: int
    ) -> None:
        self.coordinator = Coordinator(longest)
        self.logs = {tp: Log() for tp in partitions}
        self.verifies = verifies

    def key(self) -> object:
        its = self.coordinator
        logs = tuple((log.items, tuple(log.last.items())) for log in self.logs.values())
        return (its.state, its.producer, its.partitions, its.ids, logs)

    def handle(self, request: Request) -> str | None:
        """Let a request arrive; gives the error. InitProducerId is `Coordinator.init`."""
        its, tp = self.coordinator, request.partition
        if request.kind == "init":
            its.init()
            return None
        if request.kind == "add":
            assert tp is not None
            return its.add(request.producer, tp)
        if request.kind == "produce":
            return self._produce(request)
        return its.end(request.producer, commit=request.kind == "commit")

    def _produce(self, request: Request) -> str | None:
        assert request.partition is not None
        assert request.producer is not None
        log, its = self.logs[request.partition], self.coordinator
        error = log.has_room(request)
        if error is not None:
            return None if error == "DUPLICATE_SEQUENCE_NUMBER" else error
        begun = any(log.open(request.producer.producer_id))
        if self.verifies and not begun:
            joined = its.state == ONGOING and request.partition in its.partitions
            if request.producer != its.producer or not joined:
                return NO_STATE
        log.append(request)
        return None

    def unmarked(self) -> list[TopicPartition]:
        its = self.coordinator
        return sorted(its.partitions) if its.state in (PREPARE_COMMIT, PREPARE_ABORT) else []

    def mark(self, partition: TopicPartition) -> None:
        """Write a marker; after the last of them the transaction is complete."""
        its = self.coordinator
        assert its.producer is not None
        commit = its.state == PREPARE_COMMIT
        self.logs[partition].end(its.producer, commit=commit)
        its.partitions -= {partition}
        if not its.partitions:
            its.state = COMPLETE_COMMIT if commit else COMPLETE_ABORT

    def expire(self) -> None:
        """Forget the transactional id, and what the partitions know of its producers."""
        self.coordinator.state, self.coordinator.producer = EMPTY, None
        for log in self.logs.values():
            log.last.clear()
