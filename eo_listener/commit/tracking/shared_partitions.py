"""Tracks partitions of a group that several runs feed. The lowest offset of the runs counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.events import PartitionsShared
from eo_listener.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class _RunOffsets:
    """The position of one run in one group."""

    query: str
    commit: GroupOffsets


class SharedPartitions:
    """The positions of all live runs, by group. Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Cluster, str], dict[str, _RunOffsets]] = {}
        self._reported: set[tuple[Cluster, str]] = set()

    def lowest(
        self, run_id: str, query: str, commit: GroupOffsets
    ) -> tuple[GroupOffsets, PartitionsShared | None]:
        """Record a run's offsets; return the offsets to commit, and an event about new sharing."""
        key = (commit.cluster, commit.group)
        runs = self._groups.setdefault(key, {})
        runs[run_id] = _RunOffsets(query, commit)
        if len(runs) == 1:
            return commit, None
        rivals = [run.commit.positions for owner, run in runs.items() if owner != run_id]
        shared = {tp for positions in rivals for tp in positions} & commit.positions.keys()
        if not shared:
            return commit, None
        lowest = dict(commit.positions)
        for tp in shared:
            slower = [positions[tp] for positions in rivals if tp in positions]
            lowest[tp] = min([lowest[tp], *slower], key=lambda position: position.offset)
        held_up = replace(commit, positions=lowest, rivals=frozenset(shared))
        return held_up, self._once(key, commit, shared)

    def feeds(self, run_id: str, commit: GroupOffsets) -> bool:
        """Return True if the run has already offered offsets to the group of `commit`."""
        return run_id in self._groups.get((commit.cluster, commit.group), {})

    @property
    def clusters(self) -> frozenset[Cluster]:
        """The clusters that live runs feed."""
        return frozenset(cluster for cluster, _ in self._groups)

    def rivals(self, run_id: str, commit: GroupOffsets) -> tuple[str, ...]:
        """Return the ids of the other runs that feed a partition of `commit` to the same group."""
        runs = self._groups.get((commit.cluster, commit.group), {})
        return tuple(
            rival
            for rival, run in runs.items()
            if rival != run_id and run.commit.positions.keys() & commit.positions.keys()
        )

    @property
    def holds_up(self) -> bool:
        """True if a run is ahead of another run in a partition that both feed to one group."""
        return any(
            self.lowest(owner, run.query, run.commit)[0].positions != run.commit.positions
            for runs in self._groups.values()
            for owner, run in runs.items()
        )

    def _once(
        self, key: tuple[Cluster, str], commit: GroupOffsets, shared: set[TopicPartition]
    ) -> PartitionsShared | None:
        if key in self._reported:
            return None
        self._reported.add(key)
        return PartitionsShared(
            cluster=str(commit.cluster),
            group=commit.group,
            partitions=tuple(sorted(shared)),
            readers=tuple(sorted(run.query for run in self._groups[key].values())),
        )

    def drop(self, run_id: str) -> tuple[GroupOffsets, ...]:
        """Forget an ended run; return the offsets of the runs that it held up."""
        freed: list[GroupOffsets] = []
        for key, runs in list(self._groups.items()):
            dropped = runs.pop(run_id, None)
            if not runs:
                del self._groups[key]
                self._reported.discard(key)
            elif dropped is not None:
                positions = dropped.commit.positions.keys()
                for owner, run in tuple(runs.items()):
                    if positions & run.commit.positions.keys():
                        freed.append(self.lowest(owner, run.query, run.commit)[0])
        return tuple(freed)
