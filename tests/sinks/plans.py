"""Plans of batches with made up offsets."""

from __future__ import annotations

from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import entry_of, plan_of


def planned(*counts: int) -> PlannedBatch:
    """A batch with so many offsets in each of its partitions."""
    spans = {
        TopicPartition("flights", at): OffsetRange(7, 7 + count) for at, count in enumerate(counts)
    }
    return plan_of(entry_of({}, spans))
