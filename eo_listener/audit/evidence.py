"""The input of a gap proof: claims of the ledger, contents of Kafka, rows of the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from eo_listener.audit.intervals import Intervals
from eo_listener.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRange:
    """A ledger's claim about one partition: all of `range` was applied.

    `topic_id` is the topic's id when the range was applied, or None if unknown; `gaps` are offsets
    in `range` that were lost and accepted as lost. Below `known_from` it is unknown whether
    everything was applied: the ledger no longer records where the query began and which gaps were
    accepted. `older` are the ranges applied from older topics of the same name, by their ids: their
    rows look like those of this topic. `beside` are the ranges that other queries have applied to
    the same table, one range for each query. If an offset is in several ranges, its row does not
    show which query wrote it.
    """

    range: OffsetRange
    topic_id: str | None = None
    gaps: tuple[OffsetRange, ...] = ()
    known_from: int = 0
    older: Mapping[str, OffsetRange] = field(default_factory=lambda: MappingProxyType({}))
    beside: tuple[OffsetRange, ...] = ()

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The applied ranges of this topic, one for each query."""
        return (self.range, *self.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts about one partition's log in Kafka.

    `start` is the first offset that the log still has, `stable` is the start of the first open
    transaction (`end` if there is none), and `end` is the next offset to be written.
    `transactional` is True if any producer of the topic is transactional. `compacted` and
    `transactional` are None if unknown.
    """

    start: int
    stable: int
    end: int
    topic_id: str | None = None
    compacted: bool | None = None
    transactional: bool | None = None


class LogReader(Protocol):
    """Reads Kafka's logs; changes nothing. Raises KafkaError if they cannot be read."""

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """Return the facts about the partitions' logs, without partitions that do not exist."""
        ...

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        """Return the offsets of the records in `ranges`, and possibly of some other records.

        With `committed`, the method leaves out records of aborted and open transactions.
        """
        ...
