"""What has happened so far, counted: events in, numbers out. Nothing of Prometheus.

Events come on the committer's threads, so each costs little and none raises; whoever wants the
numbers takes a copy and does the arithmetic on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from eo_listener.model.events import (
    BatchApplied,
    BatchFailed,
    BatchReplayed,
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    GuardViolation,
    InternalError,
    PartitionsShared,
    ProgressEventsMissed,
    QueryProgressed,
    QueryStateLost,
    RunGroupsChanged,
    SourceIgnored,
    TopicRecreated,
)
from eo_listener.observers.metrics.counts import (
    GroupCounts,
    GroupKey,
    Latency,
    Numbers,
    QueryCounts,
    RunCounts,
    SinkCounts,
)

OTHER = "(other)"  # stands for all groups, queries and errors beyond their limits
_ERRORS = 50  # classes of errors that fail a query's batches, a transform's own among them
_KEPT = 300.0  # seconds that a run's numbers outlive it: several scrapes, and its last commit

_INCIDENTS: dict[type[Event], str] = {
    ForeignCommit: "foreign_commit",
    GroupOffsetsMissing: "offsets_missing",
    TopicRecreated: "topic_recreated",
    CommitterFenced: "fenced",
    CommitAbandoned: "abandoned",
    PartitionsShared: "partitions_shared",
}
_OfGroup = (
    ForeignCommit
    | GroupOffsetsMissing
    | TopicRecreated
    | CommitterFenced
    | CommitAbandoned
    | PartitionsShared
)


_OfSinks = BatchApplied | BatchReplayed | BatchFailed | QueryStateLost


class EventCounters:
    """An observer that counts. Groups and queries beyond `limit` count together, as OTHER."""

    def __init__(
        self,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._limit = limit
        self._clock, self._wall = clock, wall
        self._lock = threading.Lock()
        self._groups: dict[GroupKey, GroupCounts] = {}
        self._queries: dict[str, QueryCounts] = {}
        self._runs: dict[str, RunCounts] = {}
        self._latencies: dict[str, Latency] = {}
        self._internal_errors = 0

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            match event:
                case Committed():
                    self._committed(event)
                case CommitFailed():
                    self._group(event.cluster, event.group).failures[event.code] += 1
                case CommitRefused():
                    refusals = self._group(event.cluster, event.group).refusals
                    refusals[event.refusal.name.lower()] += 1
                case QueryProgressed():
                    self._progressed(event)
                case RunGroupsChanged():
                    self._groups_changed(event)
                case InternalError():
                    self._internal_errors += 1
                case _:
                    self._seldom(event)

    def numbers(self) -> Numbers:
        """Take a copy of all that counts now."""
        with self._lock:
            self._sweep()
            runs = [run.copy() for run in self._runs.values()]
            return Numbers(
                groups={key: one.copy() for key, one in self._groups.items()},
                queries={name: one.copy() for name, one in self._queries.items()},
                runs=sorted(runs, key=lambda run: run.metrics.started or 0.0),
                latencies={cluster: one.copy() for cluster, one in self._latencies.items()},
                internal_errors=self._internal_errors,
            )

    def _committed(self, event: Committed) -> None:
        group = self._group(event.cluster, event.group)
        group.commits += 1
        group.last = self._wall()
        if (event.cluster, event.group) in self._groups:  # of all others there is no one offset
            group.held.update(event.offsets.items())
        if event.cluster in self._latencies or len(self._latencies) < self._limit:
            self._latencies.setdefault(event.cluster, Latency()).add(event.seconds)

    def _seldom(self, event: Event) -> None:
        match event:
            case GuardViolation():
                query = self._query(event.query)
                for violation in event.violations:
                    query.violations[violation.kind.name.lower()] += 1
                if event.withheld:
                    self._run(event.run_id, event.query).withheld.add(event.source)
            case ProgressEventsMissed():
                self._query(event.query).missed += 1
            case SourceIgnored() if event.misconfigured:
                self._query(event.query).ignored += 1
            case (
                ForeignCommit()
                | GroupOffsetsMissing()
                | TopicRecreated()
                | CommitterFenced()
                | CommitAbandoned()
                | PartitionsShared()
            ):
                self._incident(event)
            case BatchApplied() | BatchReplayed() | BatchFailed() | QueryStateLost():
                self._of_sinks(event)

    def _of_sinks(self, event: _OfSinks) -> None:
        query = self._query(event.query)
        sinks = query.sinks = query.sinks or SinkCounts()
        match event:
            case BatchApplied():
                self._applied(sinks, event)
            case BatchReplayed():
                sinks.replayed += 1
            case BatchFailed():
                known = event.error in sinks.batch_failures or len(sinks.batch_failures) < _ERRORS
                sinks.batch_failures[event.error if known else OTHER] += 1
            case QueryStateLost():
                sinks.state_lost += 1

    def _applied(self, sinks: SinkCounts, event: BatchApplied) -> None:
        sinks.applied += 1
        sinks.rows += event.rows or 0
        sinks.dead_letters += event.dead_letters or 0
        sinks.lost += sum(until - start for start, until in event.gaps.values())
        if event.query not in self._queries:  # of all others there is no one offset
            return
        if event.run_id != sinks.run_id:  # it may read other topics, and have other sinks
            sinks.run_id, sinks.held = event.run_id, {}
        held = sinks.held.setdefault(event.sink, {})
        held.update((tp, applied.until) for tp, applied in event.ranges.items())

    def _incident(self, event: _OfGroup) -> None:
        group = self._group(event.cluster, event.group)
        group.incidents[_INCIDENTS[type(event)]] += 1
        if isinstance(event, GroupOffsetsMissing):
            for tp in event.offsets:
                group.held.pop(tp, None)

    def _progressed(self, event: QueryProgressed) -> None:
        run = self._run(event.run_id, event.query)
        run.batch_id, run.metrics = event.batch_id, event.metrics
        for source in event.sources:
            run.progressed(source)

    def _groups_changed(self, event: RunGroupsChanged) -> None:
        if not event.ended:
            self._run(event.run_id, event.query).groups = event.groups
        elif event.run_id in self._runs:
            self._runs[event.run_id].ended = self._clock()
        self._sweep()

    def _sweep(self) -> None:
        """Drop what belongs to none but runs that are over for a while."""
        now = self._clock()
        over = [
            run_id
            for run_id, run in self._runs.items()
            if run.ended is not None and now - run.ended >= _KEPT
        ]
        gone = [self._runs.pop(run_id) for run_id in over]
        left = self._runs.values()
        for key in {key for run in gone for key in run.groups}:
            if not any(key in run.groups for run in left):
                self._groups.pop(key, None)
        for query in {run.query for run in gone} - {run.query for run in left}:
            self._queries.pop(query, None)

    def _group(self, cluster: str, name: str) -> GroupCounts:
        key = (cluster, name)
        if key not in self._groups and len(self._groups) >= self._limit:
            key = (OTHER, OTHER)
        return self._groups.setdefault(key, GroupCounts())

    def _query(self, name: str) -> QueryCounts:
        if name not in self._queries and len(self._queries) >= self._limit:
            name = OTHER
        return self._queries.setdefault(name, QueryCounts())

    def _run(self, run_id: str, query: str) -> RunCounts:
        """The run, created where there is room: else one that is not kept."""
        run = self._runs.get(run_id)
        if run is None:
            run = RunCounts(query)
            if len(self._runs) < self._limit:
                self._runs[run_id] = run
        return run
