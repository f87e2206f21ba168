"""Counts events: events in, numbers out.

Events come on the committer's threads, so counting one must be cheap and must not raise. A scrape
takes a copy of the numbers, and does its arithmetic on that.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable

from eo_listener.events import (
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
    QueryReported,
    QueryStateLost,
    RunGroupsChanged,
    SourceIgnored,
    TopicRecreated,
)
from eo_listener.observers.metrics.counts import (
    GROUP,
    LATENCIES,
    LATENCY_BOUNDS,
    Counted,
    GroupKey,
    Numbers,
    Run,
    Sinks,
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
_OF_SINKS = (
    Counted.SINK_ROWS,
    Counted.SINK_DEAD_LETTERS,
    Counted.SINK_ACCEPTED_GAP_OFFSETS,
    Counted.SINK_QUERY_STATES_LOST,
)


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
        self._queries: set[str] = set()  # those with counters, whether they have runs or not
        self._now = Numbers(started=wall())
        self._count(Counted.INTERNAL_ERRORS, times=0)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            match event:
                case Committed():
                    self._committed(event)
                case QueryProgressed():
                    self._progressed(event)
                case QueryReported():
                    self._run(event.run_id, event.query).reported = self._wall()
                case RunGroupsChanged():
                    self._groups_changed(event)
                case GuardViolation():
                    self._violated(event)
                case BatchApplied():
                    self._applied(event)
                case BatchFailed():
                    self._failed(event)
                case InternalError():
                    self._count(Counted.INTERNAL_ERRORS)
                case _:
                    self._counted_only(event)

    def numbers(self) -> Numbers:
        """Take a copy of all that counts now."""
        with self._lock:
            self._sweep()
            return self._now.copy()

    def _counted_only(self, event: Event) -> None:
        match event:
            case CommitFailed():
                group = self._group(event.cluster, event.group)
                self._count(Counted.COMMIT_FAILURES, *group, event.code)
            case CommitRefused():
                group = self._group(event.cluster, event.group)
                self._count(Counted.COMMIT_REFUSALS, *group, event.refusal.name.lower())
            case (
                ForeignCommit()
                | GroupOffsetsMissing()
                | TopicRecreated()
                | CommitterFenced()
                | CommitAbandoned()
                | PartitionsShared()
            ):
                group = self._group(event.cluster, event.group)
                self._count(Counted.GROUP_INCIDENTS, *group, _INCIDENTS[type(event)])
                if isinstance(event, GroupOffsetsMissing):
                    for tp in event.offsets:
                        self._now.held[group].pop(tp, None)
            case ProgressEventsMissed():
                self._count(Counted.PROGRESS_EVENT_GAPS, self._query(event.query))
            case SourceIgnored() if event.misconfigured:
                self._count(Counted.SOURCES_IGNORED, self._query(event.query))
                self._run(event.run_id, event.query).ignored |= {event.source}
            case BatchReplayed():
                self._count(Counted.SINK_BATCHES, self._query_of_sink(event.query), "replayed")
            case QueryStateLost():
                self._count(Counted.SINK_QUERY_STATES_LOST, self._query_of_sink(event.query))

    def _committed(self, event: Committed) -> None:
        group = self._group(event.cluster, event.group)
        self._count(Counted.COMMITS, *group)
        self._now.last_commits[group] = now = self._wall()
        held, ours = self._now.held[group], event.offsets
        # A commit that only keeps offsets from expiring has not moved them.
        if any(held.get(tp) != offset for tp, offset in ours.items()):
            self._now.last_moves[group] = now
        if group == (event.cluster, event.group):  # of all others there is no one offset
            held.update(ours.items())
        seconds = self._now.latency_seconds
        if event.cluster in seconds or len(seconds) < self._limit:
            seconds[event.cluster] = seconds.get(event.cluster, 0.0) + event.seconds
            bound = LATENCY_BOUNDS[bisect_left(LATENCIES, event.seconds)]
            self._now.latencies[event.cluster, bound] += 1

    def _progressed(self, event: QueryProgressed) -> None:
        run = self._run(event.run_id, event.query)
        run.batch_id, run.metrics = event.batch_id, event.metrics
        for source in event.sources:
            run.progressed(source)

    def _violated(self, event: GuardViolation) -> None:
        query = self._query(event.query)
        for violation in event.violations:
            self._count(Counted.GUARD_VIOLATIONS, query, violation.kind.name.lower())
        if event.withheld:
            self._run(event.run_id, event.query).withheld |= {event.source}

    def _applied(self, event: BatchApplied) -> None:
        query = self._query_of_sink(event.query)
        lost = sum(until - start for start, until in event.gaps.values())
        self._count(Counted.SINK_BATCHES, query, "applied")
        self._count(Counted.SINK_ROWS, query, times=event.rows or 0)
        self._count(Counted.SINK_DEAD_LETTERS, query, times=event.dead_letters or 0)
        self._count(Counted.SINK_ACCEPTED_GAP_OFFSETS, query, times=lost)
        if query != event.query:  # of all others there is no one offset
            return
        sinks = self._now.sinks[query]
        if event.run_id != sinks.run_id:  # it may read other topics, and have other sinks
            sinks.run_id, sinks.held = event.run_id, {}
        held = sinks.held.setdefault(event.sink, {})
        held.update((tp, applied.until) for tp, applied in event.ranges.items())

    def _failed(self, event: BatchFailed) -> None:
        query = self._query_of_sink(event.query)
        errors = self._now.sinks[query].errors
        if len(errors) < _ERRORS:
            errors.add(event.error)
        error = event.error if event.error in errors else OTHER
        self._count(Counted.SINK_BATCH_FAILURES, query, error)

    def _groups_changed(self, event: RunGroupsChanged) -> None:
        if not event.ended:
            self._run(event.run_id, event.query).groups = event.groups
        elif event.run_id in self._now.runs:
            self._now.runs[event.run_id].ended = self._clock()
        self._sweep()

    def _sweep(self) -> None:
        """Drop what belongs to none but runs that are over for a while."""
        now, runs = self._clock(), self._now.runs
        over = [
            run_id
            for run_id, run in runs.items()
            if run.ended is not None and now - run.ended >= _KEPT
        ]
        if not over:
            return
        gone = [runs.pop(run_id) for run_id in over]
        groups = {key for run in gone for key in run.groups}.difference(
            *(run.groups for run in runs.values())
        )
        queries = {run.query for run in gone} - {run.query for run in runs.values()}
        self._queries -= queries
        for group in groups:
            self._now.held.pop(group, None)
            self._now.last_commits.pop(group, None)
            self._now.last_moves.pop(group, None)
        for query in queries:
            self._now.sinks.pop(query, None)
        of_queries = {(query,) for query in queries}
        for family, counted in self._now.counts.items():
            first, ended = (2, groups) if family.labels[:2] == GROUP else (1, of_queries)
            for labels in [labels for labels in counted if labels[:first] in ended]:
                del counted[labels]

    def _count(self, family: Counted, *labels: str, times: int = 1) -> None:
        self._now.counts[family][labels] += times

    def _group(self, cluster: str, name: str) -> GroupKey:
        """The labels to count under; the first time the group has its counter, at 0."""
        key = (cluster, name)
        if key not in self._now.held and len(self._now.held) >= self._limit:
            key = (OTHER, OTHER)
        if key not in self._now.held:
            self._now.held[key] = {}
            self._count(Counted.COMMITS, *key, times=0)
        return key

    def _query(self, name: str) -> str:
        """The label to count under; the first time the query has its counters, at 0."""
        if name not in self._queries and len(self._queries) >= self._limit:
            name = OTHER
        if name not in self._queries:
            self._queries.add(name)
            for family in (Counted.PROGRESS_EVENT_GAPS, Counted.SOURCES_IGNORED):
                self._count(family, name, times=0)
        return name

    def _query_of_sink(self, name: str) -> str:
        query = self._query(name)
        if query not in self._now.sinks:
            self._now.sinks[query] = Sinks()
            for outcome in ("applied", "replayed"):
                self._count(Counted.SINK_BATCHES, query, outcome, times=0)
            for family in _OF_SINKS:
                self._count(family, query, times=0)
        return query

    def _run(self, run_id: str, query: str) -> Run:
        """The run, created if there is room: otherwise one that is not kept."""
        run = self._now.runs.get(run_id)
        if run is None:
            run = Run(query)
            if len(self._now.runs) < self._limit:
                self._now.runs[run_id] = run
        return run
