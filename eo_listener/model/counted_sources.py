"""Sources that are not Kafka: the guard cannot read their offsets, so it counts their batches.

For such a source, eo_listener relies on Spark's guarantee: under one checkpoint, a batch that runs
again has the same records. So all such sources of a query count as one partition, whose offsets are
the numbers of the checkpoint's batches. Each batch has one such offset, even without new records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eo_listener.offsets import TopicPartition

BATCHES: Final = TopicPartition("checkpoint:batches", 0)
"""The partition of all counted sources.

Kafka has no such topic: topic names consist of letters, digits, `.`, `_`, `-`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSources:
    """The sources of a batch that are not Kafka: their indices, and the batch's plan ids.

    A plan id distinguishes two plans of a batch with the same number: `plan_id` is the plan id of
    this batch, `before` the plan id of the previous batch in the checkpoint, or None for the first
    batch.
    """

    indices: tuple[int, ...]
    plan_id: str
    before: str | None
