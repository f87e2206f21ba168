"""The sink of the model: the product's own steps, over a client whose every request is a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eo_listener.errors import ForeignWriterError
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.kafka.java_transactions import TaskReport
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.kafka import transaction
from eo_listener.sinks.kafka.transaction import OpenTransaction, ProducerEpoch
from tests.model_checking.batches.tape import RETRY, Answer, Call, Heads, Stand, Tape, stand_of

KEY = "a"
LEDGER = TopicPartition("ledger", 0)
OUT0, OUT1 = TopicPartition("out", 0), TopicPartition("out", 1)
TARGETS = (OUT0, OUT1)
Layout = tuple[tuple[TopicPartition, ...], ...]
"""The target's partitions that each task has."""
ONE_EACH: Layout = ((OUT0,), (OUT1,))
ONE_TASK: Layout = (TARGETS,)


@dataclass(frozen=True, slots=True)
class SinkHow:
    method: Literal["executors", "driver"] = "executors"
    layout: Layout = ONE_EACH
    repeats: bool = True  # what has failed is tried once more


@dataclass(frozen=True, slots=True)
class KafkaCall(Call):
    """What a batch asks of the world.

    The names: init, read (the ledger, without an epoch), ledger (with one), rows, entry, describe,
    commit, end, abort; and plan and moved.
    """

    producer: ProducerEpoch | None = None


class TapeClient:
    """A `TransactionClient`; each of its requests is a call."""

    def __init__(self, sink: TapeSink, frame: Any) -> None:
        self.sink = sink
        self.frame = frame
        self.producer: ProducerEpoch | None = None
        self.open = False

    def _ask(self, name: str, **what: Any) -> Any:
        try:
            return self.sink.tape.ask(KafkaCall(name, KEY, producer=self.producer, **what))
        except ForeignWriterError:
            self.open = False  # it is another's now
            raise

    def init(self) -> ProducerEpoch:
        self.producer = None
        self.producer = self._ask("init")
        assert self.producer is not None
        return self.producer

    def read_ledger(self, query: str) -> Mapping[TopicPartition, Head]:
        found: Heads = self._ask("read" if self.producer is None else "ledger", query=query)
        return found

    def write_rows(self, producer: ProducerEpoch) -> Sequence[TaskReport]:
        self.open = True
        reports: Sequence[TaskReport] = self._ask("rows", rows=tuple(self.frame.collect()))
        return reports

    def write_ledger(self, entry: Entry) -> Collection[TopicPartition]:
        moves = tuple((tp, one.expected, entry.head(tp)) for tp, one in entry.moves.items())
        gaps = tuple((tp, one.gap) for tp, one in entry.moves.items() if one.gap is not None)
        self._ask("entry", query=entry.query, moves=moves, gaps=gaps)
        return (LEDGER,)

    def describe(self) -> OpenTransaction | None:
        if self.sink.how.method == "driver":
            return None
        found: OpenTransaction = self._ask("describe")
        return found

    def commit(self) -> None:
        self.open = False
        self._ask("commit")

    def close(self, failed: BaseException | None) -> None:
        """End the transaction of a try that has failed by another epoch."""
        if self.open and self.sink.tape.pending is None:
            self._ask("end")


class TapeSink:
    label = "topic out"
    key = KEY
    per_partition = False

    def __init__(self, tape: Tape, how: SinkHow) -> None:
        self.tape = tape
        self.how = how

    def applied(self, query: str) -> Heads:
        return self.client(None).read_ledger(query)

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Heads]:
        found: Mapping[LedgerKey, Heads] = self.tape.ask(Call("moved", KEY, query_id))
        return found

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        return transaction.write_batch(
            self.client(frame), entry, label=self.label, tasks=len(self.how.layout)
        )

    def client(self, frame: Any) -> TapeClient:
        """A producer of its own for each try."""
        return TapeClient(self, frame)

    def close(self) -> None:
        pass


def play(how: SinkHow, name: str, batch_id: int, answers: tuple[Answer, ...]) -> Stand:
    tape = Tape(answers)
    slept: list[float] = []
    runner = BatchRunner(
        tape,
        [TapeSink(tape, how)],
        tape,
        name=name,
        retry=RETRY if how.repeats else RetryLimits(timeout=0.0),
        sleep=slept.append,
        clock=lambda: sum(slept),
        process=ProcessWrites(),
    )
    return stand_of(runner, tape, batch_id)
