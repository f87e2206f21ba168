"""What is to be committed to one group, and what of it still waits for Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eo_listener.client_config.cluster import Cluster
from eo_listener.model.offsets import Position, TopicPartition

GroupKeys = Collection[tuple[str, str]]
"""Groups, each by the name of its cluster and its own."""


class Waiting(NamedTuple):
    """An offset that Kafka has neither confirmed nor refused."""

    cluster: str
    group: str
    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Positions that are to be committed to one group of one cluster.

    `lossy` says that Spark is set to skip records that Kafka has deleted, in any of the
    sources (`failOnDataLoss=false`). `rivals` are the partitions that other live runs feed too:
    what was committed to the rest before is of runs that are over, or of this one.
    """

    cluster: Cluster
    group: str
    positions: Mapping[TopicPartition, Position]
    lossy: bool = False
    rivals: frozenset[TopicPartition] = frozenset()
