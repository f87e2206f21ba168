"""Protocols for Kafka, Spark and stores: only the calls that the rest of the package needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from eo_listener.errors import KafkaError
from eo_listener.model.ledger import Applied, AppliedBatch, Entry, Head, LedgerKey, StoredLedger
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import Offsets, Position, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """Kafka's answer about the positions of one group, and about the logs of its partitions.

    `positions` leaves out partitions for which the group has no offset. `starts` (the first offset
    still in the log) and `ends` (the next offset to be written) leave out partitions that do not
    exist. `topic_ids` leaves out topics that do not exist. Ids are as Kafka's own tools print them.
    `errors` has Kafka's error name for each topic that Kafka refused. The other fields leave out
    such a topic, although it may exist.
    """

    positions: Mapping[TopicPartition, Position]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def whole(self) -> GroupSnapshot:
        """Return this snapshot. Raises KafkaError if Kafka refused a topic."""
        for topic, code in sorted(self.errors.items()):
            raise KafkaError(f"reading topic {topic} failed: {code}", code=code)
        return self


class GroupStore(Protocol):
    """The consumer groups of a Kafka cluster, through open clients. Only one thread may use it."""

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit `positions`; return None (confirmed) or Kafka's error name for each partition.

        A partition missing from the answer was not confirmed. Raises KafkaError if the
        request as a whole failed or was not answered within `timeout` seconds.
        """

    def snapshot(
        self, group: str, partitions: Collection[TopicPartition], *, timeout: float
    ) -> GroupSnapshot:
        """Read the group's positions and the logs' bounds of `partitions`; change nothing.

        Raises KafkaError if any part could not be read within `timeout` seconds. A topic that Kafka
        refuses is in the snapshot's `errors`. The snapshot leaves out topics and partitions that do
        not exist.
        """

    def take_over(self, group: str) -> None:
        """Forget that another committer has taken over the group: the next request takes it back.

        Does nothing in a mode in which the broker keeps no committer out.
        """

    def poll(self) -> None:
        """Run the client's own callbacks, and return at once.

        The caller must call this method every few seconds.
        """

    def close(self) -> None:
        """Close the connections, within a few seconds."""


class QueryMode(Enum):
    """The execution mode of a query: how it makes progress durable, and what its offsets mean."""

    MICRO_BATCH = "micro-batch"
    ASYNC_PROGRESS = "asynchronous progress tracking"
    CONTINUOUS = "continuous"
    REAL_TIME = "real-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePosition:
    """The durable position of a query's run in its checkpoint.

    `batch_id` is the last batch in `committed` (-1: no batch yet), or an earlier batch, but never a
    later one: Spark updates the offsets and the batch one after the other. `committed` has the end
    offsets by the index of the source, for Kafka sources only.
    """

    batch_id: int
    committed: Mapping[int, Offsets]


class QueryReader(Protocol):
    """Reads facts about queries that run, or have just ended.

    Every method raises JvmError if it cannot read the facts.
    """

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Return the reader's options by source index, keys in lower case; Kafka sources only."""

    def mode(self, query_id: str, run_id: str) -> QueryMode:
        """Return the execution mode of the query: how it makes its progress durable."""

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """Return the run's durable position, or None if the query has not restored its checkpoint.

        The position is never ahead of the commit log, in any mode.
        """

    def beginnings(self, query_id: str, run_id: str) -> Mapping[int, Offsets]:
        """Return the offsets at which the query's checkpoint began to read, by source index.

        Call this after the first batch. The result leaves out sources for which the checkpoint does
        not have these offsets.
        """

    def has_ended(self, query_id: str, run_id: str) -> bool:
        """Return True if the run or its SparkContext has ended, whatever Spark's events report."""

    def forget(self, run_id: str) -> None:
        """Drop the facts that the reader has stored about a run that has ended."""


class ShimClient(Protocol):
    """Calls functions of the shim inside Spark's JVM, over any kind of connection."""

    def call(self, name: str, argument: str) -> str:
        """Call the shim's function `name` with `argument`, and return its answer.

        `argument` and the answer are JSON texts, and may hold secrets. Any thread may call this.
        Raises JvmError, without secrets.
        """


class PlanReader(Protocol):
    """Reads Spark's plan of the batch that is being written."""

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """Read the plan of a batch; `frame` is the DataFrame that Spark passed to foreachBatch.

        Raises JvmError, StorageError or KafkaError if the plan cannot be read.
        """

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the offsets at which the query began to read; `plan` is the newest plan.

        Leaves out partitions that were added later. Raises JvmError, StorageError, CheckpointError
        or SettingsError if these offsets cannot be read.
        """


class Sink(Protocol):
    """A store in which a batch's rows and its ledger entry become visible together, or not at all.

    `label` names the sink in error texts and log lines, and holds no secret; `key` names the target
    within the store's ledger, and never changes once `applied` has returned. With `per_partition`
    each partition of the batch has its own transaction, and is judged on its own; but a batch with
    counted sources is one transaction. Only one thread at a time uses a sink: the thread of the
    query. `eo_listener.testing.conformance` tests an implementation.

    A sink may also have `check(query)`, which returns a list of `CheckFinding` for
    `eo-listener preflight`, and changes nothing.
    """

    @property
    def label(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def per_partition(self) -> bool: ...

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the durable heads of `query`. Creates a missing ledger.

        Raises SinkError if the store cannot be read.
        """

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read all heads in the store's ledger whose last move was by `query_id`, under any key.

        `exactly_once` calls this method after `applied`, in the first batch of a run, and if
        `applied` has no head for a partition that the batch reads. If each target has its own
        ledger, the method reads only the ledger of this target. Raises SinkError.
        """

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows of `frame` (a DataFrame) and `entry` in one transaction.

        The sink moves each head by compare-and-set, and checks the number of changed rows. Every
        error except OutcomeUnknownError means that nothing was written (with `per_partition`:
        nothing of the partitions for which the ledger lacks the batch). Raises ForeignWriterError
        if a head differs from the one that the entry expects, RetriableSinkError, SinkLockedError,
        PoisonRowError, OutcomeUnknownError, SinkError, and SettingsError for rows that can never
        fit the target.
        """

    def close(self) -> None:
        """Close the connections, within a few seconds."""


class LedgerReader(Protocol):
    """Reads a store's ledger, with all its sinks and queries; creates and changes nothing.

    `label` names the store for display and holds no secret. Reading raises SinkError or KafkaError
    if the store cannot be reached, SettingsError if it has no ledger, and FormatError for a ledger
    of a newer release. Only one thread may use it.
    """

    @property
    def label(self) -> str: ...

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read all heads, as they were at one moment."""

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Yield the applied batches; the batches of each partition are in the order of offsets.

        Kafka's ledger has only the heads that repairs read and wrote. The sinks prune old batches,
        except the first batch of a partition and batches with a gap. For an Iceberg or a Delta
        table, the method reads only the newest batches.
        """

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield topic, partition and offset of each row of a sink's table, sorted in this order.

        `columns` are the names of these columns. Rows that lack one of the values come last. Raises
        SettingsError if the table or a column does not exist, or if rows do not name their offset.
        """

    def close(self) -> None:
        """Close the connections."""
