"""Sources that are not Kafka: their offsets say nothing to us, so their batches are counted.

All that is known about such a source is what Spark promises: under one checkpoint a batch that is
run again has the same records. So all such sources of a query are one partition, whose offsets are
the numbers of the checkpoint's batches. Each batch has one of them, even if there was nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eo_listener.offsets import TopicPartition

BATCHES: Final = TopicPartition("checkpoint:batches", 0)
"""That partition. Kafka has no such topic: its names consist of letters, digits, `.`, `_`, `-`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSources:
    """The sources of a batch that are not Kafka, by their indices.

    A plan id tells a plan of a batch from any other one of the same number: `plan_id` is that of
    the batch itself, `before` that of the batch before it in the checkpoint, None for the first.
    """

    indices: tuple[int, ...]
    plan_id: str
    before: str | None
