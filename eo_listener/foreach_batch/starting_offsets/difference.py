"""Two origins side by side, partition by partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.foreach_batch.starting_offsets.resolve import Origin
from eo_listener.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDifference:
    """What both have of one partition, None where one has nothing.

    `topic_ids`: both know the topic's id, and it is not the same, so the offsets do not compare.
    """

    partition: TopicPartition
    first: int | None
    second: int | None
    topic_ids: tuple[str, str] | None = None

    @property
    def ahead(self) -> int | None:
        """By how many offsets the first is ahead; None where that cannot be said."""
        if self.first is None or self.second is None or self.topic_ids is not None:
            return None
        return self.first - self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """All partitions of two origins, in order."""

    rows: tuple[PartitionDifference, ...]

    @property
    def unequal(self) -> tuple[PartitionDifference, ...]:
        """Those in which the two do not agree."""
        return tuple(row for row in self.rows if row.ahead != 0)

    def verdict(self) -> str:
        """What the whole comes to, in a few words: `equal`, or who is ahead."""
        known = [row.ahead for row in self.rows if row.ahead is not None]
        if len(known) < len(self.rows):
            return "not comparable everywhere"
        if not any(known):
            return "equal"
        if all(ahead >= 0 for ahead in known):
            return "the first is ahead"
        if all(ahead <= 0 for ahead in known):
            return "the second is ahead"
        return "each is ahead somewhere"


def compare_origins(first: Origin, second: Origin) -> Difference:
    """Put two origins side by side."""
    return Difference(
        rows=tuple(
            PartitionDifference(
                partition=tp,
                first=first.offsets.get(tp),
                second=second.offsets.get(tp),
                topic_ids=_two_topics(first.topic_ids, second.topic_ids, tp),
            )
            for tp in sorted(first.offsets.keys() | second.offsets.keys())
        )
    )


def _two_topics(
    first: Mapping[TopicPartition, str], second: Mapping[TopicPartition, str], tp: TopicPartition
) -> tuple[str, str] | None:
    one, other = first.get(tp), second.get(tp)
    return None if one is None or other is None or one == other else (one, other)
