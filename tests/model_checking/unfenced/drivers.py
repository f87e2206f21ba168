"""Drivers of one query, as Spark runs them: batch after batch, from where the checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from eo_listener.errors import ForeignWriterError, RetriableSinkError
from eo_listener.model.ledger import Entry, Head
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.kafka.connection import ConnectionSettings
from eo_listener.sinks.kafka.errors import Explanation
from eo_listener.sinks.kafka.transaction import BatchTarget
from eo_listener.sinks.kafka.unfenced import UnfencedBatch
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.model_checking.ledger import require
from tests.model_checking.unfenced.cluster import (
    PARTITIONS,
    SINK,
    TARGET,
    Cluster,
    LedgerTopic,
    Producer,
    TargetLogs,
)
from tests.model_checking.unfenced.tasks import RowsByTasks, Tasks
from tests.sinks.kafka.frames import rows_at

TRIES = 3  # of a batch, in one life

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
# The second batch has nothing of one partition, whose head is to stay.
BATCHES: tuple[Mapping[TopicPartition, OffsetRange], ...] = (
    {P0: OffsetRange(0, 3), P1: OffsetRange(0, 2)},
    {P0: OffsetRange(3, 6)},
    {P0: OffsetRange(6, 7), P1: OffsetRange(2, 3)},
)
ACCESS = ConnectionSettings.from_options(
    {"kafka.bootstrap.servers": "host:9092"}, timeout=30, transaction_timeout=600
)
EXPLAIN = Explanation(
    label="topic out",
    servers="host:9092",
    principal=None,
    transactional_id="",
    topics=(TARGET,),
    ledger="ledger",
    group=None,
    transaction_timeout=600,
    fences=False,
)


@dataclass(slots=True)
class Checkpoint:
    """How many batches Spark has finished; which those are it has planned before."""

    done: int = 0


@dataclass(slots=True)
class Driver:
    """A driver; `keyed`: rows have keys."""

    name: str
    cluster: Cluster
    checkpoint: Checkpoint
    late: frozenset[int] = frozenset()
    keyed: bool = False
    accept: bool = False
    tasks: Tasks | None = None

    def run(self, batches: int = len(BATCHES)) -> None:
        """Do so many of the batches, as far as they are not done."""
        number = self.checkpoint.done
        while number < batches:
            self._batch(number)
            self.cluster.reached(self.name, "commits/N")
            number += 1
            self.checkpoint.done = max(self.checkpoint.done, number)

    def _batch(self, number: int) -> None:
        topic = LedgerTopic(self.cluster, self.name)
        heads = dict(topic.heads(QUERY, EXPLAIN, fenced=False))
        ranges = BATCHES[number]
        if all(self._until(heads, tp) == one.until for tp, one in ranges.items()):
            return  # a replay
        if any(self._until(heads, tp) != one.start for tp, one in ranges.items()):
            raise ForeignWriterError(f"batch {number} does not follow {heads}")
        entry = entry_of(heads, ranges, batch_id=number, run_id=self.name)
        for left in reversed(range(TRIES)):
            try:
                self._try(entry, ranges)
            except RetriableSinkError:
                require(left > 0, f"{self.name} tries batch {number} for ever")
            else:
                return

    def _try(self, entry: Entry, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        topic = LedgerTopic(self.cluster, self.name)
        self.tasks = Tasks(self.cluster, self.name, self.late)
        batch = UnfencedBatch(
            target=BatchTarget(sink=SINK, topics=(TARGET,), access=ACCESS, explain=EXPLAIN),
            accept=self.accept,
            heads=cast(Any, topic),
            logs=cast(Any, TargetLogs(self.cluster, self.name)),
            rows=self._rows(self._frame(ranges), plan_of(entry), self.tasks),
            entry=entry,
            reads=frozenset(tp for one in BATCHES for tp in one),
            _producer=cast(Any, Producer(self.cluster, self.name)),
        )
        batch.write()
        require(topic.met() <= {self.name}, f"{self.name} has written beside {topic.met()}")

    def _rows(self, frame: pa.Table, plan: PlannedBatch, tasks: Tasks) -> RowsByTasks:
        return RowsByTasks(
            frame,
            plan,
            cast(Any, tasks),
            label="out",
            one_topic=True,
            identity=None,
            tasks=PARTITIONS,
            timeout=30,
        )

    def _until(self, heads: Mapping[TopicPartition, Head], tp: TopicPartition) -> int:
        return heads[tp].range.until if tp in heads else 0

    def _frame(self, ranges: Mapping[TopicPartition, OffsetRange]) -> pa.Table:
        rows = [(tp, offset) for tp, one in ranges.items() for offset in range(*one)]
        columns = {"value": pa.array([f"{tp} {offset}" for tp, offset in rows], pa.string())}
        if self.keyed:
            columns["key"] = pa.array([bytes([offset % 2]) for _, offset in rows], pa.binary())
        return rows_at(rows, **columns)
