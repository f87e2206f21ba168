"""Partitions without a head: whether they begin here, by the plan and other names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.foreach_batch.batch_error_kinds import BatchErrorKind
from eo_listener.foreach_batch.batch_errors import BatchErrors
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHeads:
    """The heads that the plan's query id has moved in the ledger of a sink, under other names.

    `sink` is the sink's own key. Names that this run uses beside are not among them.
    """

    sink: str
    heads: Mapping[LedgerKey, Mapping[TopicPartition, Head]]

    def of(self, tp: TopicPartition) -> tuple[LedgerKey, Head] | None:
        """The partition's head with the highest offset, of the same sink if that has one."""
        return max(
            self.all_of(tp),
            key=lambda one: (one[0].sink == self.sink, one[1].range.until),
            default=None,
        )

    def all_of(self, tp: TopicPartition) -> list[tuple[LedgerKey, Head]]:
        """All heads of a partition."""
        return [(key, heads[tp]) for key, heads in self.heads.items() if tp in heads]


def is_unknown(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Whether the plan reads a partition that has no head, or the ledger has no head at all."""
    return not applied or not plan.partitions <= applied.keys()


def is_doubtful(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Whether a partition of Kafka without a head is one that earlier batches may have read of."""
    return any(
        tp not in applied and is_late(plan, tp, offset_range)
        for offset_ranges in plan.sources.values()
        for tp, offset_range in offset_ranges.items()
    )


def doubt(
    plan: PlannedBatch,
    tp: TopicPartition,
    offset_range: OffsetRange,
    other_heads: OtherHeads,
    errors: BatchErrors,
    *,
    accept: bool,
) -> bool:
    """Whether a partition without a head may not begin with this batch; adds why to `errors`.

    Where its query begins with it, it may: in the query's first batch, or as a new partition. With
    `accept` it may anywhere, but for rows that the store has under another name or table.
    """
    if has_doubled(plan, tp, offset_range, other_heads, errors):
        return True
    for key, head in other_heads.all_of(tp):
        if key.sink != other_heads.sink and _has_it(
            plan, offset_range, head
        ):  # its table may be this one, which was renamed
            errors.name_old(BatchErrorKind.IN_OLD_TABLE, tp, key, head, other_heads.sink)
            return True
    lost = is_late(plan, tp, offset_range)
    found = other_heads.of(tp)
    if found is not None and lost and not accept:
        errors.name_old(BatchErrorKind.RENAMED, tp, *found, other_heads.sink)
        return True
    if lost and not accept:
        kind = BatchErrorKind.UNCOUNTED if tp == BATCHES else BatchErrorKind.UNKNOWN
        errors.add(kind, tp, OffsetRange(0, offset_range.start))
        return True
    return False


def has_doubled(
    plan: PlannedBatch,
    tp: TopicPartition,
    offset_range: OffsetRange,
    other_heads: OtherHeads,
    errors: BatchErrors,
) -> bool:
    """Whether the same sink has the rows of a range under another name; adds it to `errors`.

    Also where this name has a head: a query may be renamed, and renamed back.
    """
    found = other_heads.of(tp)
    if (
        found is None
        or found[0].sink != other_heads.sink
        or not _has_it(plan, offset_range, found[1])
    ):
        return False
    errors.name_old(BatchErrorKind.UNDER_OLD_NAME, tp, *found, other_heads.sink)
    return True


def _has_it(plan: PlannedBatch, offset_range: OffsetRange, head: Head) -> bool:
    """Whether `head`, of the plan's own query id, shows that a part of the range was applied."""
    return head.batch_id >= plan.batch_id or head.range.until > offset_range.start


def is_late(plan: PlannedBatch, tp: TopicPartition, offset_range: OffsetRange) -> bool:
    """Whether offsets before the range were read by an earlier batch of the checkpoint."""
    return offset_range.start > 0 and tp in plan.continued
