"""What is asked of a cluster for one group, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eo_listener.commit.groups.group_events import Positions
from eo_listener.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit request that is to be sent now."""

    group: str
    positions: Positions
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """One snapshot of a group that is to be read now, before anything is committed to it."""

    group: str
    partitions: tuple[TopicPartition, ...]
    started: float
