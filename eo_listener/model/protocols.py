"""The parts of the outside world that threads and decisions need, and nothing more."""

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
    """Kafka's answer about one group, and about the logs behind it.

    `positions` leaves out partitions for which the group has no offset; `starts` (the first offset
    still in the log) and `ends` (the next to be written) leave out partitions that do not exist;
    `topic_ids` leaves out topics that do not exist. Ids are as Kafka's own tools print them.
    `errors` has Kafka's error name for topics that were refused: nothing else says anything of
    them, and they may exist.
    """

    positions: Mapping[TopicPartition, Position]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def whole(self) -> GroupSnapshot:
        """Return it. Raises KafkaError if a topic was refused."""
        for topic, code in sorted(self.errors.items()):
            raise KafkaError(f"reading topic {topic} failed: {code}", code=code)
        return self


class GroupStore(Protocol):
    """The consumer groups of one Kafka cluster, through clients that are kept. For one thread."""

    def commit(
        self, group: str, positions: Mapping[TopicPartition, Position], *, timeout: float
    ) -> Mapping[TopicPartition, str | None]:
        """Commit, and return None (confirmed) or Kafka's error name for each partition.

        A partition missing from the answer was not confirmed. Raises KafkaError when the
        request as a whole failed or was not answered within `timeout` seconds.
        """
        ...

    def snapshot(
        self, group: str, partitions: Collection[TopicPartition], *, timeout: float
    ) -> GroupSnapshot:
        """Read where the group and the logs of `partitions` stand; changes nothing.

        Raises KafkaError when any part of it could not be read within `timeout` seconds. A topic
        that Kafka refuses stands in the answer's errors; what does not exist is left out of it.
        """
        ...

    def poll(self) -> None:
        """Serve the client's own callbacks; called every few seconds, returns at once."""
        ...

    def close(self) -> None:
        """Close the connections, within a few seconds."""
        ...


class QueryMode(Enum):
    """How a query makes its progress durable, which says what its offsets mean."""

    MICRO_BATCH = "micro-batch"
    ASYNC_PROGRESS = "asynchronous progress tracking"
    CONTINUOUS = "continuous"
    REAL_TIME = "real-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePosition:
    """The durable position of a query's run in its checkpoint.

    `batch_id` is the last batch behind it (-1: none yet), or an earlier one, never a later one:
    Spark moves the two one after the other. `committed` holds the end offsets by the index of the
    source, Kafka sources only.
    """

    batch_id: int
    committed: Mapping[int, Offsets]


class QueryReader(Protocol):
    """Questions about running queries, also when they have just ended.

    Every method raises JvmError when the query cannot be asked.
    """

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Reader options by source index, keys in lower case; Kafka sources only."""
        ...

    def mode(self, query_id: str, run_id: str) -> QueryMode:
        """How the query makes its progress durable."""
        ...

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """Return the durable position; None while the query has not restored its checkpoint yet.

        Never ahead of the commit log, in no mode.
        """
        ...

    def has_ended(self, query_id: str, run_id: str) -> bool:
        """Return True if the run is over or its SparkContext stopped, whatever the events say."""
        ...

    def forget(self, run_id: str) -> None:
        """Drop what is held of a run that has ended."""
        ...


class ShimClient(Protocol):
    """The shim's calls inside Spark's JVM, whatever the connection to it."""

    def call(self, name: str, argument: str) -> str:
        """Do `name` with `argument`; both it and the answer are JSON texts. For any thread.

        They may hold secrets. Raises JvmError, which never does.
        """
        ...


class PlanReader(Protocol):
    """Reads Spark's plan of the batch that is being written."""

    def plan(self, frame: Any, batch_id: int) -> PlannedBatch:
        """Read it; `frame` is the DataFrame that foreachBatch was given.

        Raises JvmError, StorageError or KafkaError when it cannot be known.
        """
        ...

    def began(self, plan: PlannedBatch) -> Mapping[TopicPartition, int]:
        """Return the offsets at which the checkpoint of the newest plan's query began.

        Leaves out partitions that came later. Raises JvmError, StorageError, CheckpointError or
        SettingsError when it cannot be known.
        """
        ...


class Sink(Protocol):
    """A store in which a batch's rows and its ledger entry become visible together, or not at all.

    `label` names it to people and holds no secret; `key` names the target within the store's
    ledger, and never changes once `applied` has returned. With `per_partition` each partition of
    the batch has a transaction of its own, and is judged alone; but one with counted sources is one
    transaction. Used by one thread at a time, the query's. `eo_listener.testing.conformance` proves
    an implementation.
    """

    @property
    def label(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def per_partition(self) -> bool: ...

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the durable heads of `query`. Creates a missing ledger.

        Raises SinkError when the store cannot be asked.
        """
        ...

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read all heads of the store's ledger that `query_id` has moved last, under any key.

        Called after `applied`, in the first batch of a run, and if that has no head for a partition
        that is read. If each target keeps a ledger of its own, this reads that one. Raises
        SinkError.
        """
        ...

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows of `frame` (a DataFrame) and `entry` in one transaction.

        Each head is moved by compare-and-set, and the number of changed rows is checked. Every
        error but OutcomeUnknownError means that nothing was written (with `per_partition`: nothing
        of the partitions that the ledger does not name). Raises ForeignWriterError if a head
        differs from the one that the entry found, RetriableSinkError, SinkLockedError,
        PoisonRowError, OutcomeUnknownError, SinkError, and SettingsError for rows that can never
        fit.
        """
        ...

    def close(self) -> None:
        """Close the connections, within a few seconds."""
        ...


class LedgerReader(Protocol):
    """Reads the ledger of a store, of all its sinks and queries; makes and changes nothing.

    `label` names the store for display and holds no secret. Reading raises SinkError or KafkaError
    if the store cannot be reached, SettingsError if it has no ledger, and FormatError for a ledger
    of a newer release. For one thread.
    """

    @property
    def label(self) -> str: ...

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        """Read all heads, as they were at one moment."""
        ...

    def history(self, key: LedgerKey) -> Iterator[AppliedBatch]:
        """Read what was applied, each partition's in the order of offsets.

        Kafka's ledger has none. Old batches are pruned, but for the first of a partition and those
        with a gap; of an Iceberg or a Delta table only its newest ones are read.
        """
        ...

    def row_origins(self, sink: str, columns: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Read topic, partition and offset of each row of a sink's table, in this order.

        `columns` are their names. Rows that lack one of them come last. Raises SettingsError if the
        table or a column does not exist, or if rows do not name their offset.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
