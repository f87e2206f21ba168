"""Offsets to commit to one group, and offsets that still wait for Kafka's answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from eo_listener.client_config.cluster import Cluster
from eo_listener.events import GuardViolation
from eo_listener.offsets import Offsets, Position, TopicPartition

GroupKeys = Collection[tuple[str, str]]
"""Groups as pairs of a cluster's name and the group's own name."""


class Waiting(NamedTuple):
    """An offset that Kafka has neither confirmed nor finally rejected."""

    cluster: str
    group: str
    tp: TopicPartition
    offset: int


class Beginning(NamedTuple):
    """The offset at which a query's checkpoint began to read a partition.

    `offset` is None for a partition that was added later: Spark reads it from the start of its log,
    and offset 0 was due. `event` reports the first batch that the run is known to have completed,
    and has no violations yet.
    """

    offset: int | None
    event: GuardViolation


Beginnings = Mapping[TopicPartition, Beginning]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """The positions to commit to one group of one cluster.

    `lossy` is True if, in any of the sources, Spark is set to skip records that Kafka has deleted
    (`failOnDataLoss=false`). `rivals` are the partitions that other live runs feed too; earlier
    commits to all other partitions come from this run, or from runs that have ended. `owner` is the
    id of the run, as in the metadata of commits, or, for `follow`, which sees no runs, the id of
    the query.
    """

    cluster: Cluster
    group: str
    positions: Mapping[TopicPartition, Position]
    owner: str = ""
    lossy: bool = False
    rivals: frozenset[TopicPartition] = frozenset()


def positions_by_topic(
    offsets: Offsets, metadata: str
) -> Mapping[str, Mapping[TopicPartition, Position]]:
    """Return the positions of each topic, since different topics may go to different groups."""
    topics: dict[str, dict[TopicPartition, Position]] = {}
    for tp, offset in offsets.items():
        topics.setdefault(tp.topic, {})[tp] = Position(offset=offset, metadata=metadata)
    return topics


def combine(parts: Iterable[GroupOffsets]) -> tuple[GroupOffsets, ...]:
    """Combine the `parts` of one run with the same group; return one part for each group.

    If two parts hold the same partition, the lower offset counts: only up to that offset has every
    source processed the partition.
    """
    lowest: dict[tuple[Cluster, str], dict[TopicPartition, Position]] = {}
    groups: dict[tuple[Cluster, str], GroupOffsets] = {}
    for part in parts:
        key = (part.cluster, part.group)
        positions = lowest.setdefault(key, {})
        for tp, position in part.positions.items():
            if tp not in positions or position.offset < positions[tp].offset:
                positions[tp] = position
        lossy = part.lossy or (key in groups and groups[key].lossy)
        groups[key] = replace(part, positions=positions, lossy=lossy)
    return tuple(groups.values())
