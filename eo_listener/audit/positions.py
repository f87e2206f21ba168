"""The four places that record a query's position, as an audit read them. Pure values.

The audit reads them in the order group, committed batch, ledgers, planned batch, source log, and
the group again. A running query moves them in the opposite order. So an earlier reading can never
be ahead of a later one, unless something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.intervals import union, without
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Head, LedgerKey, TakenBack
from eo_listener.offsets import OffsetRange, Position, TopicPartition


def _none() -> Mapping[TopicPartition, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePositions:
    """The logs of the source's topics; partitions that do not exist are left out.

    `open_since` is when the first record was written of a transaction that is still open, in
    seconds before the audit.
    """

    servers: str
    logs: Mapping[TopicPartition, LogFacts]
    open_since: Mapping[TopicPartition, float] = field(default_factory=_none)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPositions:
    """One checkpoint. `committed` and `planned` are batches, or None.

    `done` is where the newest committed batch ended, `ahead` where the newest planned one ends, and
    `began` where the query began to read, as far as that is recorded. `damaged` names files that
    cannot be used. `counted`: it has sources that are not Kafka.
    """

    label: str
    exists: bool = True
    query_id: str | None = None
    committed: int | None = None
    planned: int | None = None
    done: Mapping[TopicPartition, int] = field(default_factory=_none)
    ahead: Mapping[TopicPartition, int] = field(default_factory=_none)
    began: Mapping[TopicPartition, int] = field(default_factory=_none)
    damaged: tuple[str, ...] = ()
    counted: bool = False

    @property
    def has_done_nothing(self) -> bool:
        """True if no batch is committed yet, as far as its files say."""
        return self.exists and self.committed is None and not self.damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositions:
    """The offsets of a group: `before` everything else was read, and `after` it.

    `members` name its live members; `had_members` says that it had some once. `unstable`: a
    transaction that commits to it is open.
    """

    name: str
    before: Mapping[TopicPartition, Position]
    after: Mapping[TopicPartition, Position]
    members: tuple[str, ...] = ()
    had_members: bool = False
    unstable: bool = False

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it holds something of, or did before."""
        return frozenset(tp.topic for tp in (*self.before, *self.after))

    def writer(self, tp: TopicPartition) -> CommitMetadata | None:
        """Who has committed the offset of a partition; None for another program."""
        held = self.after.get(tp) or self.before.get(tp)
        return None if held is None else CommitMetadata.parse(held.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPositions:
    """The ledger of one sink and query in a store; `store` is its human-readable name.

    From the history come `began`, the start of each partition's first batch, `gaps`, the losses
    that were accepted, and contradictions between batches: `missing` and `repeated` offsets.
    `begun` is a batch that was begun and not finished (a sink without transactions). `taken_back`
    records that somebody rolled back the table, and the ledger with it. `later` is the position of
    each partition when it was read again. `targets` are topics that hold the rows, apart from the
    ledger; `replaced` those that were deleted or recreated since.
    """

    store: str
    key: LedgerKey
    heads: Mapping[TopicPartition, Head]
    began: Mapping[TopicPartition, int] = field(default_factory=_none)
    gaps: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    missing: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    repeated: Mapping[TopicPartition, tuple[OffsetRange, ...]] = field(default_factory=_none)
    begun: int | None = None
    taken_back: TakenBack | None = None
    targets: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    later: Mapping[TopicPartition, int] = field(default_factory=_none)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Up to where each partition is applied."""
        return {tp: head.range.until for tp, head in self.heads.items()}

    def may_have_met(self, other: LedgerPositions, tp: TopicPartition) -> bool:
        """Return True if both may have applied a partition up to the same offset at one moment."""
        mine, its = self.heads[tp].range.until, other.heads[tp].range.until
        return mine <= other.later.get(tp, its) and its <= self.later.get(tp, mine)

    def accepts(self, tp: TopicPartition, gap: OffsetRange) -> bool:
        """Return True if all of these offsets are recorded as given up."""
        return not without((gap,), union(self.gaps.get(tp, ())))

    @property
    def label(self) -> str:
        """The sink and the query, human-readable."""
        return f"sink {self.key.sink}, query {self.key.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePositions:
    """A store: the ledgers in it that are of the query, and the keys of all others.

    `renamed` are keys of the checkpoint's own query, under other names than was asked for.
    `address` is how a command names the store, without a secret.
    """

    store: str
    address: str = "LEDGER"
    ledgers: tuple[LedgerPositions, ...]
    others: tuple[LedgerKey, ...] = ()
    renamed: tuple[LedgerKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """All that was read; what was not asked for, or could not be read, is None or not there.

    `query` is the name of the query, `sink` the key of the sink, if given. `uncommitted` are topics
    that the query commits to no group.
    """

    source: SourcePositions | None = None
    checkpoint: CheckpointPositions | None = None
    groups: tuple[GroupPositions, ...] = ()
    stores: tuple[StorePositions, ...] = ()
    query: str | None = None
    sink: str | None = None
    uncommitted: frozenset[str] = frozenset()

    @property
    def ledgers(self) -> tuple[LedgerPositions, ...]:
        """The ledgers of all stores."""
        return tuple(ledger for store in self.stores for ledger in store.ledgers)

    def named(self, ledger: LedgerPositions) -> str:
        """Return a ledger's label, with its store if another store has the same sink and query."""
        alone = sum(one.key == ledger.key for one in self.ledgers) <= 1
        return ledger.label if alone else f"{ledger.label}, in {ledger.store}"

    def committed_to(self, group: GroupPositions) -> frozenset[str] | None:
        """The topics of the checkpoint that go to a group; None where all do.

        Topics that the group holds; if it holds none, topics that no other group holds.
        """
        done = {} if self.checkpoint is None else self.checkpoint.done
        read = frozenset(tp.topic for tp in done if tp != BATCHES)
        wanted = read - self.uncommitted
        others = frozenset[str]().union(*(one.topics for one in self.groups if one is not group))
        own = (group.topics & read) or (wanted - others) or wanted
        return own if read - own else None


def lowest(every: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """The least offset of each partition, among those that have it."""
    found: dict[TopicPartition, int] = {}
    for held in every:
        for tp, offset in held.items():
            found[tp] = min(offset, found.get(tp, offset))
    return found
