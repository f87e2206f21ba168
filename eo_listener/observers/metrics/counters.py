"""Counts events, and keeps the numbers of groups, queries and runs.

The committer's threads deliver the events, so counting an event must be cheap and must not raise. A
scrape takes a copy of the numbers, and computes on the copy.
"""

from __future__ import annotations

import copy
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from eo_listener import events
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.offsets import Offsets, TopicPartition

Labels = tuple[str, ...]
GroupKey = tuple[str, str]
"""A cluster and one of its groups."""

GROUP: Final = ("cluster", "consumergroup")
QUERY: Final = ("query",)
LATENCIES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LATENCY_BOUNDS: Final = (*map(str, LATENCIES), "+Inf")
_LOG_ENDS = 64  # log ends not reached yet; above this number, every second one is dropped


class Counted(Enum):
    """The counters: what each counts, and its labels, which begin with a group or a query."""

    COMMITS = ("Commit requests that the group coordinator confirmed.", GROUP)
    COMMIT_FAILURES = (
        "Commit requests that failed, by Kafka's error name; each is retried.",
        (*GROUP, "code"),
    )
    COMMIT_REFUSALS = ("Commits refused before sending, by reason.", (*GROUP, "reason"))
    GROUP_INCIDENTS = ("Other incidents of the group, by kind.", (*GROUP, "kind"))
    INTERNAL_ERRORS = ("Unexpected errors inside eo_listener; the log has each of them.", ())
    GUARD_VIOLATIONS = (
        "Partitions in which a batch did not continue where the batch before ended, by kind.",
        (*QUERY, "kind"),
    )
    PROGRESS_EVENT_GAPS = ("Times that progress events did not arrive.", QUERY)
    SOURCES_IGNORED = ("Sources that are not committed because of a wrong setting.", QUERY)
    SINK_BATCHES = (
        "Batches by outcome: applied, or replayed because the sink already had them.",
        (*QUERY, "outcome"),
    )
    SINK_BATCH_FAILURES = ("Batches that failed, by the class of the error.", (*QUERY, "error"))
    SINK_ROWS = ("Rows written to the sinks.", QUERY)
    SINK_DEAD_LETTERS = ("Rows written to dead-letter tables.", QUERY)
    SINK_ACCEPTED_GAP_OFFSETS = (
        'Offsets in gaps that on_gap="accept" accepted: their records are lost.',
        QUERY,
    )
    SINK_QUERY_STATES_LOST = (
        "Times that a stateful query started in a sink without its state.",
        QUERY,
    )

    def __init__(self, meaning: str, labels: Labels) -> None:
        self.meaning = meaning
        self.labels = labels

    @property
    def title(self) -> str:
        """The metric's name, without `_total`, which the library adds."""
        return f"eo_listener_{self.name.lower()}"


class TimeLag:
    """The time lag of a source in a run: an upper bound for the age of the oldest unread record.

    Once a batch has reached the log ends of an earlier batch, all records written before the
    earlier batch began are processed. `since` is the start of that earlier batch, or None until a
    batch has reached the first log ends.
    """

    def __init__(self) -> None:
        self._ahead: deque[tuple[float, Offsets]] = deque()
        self._newest: Offsets | None = None
        self.since: float | None = None

    def progressed(self, started: float, ends: Offsets, log_ends: Offsets) -> None:
        """Record a batch: the start time of its trigger, its end offsets, and the log ends."""
        # Equal log ends are not newer: Trigger.AvailableNow reads them once, at its start.
        if log_ends != self._newest:
            self._ahead.append((started, log_ends))
            self._newest = log_ends
        while self._ahead and _covers(ends, self._ahead[0][1]):
            self.since = self._ahead.popleft()[0]
        if len(self._ahead) > _LOG_ENDS:
            # Dropped entries make the bound coarser, never wrong.
            self._ahead = deque(list(self._ahead)[::2])

    def lag(self, now: float) -> float | None:
        """Return the lag in seconds: 0 if the newest batch read everything, None if unknown."""
        if not self._ahead:
            return None if self.since is None else 0.0
        return None if self.since is None else max(0.0, now - self.since)


def _covers(ends: Offsets, log_ends: Offsets) -> bool:
    return ends is log_ends or all(ends.get(tp, 0) >= end for tp, end in log_ends.items())


@dataclass(slots=True)
class Sinks:
    """The state of the sinks of one query."""

    run_id: str = ""
    applied: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """The next offset to apply, by sink label, in each partition of the run's applied batches."""
    errors: set[str] = field(default_factory=set)
    """The classes of errors that have a series of their own."""

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset to apply in each partition; if there are several sinks, the lowest."""
        least: dict[TopicPartition, int] = {}
        for offsets in self.applied.values():
            least |= {tp: min(offset, least.get(tp, offset)) for tp, offset in offsets.items()}
        return least


@dataclass(slots=True)
class Run:
    """One run of a query.

    An event replaces the values that a scrape reads and never changes them in place, so a shallow
    copy is a snapshot.
    """

    query: str
    batch_id: int | None = None
    metrics: BatchMetrics = field(default_factory=BatchMetrics)
    sources: dict[int, events.SourceProgressed] = field(default_factory=dict)
    time_lags: dict[int, TimeLag] = field(default_factory=dict)
    lags: dict[int, float] = field(default_factory=dict)
    """The time lag of each source, in seconds."""
    withheld: frozenset[int] = frozenset()
    ignored: frozenset[int | None] = frozenset()
    """The sources with a wrong setting; None stands for the query as a whole."""
    groups: frozenset[GroupKey] = frozenset()
    reported: float | None = None
    """The time of Spark's last event about the run, in seconds since the epoch."""
    ended: float | None = None
    """The time at which the run ended, on the monotonic clock."""

    @property
    def done(self) -> float | None:
        """The time at which the run's newest batch ended, in seconds since the epoch."""
        started, took = self.metrics.started, self.metrics.seconds
        return None if started is None or took is None else started + took

    def progressed(self, source: events.SourceProgressed) -> None:
        """Record a source's position.

        The run's `metrics` must already be those of the same batch.
        """
        self.sources = {**self.sources, source.source: source}
        started, done = self.metrics.started, self.done
        if source.log_ends is None or started is None or done is None:
            return
        time_lag = self.time_lags.setdefault(source.source, TimeLag())
        time_lag.progressed(started, source.ends, source.log_ends)
        lag = time_lag.lag(done)
        if lag is not None:
            self.lags = {**self.lags, source.source: lag}


@dataclass(slots=True)
class Numbers:
    """All numbers that a scrape reads; times are in seconds since the epoch."""

    started: float | None = None
    counts: dict[Counted, Counter[Labels]] = field(
        default_factory=lambda: {family: Counter() for family in Counted}
    )
    latencies: Counter[tuple[str, str]] = field(default_factory=Counter)  # by cluster and bound
    latency_seconds: dict[str, float] = field(default_factory=dict)
    group_offsets: dict[GroupKey, dict[TopicPartition, int]] = field(default_factory=dict)
    """The offsets that Kafka has confirmed to this process."""
    last_commits: dict[GroupKey, float] = field(default_factory=dict)
    last_moves: dict[GroupKey, float] = field(default_factory=dict)
    sinks: dict[str, Sinks] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def copy(self) -> Numbers:
        """Return a copy that no event changes, with runs in the order of their newest batches."""
        runs = sorted(self.runs.items(), key=lambda item: item[1].metrics.started or 0.0)
        return Numbers(
            started=self.started,
            counts={family: counted.copy() for family, counted in self.counts.items()},
            latencies=self.latencies.copy(),
            latency_seconds=dict(self.latency_seconds),
            group_offsets={key: dict(offsets) for key, offsets in self.group_offsets.items()},
            last_commits=dict(self.last_commits),
            last_moves=dict(self.last_moves),
            sinks={
                query: replace(s, applied={sink: dict(at) for sink, at in s.applied.items()})
                for query, s in self.sinks.items()
            },
            runs={run_id: copy.copy(run) for run_id, run in runs},
        )


OTHER = "(other)"  # stands for all groups, queries and errors beyond their limits
_ERRORS = 50  # classes of errors of a query's batches, including errors from a transform
_OUTLIVED = 300.0  # seconds to keep an ended run's numbers: several scrapes, and its last commit

_INCIDENTS: dict[type[events.Event], str] = {
    events.ForeignCommit: "foreign_commit",
    events.GroupOffsetsMissing: "offsets_missing",
    events.TopicRecreated: "topic_recreated",
    events.CommitterFenced: "fenced",
    events.CommitAbandoned: "abandoned",
    events.PartitionsShared: "partitions_shared",
}
_OF_SINKS = (
    Counted.SINK_ROWS,
    Counted.SINK_DEAD_LETTERS,
    Counted.SINK_ACCEPTED_GAP_OFFSETS,
    Counted.SINK_QUERY_STATES_LOST,
)


class EventCounters:
    """An observer that counts events. Groups and queries beyond `limit` count together as OTHER."""

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
        self._queries: set[str] = set()  # queries that have counters, with or without runs
        self._now = Numbers(started=wall())
        self._count(Counted.INTERNAL_ERRORS, times=0)

    def __call__(self, event: events.Event) -> None:
        """Count one event."""
        with self._lock:
            match event:
                case events.Committed():
                    self._committed(event)
                case events.QueryProgressed():
                    self._progressed(event)
                case events.QueryReported():
                    self._run(event.run_id, event.query).reported = self._wall()
                case events.OptionsRead():
                    self._run(event.run_id, event.query).ignored = frozenset()
                case events.RunGroupsChanged():
                    self._groups_changed(event)
                case events.GuardViolation():
                    self._violated(event)
                case events.BatchApplied():
                    self._applied(event)
                case events.BatchFailed():
                    self._failed(event)
                case events.InternalError():
                    self._count(Counted.INTERNAL_ERRORS)
                case _:
                    self._counted_only(event)

    def numbers(self) -> Numbers:
        """Return a copy of the current numbers."""
        with self._lock:
            self._sweep()
            return self._now.copy()

    def _counted_only(self, event: Any) -> None:
        kind = type(event)
        if kind in _INCIDENTS:
            group = self._group(event.cluster, event.group)
            self._count(Counted.GROUP_INCIDENTS, *group, _INCIDENTS[kind])
        match event:
            case events.CommitFailed():
                group = self._group(event.cluster, event.group)
                self._count(Counted.COMMIT_FAILURES, *group, event.code)
            case events.CommitRefused():
                group = self._group(event.cluster, event.group)
                self._count(Counted.COMMIT_REFUSALS, *group, event.refusal.name.lower())
            case events.GroupOffsetsMissing():
                offsets = self._now.group_offsets[self._group(event.cluster, event.group)]
                for tp in event.offsets:
                    offsets.pop(tp, None)
            case events.ProgressEventsMissed():
                self._count(Counted.PROGRESS_EVENT_GAPS, self._query(event.query))
            case events.SourceIgnored() if event.misconfigured:
                self._count(Counted.SOURCES_IGNORED, self._query(event.query))
                self._run(event.run_id, event.query).ignored |= {event.source}
            case events.BatchReplayed():
                self._count(Counted.SINK_BATCHES, self._query_of_sink(event.query), "replayed")
            case events.QueryStateLost():
                self._count(Counted.SINK_QUERY_STATES_LOST, self._query_of_sink(event.query))

    def _committed(self, event: events.Committed) -> None:
        group = self._group(event.cluster, event.group)
        self._count(Counted.COMMITS, *group)
        self._now.last_commits[group] = now = self._wall()
        offsets = self._now.group_offsets[group]
        # A commit that only keeps offsets from expiring has not moved them.
        if any(offsets.get(tp) != offset for tp, offset in event.offsets.items()):
            self._now.last_moves[group] = now
        if group == (event.cluster, event.group):  # OTHER has no offsets
            offsets.update(event.offsets.items())
        seconds = self._now.latency_seconds
        if event.cluster in seconds or len(seconds) < self._limit:
            seconds[event.cluster] = seconds.get(event.cluster, 0.0) + event.seconds
            bound = LATENCY_BOUNDS[bisect_left(LATENCIES, event.seconds)]
            self._now.latencies[event.cluster, bound] += 1

    def _progressed(self, event: events.QueryProgressed) -> None:
        run = self._run(event.run_id, event.query)
        run.batch_id, run.metrics = event.batch_id, event.metrics
        for source in event.sources:
            run.progressed(source)

    def _violated(self, event: events.GuardViolation) -> None:
        query = self._query(event.query)
        for violation in event.violations:
            self._count(Counted.GUARD_VIOLATIONS, query, violation.kind.name.lower())
        if event.withheld:
            self._run(event.run_id, event.query).withheld |= {event.source}

    def _applied(self, event: events.BatchApplied) -> None:
        query = self._query_of_sink(event.query)
        lost = sum(until - start for start, until in event.gaps.values())
        self._count(Counted.SINK_BATCHES, query, "applied")
        self._count(Counted.SINK_ROWS, query, times=event.rows or 0)
        self._count(Counted.SINK_DEAD_LETTERS, query, times=event.dead_letters or 0)
        self._count(Counted.SINK_ACCEPTED_GAP_OFFSETS, query, times=lost)
        if query != event.query:  # OTHER has no offsets
            return
        sinks = self._now.sinks[query]
        if event.run_id != sinks.run_id:  # the new run may have other topics and sinks
            sinks.run_id, sinks.applied = event.run_id, {}
        offsets = sinks.applied.setdefault(event.sink, {})
        offsets.update((tp, applied.until) for tp, applied in event.ranges.items())

    def _failed(self, event: events.BatchFailed) -> None:
        query = self._query_of_sink(event.query)
        errors = self._now.sinks[query].errors
        if len(errors) < _ERRORS:
            errors.add(event.error)
        error = event.error if event.error in errors else OTHER
        self._count(Counted.SINK_BATCH_FAILURES, query, error)

    def _groups_changed(self, event: events.RunGroupsChanged) -> None:
        if not event.ended:
            self._run(event.run_id, event.query).groups = event.groups
        elif event.run_id in self._now.runs:
            self._now.runs[event.run_id].ended = self._clock()
        self._sweep()

    def _sweep(self) -> None:
        """Drop the numbers that belong only to runs that ended at least `_OUTLIVED` seconds ago."""
        now, runs = self._clock(), self._now.runs
        over = [
            run_id
            for run_id, run in runs.items()
            if run.ended is not None and now - run.ended >= _OUTLIVED
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
            self._now.group_offsets.pop(group, None)
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
        """Return the labels of a group; create the counters of a new group, at 0."""
        key = (cluster, name)
        if key not in self._now.group_offsets and len(self._now.group_offsets) >= self._limit:
            key = (OTHER, OTHER)
        if key not in self._now.group_offsets:
            self._now.group_offsets[key] = {}
            self._count(Counted.COMMITS, *key, times=0)
        return key

    def _query(self, name: str) -> str:
        """Return the label of a query; create the counters of a new query, at 0."""
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
        """Return the run; create an unknown run, but do not keep it if it is beyond the limit."""
        run = self._now.runs.get(run_id)
        if run is None:
            run = Run(query)
            if len(self._now.runs) < self._limit:
                self._now.runs[run_id] = run
        return run
