"""What runs are told to observers as: how far each is, and which groups it feeds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from eo_listener.commit.tracking.routing import GroupOffsets, GroupRouting
from eo_listener.model.events import QueryProgressed, RunGroupsChanged, SourceProgressed
from eo_listener.model.offsets import Offsets
from eo_listener.model.progress import Progress, SourceProgress

Options = Mapping[int, Mapping[str, str]] | None


class RunReporter:
    """Builds these events, and keeps of each run what it takes to. For one thread."""

    def __init__(self, rules: GroupRouting) -> None:
        self._rules = rules
        self._clusters: dict[tuple[str, int], str] = {}
        self._fed: dict[str, frozenset[tuple[str, str]]] = {}

    def progressed(self, progress: Progress, options: Options) -> QueryProgressed:
        """Say how far a run is, withheld sources included."""
        sources = (
            SourceProgressed(
                source=source.index,
                cluster=self._cluster(progress, source, options),
                ends=source.end,
                log_ends=source.log_ends,
            )
            for source in progress.sources
            if source.end is not None
        )
        return QueryProgressed(
            query=progress.query,
            run_id=progress.run_id,
            batch_id=progress.batch_id,
            metrics=progress.metrics,
            sources=tuple(sources),
        )

    def fed(
        self, query: str, run_id: str, commits: Iterable[GroupOffsets]
    ) -> RunGroupsChanged | None:
        """Say it when these commits go to a group that the run has not fed before."""
        known = self._fed.get(run_id, frozenset())
        groups = known.union((str(commit.cluster), commit.group) for commit in commits)
        if groups == known:
            return None
        self._fed[run_id] = groups
        return RunGroupsChanged(query=query, run_id=run_id, groups=groups, ended=False)

    def ended(self, query: str, run_id: str) -> RunGroupsChanged:
        """Say that a run is over, and forget it."""
        self._clusters = {key: one for key, one in self._clusters.items() if key[0] != run_id}
        groups = self._fed.pop(run_id, frozenset())
        return RunGroupsChanged(query=query, run_id=run_id, groups=groups, ended=True)

    def _cluster(self, progress: Progress, source: SourceProgress, options: Options) -> str | None:
        """Where a source's groups are; None while none of its topics has one."""
        key = (progress.run_id, source.index)
        if key not in self._clusters:
            topics = {tp.topic: (tp, offset) for tp, offset in (source.end or {}).items()}
            sample = replace(source, end=Offsets(dict(topics.values())))  # routing is by topic
            route = self._rules.route(replace(progress, sources=(sample,)), options)
            if not route.commits:
                return None
            self._clusters[key] = str(route.commits[0].cluster)
        return self._clusters[key]
