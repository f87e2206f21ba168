"""What a gap proof starts from: what the ledger claims, what Kafka has, which rows there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from eo_listener.audit.intervals import Intervals
from eo_listener.model.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRange:
    """What a ledger says of one partition: all of `range` was applied.

    `topic_id` is that of the topic then, None where it is not known; `gaps` are offsets in it
    that were lost and accepted as lost. Below `known_from` it is not known whether all was applied:
    the ledger no longer says where the query began, and which gaps were accepted. `older` are the
    ranges that were applied of older topics of the same name, by their ids: their rows look like
    those of this one. `beside` are ranges that other queries have applied to the same table, one
    each; of what is in several a row does not say by which query it is.
    """

    range: OffsetRange
    topic_id: str | None = None
    gaps: tuple[OffsetRange, ...] = ()
    known_from: int = 0
    older: Mapping[str, OffsetRange] = field(default_factory=lambda: MappingProxyType({}))
    beside: tuple[OffsetRange, ...] = ()

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """What was applied of this topic, a range for each query."""
        return (self.range, *self.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """Kafka's side of one partition.

    `start` is the first offset that the log still has, `stable` where the first open transaction
    begins, `end` the next offset to be written. `compacted` and `transactional` (whether any
    producer of the topic is) are None where they are not known.
    """

    start: int
    stable: int
    end: int
    topic_id: str | None = None
    compacted: bool | None = None
    transactional: bool | None = None


class LogReader(Protocol):
    """Reads Kafka's logs; changes nothing. Raises KafkaError when they cannot be read."""

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """What there is of them; partitions that do not exist are left out."""
        ...

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        """The offsets of records that a consumer is shown there, others beside them too.

        With `committed` it is one that reads only what transactions have committed.
        """
        ...
