"""The positions of a query, as an audit has read them in the four places that record them.

The audit reads in this order: group, committed batch, ledgers, planned batch, source log, and the
group again. A running query moves these positions in the opposite order. So an earlier reading can
never be ahead of a later reading, unless something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.intervals import Intervals, union, without
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.ledger import Head, LedgerKey, TableRollback
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.model.planned_batch import BATCHES, PlannedBatch
from eo_listener.offsets import OffsetRange, Position, TopicPartition

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


def _none() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePositions:
    """The logs of the source's topics; partitions that do not exist are left out.

    `open_since` is the age of the first record of a transaction that is still open, in seconds.
    """

    servers: str
    logs: Mapping[TopicPartition, LogFacts]
    open_since: Mapping[TopicPartition, float] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPositions:
    """The positions in one checkpoint."""

    label: str
    exists: bool = True
    query_id: str | None = None
    #: The newest committed batch.
    committed: int | None = None
    #: The newest planned batch.
    planned: int | None = None
    #: The offsets at which the newest committed batch ended.
    done: Ends = field(default_factory=_none)
    #: The offsets at which the newest planned batch ends.
    ahead: Ends = field(default_factory=_none)
    #: The offsets at which the query began to read, if they are recorded.
    began: Ends = field(default_factory=_none)
    #: The files that cannot be used.
    damaged: tuple[str, ...] = ()
    #: True if the query has sources other than Kafka.
    counted: bool = False
    #: The batch that the query repeats or writes next, without facts about Kafka's logs. Its ranges
    #: are empty if Spark has not planned it. None if the query is at work, or if the batch is
    #: unknown.
    next_batch: PlannedBatch | None = None
    #: Batches that are planned and not committed, before the newest: Spark does not run them again.
    skipped: tuple[int, ...] = ()
    #: The time since the newest planned batch was planned, in seconds.
    planned_ago: float | None = None

    @property
    def newest(self) -> int:
        """The newest committed batch, or -1 if there is none."""
        return -1 if self.committed is None else self.committed

    @property
    def has_done_nothing(self) -> bool:
        """True if the checkpoint is undamaged and has no committed batch yet."""
        return self.exists and self.committed is None and not self.damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositions:
    """The offsets of a group, read `before` everything else, and again `after` everything else.

    `members` are the names of the group's live members; `had_members` is True if the group once had
    members. `unstable` is True if a transaction that commits to the group is open. `error` is the
    name of Kafka's error if Kafka does not describe the group.
    """

    name: str
    before: Mapping[TopicPartition, Position]
    after: Mapping[TopicPartition, Position]
    members: tuple[str, ...] = ()
    had_members: bool = False
    unstable: bool = False
    error: str | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics for which the group holds offsets, or held offsets `before`."""
        return frozenset(tp.topic for tp in (*self.before, *self.after))

    def writer(self, tp: TopicPartition) -> CommitMetadata | None:
        """Return the metadata of the commit of `tp`, or None if it is not eo_listener's."""
        position = self.after.get(tp) or self.before.get(tp)
        return None if position is None else CommitMetadata.parse(position.metadata)


Unclaimed = dict[tuple[str, str], dict[TopicPartition, Intervals]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPositions:
    """The ledger of one sink and query in a store, with the facts of its history."""

    #: The human-readable name of the store.
    store: str
    key: LedgerKey
    heads: Mapping[TopicPartition, Head]
    #: The start of the first batch of each partition.
    began: Ends = field(default_factory=_none)
    #: The losses that were accepted.
    gaps: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    #: Offsets between two batches that no accepted gap explains.
    missing: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    #: Offsets that two batches have.
    repeated: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    #: A batch that was begun and not finished, by a sink without transactions.
    unfinished_batch: int | None = None
    #: The rollback of the table, and of the ledger with it.
    rollback: TableRollback | None = None
    #: The topics that hold the rows, apart from the ledger.
    targets: tuple[str, ...] = ()
    #: The targets that were deleted or recreated since.
    replaced: tuple[str, ...] = ()
    #: The position of each partition when the ledger was read again.
    later: Ends = field(default_factory=_none)
    #: The offsets of the table's rows that the ledger does not have; None if rows were not counted.
    unclaimed: Mapping[TopicPartition, Intervals] | None = None

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end of each partition's applied range."""
        return {tp: head.range.until for tp, head in self.heads.items()}

    def may_have_met(self, other_ledger: LedgerPositions, tp: TopicPartition) -> bool:
        """Return True if both ledgers may have had the same end offset of `tp` at one moment."""
        mine, its = self.heads[tp].range.until, other_ledger.heads[tp].range.until
        return mine <= other_ledger.later.get(tp, its) and its <= self.later.get(tp, mine)

    def accepts(self, tp: TopicPartition, gap: OffsetRange) -> bool:
        """Return True if the ledger records that all offsets of `gap` were accepted as lost."""
        return not without((gap,), union(self.gaps.get(tp, ())))

    @property
    def label(self) -> str:
        """The sink and the query, human-readable."""
        return f"sink {self.key.sink}, query {self.key.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePositions:
    """One store, with the query's ledgers in it, and the keys of its other ledgers.

    `renamed` has the heads that the checkpoint's own query has moved under names other than the
    requested name.
    `address` is the store's address as a command takes it, without secrets.
    """

    store: str
    address: str = "LEDGER"
    ledgers: tuple[LedgerPositions, ...]
    other_keys: tuple[LedgerKey, ...] = ()
    renamed: Mapping[LedgerKey, Mapping[TopicPartition, Head]] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """All positions that an audit read.

    A part that was not requested, or could not be read, is None or empty.
    """

    source: SourcePositions | None = None
    checkpoint: CheckpointPositions | None = None
    groups: tuple[GroupPositions, ...] = ()
    stores: tuple[StorePositions, ...] = ()
    #: The requested name of the query.
    query: str | None = None
    #: The requested key of the sink.
    sink: str | None = None
    #: Topics that the query commits to no group.
    uncommitted: frozenset[str] = frozenset()

    @property
    def ledgers(self) -> tuple[LedgerPositions, ...]:
        """The ledgers of all stores."""
        return tuple(ledger for store in self.stores for ledger in store.ledgers)

    def with_rows(self, unclaimed: Unclaimed) -> Positions:
        """Return a copy with `unclaimed`, the rows that no ledger has, by store and sink."""
        stores = (
            replace(
                store,
                ledgers=tuple(
                    replace(ledger, unclaimed=unclaimed.get((store.store, ledger.key.sink)))
                    for ledger in store.ledgers
                ),
            )
            for store in self.stores
        )
        return replace(self, stores=tuple(stores))

    @property
    def compared(self) -> tuple[str, ...]:
        """The places that were read and hold a position."""
        places = {
            "log": self.source is not None and self.source.logs,
            "checkpoint": self.checkpoint is not None and self.checkpoint.exists,
            "group": any(group.after for group in self.groups),
            "ledger": any(ledger.heads for ledger in self.ledgers),
        }
        return tuple(place for place, has_positions in places.items() if has_positions)

    @property
    def has_rows(self) -> bool:
        """True if a ledger's rows can be counted; records in a topic do not name source offsets."""
        stores = (LedgerStore.from_address(store.address) for store in self.stores if store.ledgers)
        return any(store is not LedgerStore.KAFKA for store in stores)

    def named(self, ledger: LedgerPositions) -> str:
        """Return a ledger's label, with its store if another store has the same sink and query."""
        alone = sum(each.key == ledger.key for each in self.ledgers) <= 1
        return ledger.label if alone else f"{ledger.label}, in {ledger.store}"

    def committed_to(self, group: GroupPositions) -> frozenset[str] | None:
        """Return the checkpoint's topics whose offsets go to `group`, or None if all topics do.

        They are the topics for which the group holds offsets; if it holds none, the topics for
        which no other group holds offsets.
        """
        done = {} if self.checkpoint is None else self.checkpoint.done
        read = frozenset(tp.topic for tp in done if tp != BATCHES)
        committed = read - self.uncommitted
        other_topics = frozenset[str]().union(
            *(other_group.topics for other_group in self.groups if other_group is not group)
        )
        own = (group.topics & read) or (committed - other_topics) or committed
        return own if read - own else None


def lowest(every: Iterable[Ends]) -> dict[TopicPartition, int]:
    """Return the least offset of each partition, among the mappings that have the partition."""
    least: dict[TopicPartition, int] = {}
    for offsets in every:
        for tp, offset in offsets.items():
            least[tp] = min(offset, least.get(tp, offset))
    return least
