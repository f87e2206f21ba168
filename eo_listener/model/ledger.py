"""The record that a sink keeps with its data: how far each partition was applied, and by whom.
Pure.

Format 1. A *head* is one row for each sink, query, topic and partition, and is never deleted; the
*history* has a row for each range that was applied, and is pruned. Both are written in the
transaction that writes the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from eo_listener.model.counted_sources import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition

FORMAT = 1
GAP_ACCEPTED = "gap accepted"
"""The history's record of a range with a gap, in place of a verdict."""

UNKNOWN_TIME = "-"
"""The time at which a range was applied, if a store has only heads of it."""


class BatchVerdict(Enum):
    """How a range continues what was applied before it."""

    FIRST = "first"
    NEXT = "next"
    REPLAY = "replay"


class LedgerKey(NamedTuple):
    """The key of heads: the sink's key, and the name of the query."""

    sink: str
    query: str


def sql_literal(name: str) -> str:
    """Return a part of a key as SQL's string literal, for a statement that a person is to run."""
    return "'" + name.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last range of one partition that a sink has applied; `range.until` is what comes next.

    `topic_id` is as Kafka's own tools print it, None if unknown. `query_id`, `run_id` and
    `batch_id` name the last mover.
    """

    range: OffsetRange
    topic_id: str | None
    query_id: str
    run_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedBatch:
    """The history's record of one partition: `head` is the head after a batch.

    `rows` are those of the whole batch, None where the store does not say. `verdict` is `first`,
    `next` or GAP_ACCEPTED; `gap` are offsets that are lost. `applied_at` is a time in the store's
    own format, or UNKNOWN_TIME.
    """

    partition: TopicPartition
    head: Head
    rows: int | None
    verdict: str
    gap: OffsetRange | None
    applied_at: str


class TableRollback(NamedTuple):
    """A table was rolled back to before later batches, and its ledger with it.

    `cause` names the operation, `fix` the command that undoes it; empty if no command does.
    """

    cause: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """A store's record of one sink and query, read at one moment.

    `moved_at` has times in the store's own format, if the store has any.
    """

    key: LedgerKey
    heads: Mapping[TopicPartition, Head]
    moved_at: Mapping[TopicPartition, str]
    unfinished_batch: int | None = None
    """A batch that a sink without transactions has begun and not finished."""
    rollback: TableRollback | None = None
    newest_only: bool = False
    """True if the history is that of the newest batches: it may lack the first batch of a partition
    and batches with a gap.
    """
    targets: tuple[str, ...] = ()
    """The topics that rows went to, for a sink into topics."""
    replaced: tuple[str, ...] = ()
    """Those targets that were deleted since, or deleted and recreated."""


class Move(NamedTuple):
    """One partition's step: the sink writes it only if the ledger still holds `expected`.

    A tuple, since a batch has one for each of its partitions, and a frozen dataclass takes four
    times as long to make.
    """

    source: int
    """The index of the source."""
    range: OffsetRange
    topic_id: str | None
    verdict: BatchVerdict | None
    """None for an empty range, which moves no offset but marks that this batch was applied."""
    expected: Head | None
    """None if there must be no head yet."""
    gap: OffsetRange | None = None
    """Offsets skipped or lost before `range` or at its beginning, which the user has accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The changes of one batch to a sink's ledger; `query` is the stable name under which it is
    kept.
    """

    query: str
    query_id: str
    run_id: str
    batch_id: int
    moves: Mapping[TopicPartition, Move]

    @property
    def kafka_moves(self) -> dict[TopicPartition, Move]:
        """The moves of partitions that Kafka has: all but that of BATCHES."""
        return {tp: move for tp, move in self.moves.items() if tp != BATCHES}

    def head(self, tp: TopicPartition) -> Head:
        """The head that `tp` has once this entry is written."""
        move = self.moves[tp]
        return Head(
            range=move.range,
            topic_id=move.topic_id,
            query_id=self.query_id,
            run_id=self.run_id,
            batch_id=self.batch_id,
        )


class Unexpected(Enum):
    """Records that the logs of a sink without transactions should not hold, or lack."""

    FOREIGN = "records of other producers"
    LATE = "rows of a batch that was over"
    REPEATED = "rows that were there before"
    UNKNOWN = "rows that their batch no longer has"
    LOST = "offsets that are no longer there"


@dataclass(frozen=True, slots=True)
class UnexpectedRecords:
    """How many there are, and between which offsets of a target's partitions; others lie there too.

    Of LOST ones, `count` is that of offsets.
    """

    kind: Unexpected
    count: int
    ranges: Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The numbers of a sink's write of one batch: rows of data, and dead letters.

    `rows` is None where the store has written them and does not say how many they are.
    `unexpected` is what a sink that fences nobody has found in its target meanwhile.
    """

    rows: int | None
    dead_letters: int = 0
    unexpected: tuple[UnexpectedRecords, ...] = ()
