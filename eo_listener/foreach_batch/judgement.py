"""What a sink is to do with a batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.model.ledger import BatchVerdict, Entry, Move
from eo_listener.model.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a sink is to do with a batch.

    `verdict` is that of the whole: REPLAY when the sink has all of it, FIRST when none of its
    partitions was known. `entry` has no moves where nothing is to be written: after REPLAY, and
    for a batch without any partition. `replayed` are the ranges that the sink has already.
    """

    verdict: BatchVerdict
    entry: Entry
    replayed: Mapping[TopicPartition, OffsetRange]

    @property
    def gaps(self) -> dict[TopicPartition, OffsetRange]:
        """The offsets that are lost, and accepted as lost."""
        return {
            tp: move.gap
            for tp, move in self.entry.moves.items()
            if move.gap is not None and not _begins_late(move)
        }

    @property
    def skipped(self) -> dict[TopicPartition, OffsetRange]:
        """The offsets before a ledger that begins in mid-stream, by consent."""
        return {
            tp: move.gap
            for tp, move in self.entry.moves.items()
            if move.gap is not None and _begins_late(move)
        }


def _begins_late(move: Move) -> bool:
    return move.found is None and move.gap is not None and move.gap.start < move.range.start
