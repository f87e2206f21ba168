"""One pass over a ledger's history, to find its beginning, accepted gaps and contradictions.

Reads only the batches that it is given, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from eo_listener.model.ledger import AppliedBatch, BatchVerdict, Head
from eo_listener.offsets import OffsetRange, TopicPartition

_UNKNOWN_END: Final = 2**63 - 1  # of an offset: Kafka's greatest


@dataclass(slots=True)
class OlderTopic:
    """The applied range of one partition of an older topic of the same name."""

    start: int = _UNKNOWN_END
    until: int = 0
    ends: bool = False

    def add(self, batch: AppliedBatch) -> None:
        """Extend the range by a batch."""
        self.start = min(self.start, _start(batch))
        self.until = max(self.until, batch.head.range.until)
        self.ends |= batch.verdict == BatchVerdict.NEXT.value  # not pruned, nor are later ones

    @property
    def range(self) -> OffsetRange:
        """The applied range, without an upper limit if the topic's last batches may be pruned."""
        return OffsetRange(self.start, self.until if self.ends else _UNKNOWN_END)


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """The result of `read_history`, by partition; a partition without a result is left out.

    `began` is the start of the first batch, `oldest` the start of the oldest batch in the history,
    which may be a later batch. `gaps` are the offsets accepted as lost. `missing` are offsets
    between two batches that no accepted gap explains, `repeated` are offsets that two batches have.
    `older` are older topics of the same name, by their ids.
    """

    began: dict[TopicPartition, int] = field(default_factory=dict)
    oldest: dict[TopicPartition, int] = field(default_factory=dict)
    gaps: dict[TopicPartition, list[OffsetRange]] = field(default_factory=dict)
    missing: dict[TopicPartition, list[OffsetRange]] = field(default_factory=dict)
    repeated: dict[TopicPartition, list[OffsetRange]] = field(default_factory=dict)
    older: dict[TopicPartition, dict[str, OlderTopic]] = field(default_factory=dict)


def read_history(
    batches: Iterable[AppliedBatch], heads: Mapping[TopicPartition, Head], *, newest: bool = False
) -> HistoryFacts:
    """Return the facts from a history; each partition's `batches` must be in order of offsets.

    Entries of earlier topics of the same name are in `older` only. A ledger deletes old batches,
    except each partition's first batch and the batches with a gap. The deleted batches count as
    applied. `newest` is True if the history has only the newest entries, so that even the first
    entry of a partition and entries with a gap may be missing. Memory grows with the results, not
    with the batches.
    """
    facts = HistoryFacts()
    last: dict[TopicPartition, AppliedBatch] = {}
    for batch in batches:
        tp = batch.partition
        if not _is_of(heads.get(tp), batch):
            older = facts.older.setdefault(tp, {})
            older.setdefault(str(batch.head.topic_id), OlderTopic()).add(batch)
            continue
        before = last.get(tp)
        if before is not None:
            _compare(facts, before, batch)
        else:
            facts.oldest[tp] = _start(batch)
            if _begins(batch, newest=newest):
                facts.began[tp] = _start(batch)
        if batch.gap is not None:
            facts.gaps.setdefault(tp, []).append(batch.gap)
        if before is None or batch.head.range.until >= before.head.range.until:
            last[tp] = batch
    for tp, batch in last.items():
        _compare_head(facts, batch, heads.get(tp))
    return facts


def _compare_head(facts: HistoryFacts, newest: AppliedBatch, head: Head | None) -> None:
    """Add the offsets between the end of a partition's history and its head to `missing`.

    The sink writes the head and the history in one transaction. But the audit reads the history
    later, so the history may be ahead of the head. If the last entry is one that sinks never prune,
    the sink may have pruned later entries, and the function adds nothing. A ledger in a topic has
    only entries that are never pruned.
    """
    reached = newest.head.range.until
    if head is not None and head.range.until > reached and not _is_kept(newest):
        facts.missing.setdefault(newest.partition, []).append(
            OffsetRange(reached, head.range.until)
        )


def _compare(facts: HistoryFacts, before: AppliedBatch, batch: AppliedBatch) -> None:
    tp, reached = batch.partition, before.head.range.until
    start, until = _start(batch), batch.head.range.until
    follows = (
        batch.head.query_id == before.head.query_id
        and batch.head.batch_id == before.head.batch_id + 1
    )
    if start > reached and (follows or not _is_kept(before)):
        facts.missing.setdefault(tp, []).append(OffsetRange(reached, start))
    elif start < min(reached, until):
        facts.repeated.setdefault(tp, []).append(OffsetRange(start, min(reached, until)))


def _start(batch: AppliedBatch) -> int:
    start = batch.head.range.start
    return start if batch.gap is None else min(start, batch.gap.start)


def _begins(batch: AppliedBatch, *, newest: bool) -> bool:
    """Return True if the history of a partition begins with `batch`."""
    skips = batch.gap is not None and not newest
    return skips or batch.verdict == BatchVerdict.FIRST.value


def _is_kept(batch: AppliedBatch) -> bool:
    """Return True if a sink never prunes `batch`; the batches right after it may be pruned."""
    return batch.gap is not None or batch.verdict != BatchVerdict.NEXT.value


def _is_of(head: Head | None, batch: AppliedBatch) -> bool:
    """Return True if `batch` and `head` have the same topic id, or if an id is unknown."""
    was, now = batch.head.topic_id, None if head is None else head.topic_id
    return was is None or now is None or was == now
