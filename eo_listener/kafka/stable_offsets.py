"""Up to where consumers under `read_committed` may read, of many partitions.

A partition that cannot be asked for does not hold up the others: one without a leader is named as
that, and where one broker does not answer, each of the others is asked by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from eo_listener.kafka.logs import NO_LEADER
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition


class Ends(Protocol):
    """Where logs end; the methods of ClusterReader that are needed here."""

    def leaders(self, topics: Collection[str]) -> Mapping[TopicPartition, int]:
        """The broker that leads each partition."""

    def ranges(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetRange]:
        """From the last stable offset to the end of each log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StableOffsets:
    """From the last stable offset to the end of each partition; `errors` why one is not known.

    A partition that is gone is in neither.
    """

    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    errors: Mapping[TopicPartition, KafkaError] = field(default_factory=dict)

    @property
    def held(self) -> Mapping[TopicPartition, OffsetRange]:
        """Those whose last stable offset is not their end."""
        return {tp: one for tp, one in self.ranges.items() if one.start < one.until}


def stable_offsets(cluster: Ends, partitions: Collection[TopicPartition]) -> StableOffsets:
    """Read them. Raises KafkaError where no leader could be asked at all."""
    if not partitions:
        return StableOffsets()
    leaders = cluster.leaders({tp.topic for tp in partitions})
    of_broker: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        if tp in leaders:
            of_broker.setdefault(leaders[tp], []).append(tp)
    leaderless = {tp: _without_leader(tp) for tp in of_broker.pop(NO_LEADER, ())}
    try:
        ranges = cluster.ranges([tp for of_one in of_broker.values() for tp in of_one])
    except KafkaError:
        if len(of_broker) < 2:
            raise
        found = _one_by_one(cluster, list(of_broker.values()))
        return StableOffsets(ranges=found.ranges, errors={**leaderless, **found.errors})
    return StableOffsets(ranges=ranges, errors=leaderless)


def _one_by_one(cluster: Ends, parts: Collection[Collection[TopicPartition]]) -> StableOffsets:
    ranges: dict[TopicPartition, OffsetRange] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    answered = False
    for part in parts:
        try:
            ranges |= cluster.ranges(part)
            answered = True
        except KafkaError as error:
            errors |= dict.fromkeys(part, error)
    if not answered:
        raise next(iter(errors.values()))
    return StableOffsets(ranges=ranges, errors=errors)


def _without_leader(tp: TopicPartition) -> KafkaError:
    return KafkaError(
        f"partition {tp} has no leader",
        code="LEADER_NOT_AVAILABLE",
        cause="the brokers with its in-sync replicas are down",
        fix="Start them",
    )
