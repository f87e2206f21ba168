"""Plans of batches with made up offsets."""

from __future__ import annotations

from dataclasses import replace

from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch

EMPTY = PlannedBatch(
    query_id="q",
    run_id="r",
    query="flights",
    batch_id=0,
    sources={},
    topic_ids={},
    log_starts={},
    log_ends={},
)


def planned(*counts: int) -> PlannedBatch:
    """A batch with so many offsets in each of its partitions."""
    spans = {
        TopicPartition("flights", at): OffsetRange(7, 7 + count) for at, count in enumerate(counts)
    }
    return replace(EMPTY, sources={0: spans})
