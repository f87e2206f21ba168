"""From a durable batch to what is committed for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.commit.tracking.routing import GroupOffsets
from eo_listener.follow.targets import FollowedCheckpoint
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.offsets import Offsets, Position, TopicPartition

RUN = "follow"  # stands where a run's id does: the sidecar sees no runs, and two of it are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """The commits of one batch, and the topics that no group is named for."""

    commits: tuple[GroupOffsets, ...]
    without_group: tuple[str, ...]


def plan(
    target: FollowedCheckpoint,
    query_id: str,
    batch: int,
    sources: Mapping[str, Offsets],
) -> CommitPlan:
    """Give each topic of the sources its group.

    Where two sources hold the same partition the lesser offset counts: only up to there has
    every part of the query come.
    """
    metadata = CommitMetadata.of(
        name=target.name, query_id=query_id, run_id=RUN, batch_id=batch
    ).text()
    groups: dict[str, dict[TopicPartition, Position]] = {}
    without: set[str] = set()
    for offsets in sources.values():
        for tp, offset in offsets.items():
            group = target.group(tp.topic)
            if group is None:
                without.add(tp.topic)
            else:
                positions = groups.setdefault(group, {})
                held = positions.get(tp)
                if held is None or offset < held.offset:
                    positions[tp] = Position(offset=offset, metadata=metadata)
    return CommitPlan(
        commits=tuple(
            GroupOffsets(cluster=target.cluster, group=group, positions=positions)
            for group, positions in groups.items()
        ),
        without_group=tuple(sorted(without)),
    )
