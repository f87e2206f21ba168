"""The ledger that a sink keeps with its data: the applied offsets, and the batches that moved them.

The format is 1. A *head* is one row for each sink, query, topic and partition, and is never
deleted; the *history* has a row for each range that was applied, and is pruned. The transaction
that writes the data writes both. This module has only values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition

FORMAT = 1
GAP_ACCEPTED = "gap accepted"
"""The history's word, instead of a verdict, for a range with an accepted gap."""

UNKNOWN_TIME = "-"
"""Stands for the time at which a range was applied, if the store has only heads."""


class BatchVerdict(Enum):
    """The way in which a batch's range continues the ranges that were applied before it."""

    FIRST = "first"
    NEXT = "next"
    REPLAY = "replay"


class LedgerKey(NamedTuple):
    """The key of a query's heads: the sink's key, and the name of the query."""

    sink: str
    query: str


def sql_literal(name: str) -> str:
    """Return a sink's key or a query's name as an SQL literal, for a statement that a user runs."""
    return "'" + name.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last range that a sink has applied in a partition; `range.until` is the next offset.

    `topic_id` is as Kafka's own tools print it, or None if unknown. `query_id`, `run_id` and
    `batch_id` name the batch that last moved the head.
    """

    range: OffsetRange
    topic_id: str | None
    query_id: str
    run_id: str
    batch_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedBatch:
    """A row of the history: one partition of a batch; `head` is the head after that batch.

    `rows` is the number of rows of the whole batch, or None if the store does not report it.
    `verdict` is `first`, `next` or GAP_ACCEPTED; `gap` has the lost offsets. `applied_at` is a time
    in the store's own format, or UNKNOWN_TIME.
    """

    partition: TopicPartition
    head: Head
    rows: int | None
    verdict: str
    gap: OffsetRange | None
    applied_at: str


class TableRollback(NamedTuple):
    """The rollback of a table, and of the ledger in it, to a state older than its newest batches.

    `cause` names the operation, `fix` the command that undoes it; `fix` is empty if no command can
    undo it.
    """

    cause: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLedger:
    """The ledger of one sink and query in a store, read at one moment.

    `moved_at` has the times of the heads' last moves, in the store's own format, if the store keeps
    them.
    """

    key: LedgerKey
    heads: Mapping[TopicPartition, Head]
    moved_at: Mapping[TopicPartition, str]
    unfinished_batch: int | None = None
    """The batch that a sink without transactions has begun and not finished, or None."""
    rollback: TableRollback | None = None
    newest_only: bool = False
    """True if the history has only the newest batches: it may lack the first batch of a partition
    and batches with a gap.
    """
    targets: tuple[str, ...] = ()
    """The topics that the sink has written to, if it writes to topics."""
    replaced: tuple[str, ...] = ()
    """The `targets` that were deleted later, or deleted and recreated."""


class Move(NamedTuple):
    """A partition's step to its next head; a sink writes it only if `expected` is still the head.

    A Move is a tuple, because a batch has one Move for each partition, and a frozen dataclass takes
    four times as long to create.
    """

    source: int
    """The index of the source."""
    range: OffsetRange
    topic_id: str | None
    verdict: BatchVerdict | None
    """The verdict on the range, or None for an empty range.

    An empty range moves no offset, but marks that this batch was applied.
    """
    expected: Head | None
    """The head that the ledger must have before this move, or None if it must have no head yet."""
    gap: OffsetRange | None = None
    """The skipped or lost offsets that the user accepts, before `range` or at its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The changes of one batch to a sink's ledger; `query` is the query's name in the ledger."""

    query: str
    query_id: str
    run_id: str
    batch_id: int
    moves: Mapping[TopicPartition, Move]

    @property
    def kafka_moves(self) -> dict[TopicPartition, Move]:
        """The moves of Kafka's partitions: all except the move of BATCHES."""
        return {tp: move for tp, move in self.moves.items() if tp != BATCHES}

    def head(self, tp: TopicPartition) -> Head:
        """Return the head that `tp` has after this entry is written."""
        move = self.moves[tp]
        return Head(
            range=move.range,
            topic_id=move.topic_id,
            query_id=self.query_id,
            run_id=self.run_id,
            batch_id=self.batch_id,
        )


class Unexpected(Enum):
    """The kinds of records that a target without transactions has by mistake, or lacks."""

    FOREIGN = "records of other producers"
    LATE = "rows of a batch that was over"
    REPEATED = "rows that were there before"
    UNKNOWN = "rows that their batch no longer has"
    LOST = "offsets that are no longer there"


@dataclass(frozen=True, slots=True)
class UnexpectedRecords:
    """The number of unexpected records of one kind, and the offset ranges that contain them.

    `ranges` are offsets of the target's partitions, and contain other records too. For LOST,
    `count` counts offsets.
    """

    kind: Unexpected
    count: int
    ranges: Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of writing one batch to a sink: the numbers of data rows and of dead letters.

    `rows` is None if the store does not report how many rows it has written. `unexpected` are the
    unexpected records that a sink without transactions found in its target while it wrote.
    """

    rows: int | None
    dead_letters: int = 0
    unexpected: tuple[UnexpectedRecords, ...] = ()
