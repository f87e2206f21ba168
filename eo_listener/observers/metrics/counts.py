"""The numbers that `EventCounters` keeps of groups, queries and runs, and the counters' names."""

from __future__ import annotations

import copy
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from eo_listener.events import SourceProgressed
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.offsets import Offsets, TopicPartition

Labels = tuple[str, ...]
GroupKey = tuple[str, str]
"""Cluster and group."""

GROUP: Final = ("cluster", "consumergroup")
LATENCIES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LATENCY_BOUNDS: Final = (*map(str, LATENCIES), "+Inf")
_KEPT = 64  # log ends that are not reached yet; of more, every other is dropped


class Counted(Enum):
    """The counters; the labels begin with the group, or with the query, that has the series."""

    COMMITS = ("commits", "Commit requests that the group coordinator confirmed.", GROUP)
    COMMIT_FAILURES = (
        "commit_failures",
        "Commit requests that failed, by Kafka's error name; each is retried.",
        (*GROUP, "code"),
    )
    COMMIT_REFUSALS = (
        "commit_refusals",
        "Commits refused before sending, by reason.",
        (*GROUP, "reason"),
    )
    GROUP_INCIDENTS = (
        "group_incidents",
        "Other incidents of the group, by kind.",
        (*GROUP, "kind"),
    )
    INTERNAL_ERRORS = (
        "internal_errors",
        "Unexpected errors inside eo_listener; the log has each of them.",
        (),
    )
    GUARD_VIOLATIONS = (
        "guard_violations",
        "Partitions in which a batch did not continue where the batch before ended, by kind.",
        ("query", "kind"),
    )
    PROGRESS_EVENT_GAPS = (
        "progress_event_gaps",
        "Times that progress events did not arrive.",
        ("query",),
    )
    SOURCES_IGNORED = (
        "sources_ignored",
        "Sources that are not committed because of a wrong setting.",
        ("query",),
    )
    SINK_BATCHES = (
        "sink_batches",
        "Batches by outcome: applied, or replayed because the sink already had them.",
        ("query", "outcome"),
    )
    SINK_BATCH_FAILURES = (
        "sink_batch_failures",
        "Batches that failed, by the class of the error.",
        ("query", "error"),
    )
    SINK_ROWS = ("sink_rows", "Rows written to the sinks.", ("query",))
    SINK_DEAD_LETTERS = (
        "sink_dead_letters",
        "Rows written to dead-letter tables.",
        ("query",),
    )
    SINK_ACCEPTED_GAP_OFFSETS = (
        "sink_accepted_gap_offsets",
        'Offsets in gaps that on_gap="accept" accepted: their records are lost.',
        ("query",),
    )
    SINK_QUERY_STATES_LOST = (
        "sink_query_states_lost",
        "Times that a stateful query started in a sink without its state.",
        ("query",),
    )

    def __init__(self, title: str, meaning: str, labels: Labels) -> None:
        self.title = f"eo_listener_{title}"  # without `_total`, which the library adds
        self.meaning = meaning
        self.labels = labels


class TimeLag:
    """Lag as a time, of one source of one run: an upper bound of the oldest unread record's age.

    Once a batch has ended beyond the log ends of an earlier one, all that was written before that
    one began is processed: `since` is its start, None until the first log ends are reached.
    """

    def __init__(self) -> None:
        self._ahead: deque[tuple[float, Offsets]] = deque()
        self._newest: Offsets | None = None
        self.since: float | None = None

    def progressed(self, started: float, ends: Offsets, log_ends: Offsets) -> None:
        """Record a batch: when its trigger began, where it ended, and where its logs ended."""
        # The same ends again are not newer: Trigger.AvailableNow reads them once, at its start.
        if log_ends != self._newest:
            self._ahead.append((started, log_ends))
            self._newest = log_ends
        while self._ahead and _covers(ends, self._ahead[0][1]):
            self.since = self._ahead.popleft()[0]
        if len(self._ahead) > _KEPT:
            # Dropped entries make the bound coarser, never wrong.
            self._ahead = deque(list(self._ahead)[::2])

    def lag(self, now: float) -> float | None:
        """Seconds; 0 when the newest batch took all there was, None when nothing is known."""
        if not self._ahead:
            return None if self.since is None else 0.0
        return None if self.since is None else max(0.0, now - self.since)


def _covers(ends: Offsets, log_ends: Offsets) -> bool:
    return ends is log_ends or all(ends.get(tp, 0) >= end for tp, end in log_ends.items())


@dataclass(slots=True)
class Sinks:
    """The contents of the ledgers of a query's sinks, by the sink's label, as far as `run_id` moved
    them.

    `errors` are the classes of errors that have a series of their own.
    """

    run_id: str = ""
    held: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    errors: set[str] = field(default_factory=set)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset to apply by partition; of several sinks the lowest."""
        least: dict[TopicPartition, int] = {}
        for offsets in self.held.values():
            least |= {tp: min(offset, least.get(tp, offset)) for tp, offset in offsets.items()}
        return least


@dataclass(slots=True)
class Run:
    """One run. `lags` are seconds by source; `ended` is on the monotonic clock, None before.
    `ignored` are sources with a wrong setting, None for the query as a whole.

    `reported` is when Spark has sent something of it last, in seconds since the epoch.

    Values that a scrape reads are replaced, never changed, so that a shallow copy is a snapshot.
    """

    query: str
    batch_id: int | None = None
    metrics: BatchMetrics = field(default_factory=BatchMetrics)
    sources: dict[int, SourceProgressed] = field(default_factory=dict)
    time_lags: dict[int, TimeLag] = field(default_factory=dict)
    lags: dict[int, float] = field(default_factory=dict)
    withheld: frozenset[int] = frozenset()
    ignored: frozenset[int | None] = frozenset()
    groups: frozenset[GroupKey] = frozenset()
    reported: float | None = None
    ended: float | None = None

    @property
    def done(self) -> float | None:
        """When its newest batch was done, in seconds since the epoch."""
        started, took = self.metrics.started, self.metrics.seconds
        return None if started is None or took is None else started + took

    def progressed(self, source: SourceProgressed) -> None:
        """Record the position of a source; `metrics` already belong to its batch."""
        self.sources = {**self.sources, source.source: source}
        started, done = self.metrics.started, self.done
        if source.log_ends is None or started is None or done is None:
            return
        known = self.time_lags.setdefault(source.source, TimeLag())
        known.progressed(started, source.ends, source.log_ends)
        lag = known.lag(done)
        if lag is not None:
            self.lags = {**self.lags, source.source: lag}


@dataclass(slots=True)
class Numbers:
    """All numbers. `held`: offsets confirmed to us; times are seconds since the epoch."""

    started: float | None = None

    counts: dict[Counted, Counter[Labels]] = field(
        default_factory=lambda: {family: Counter() for family in Counted}
    )
    latencies: Counter[tuple[str, str]] = field(default_factory=Counter)  # by cluster and bound
    latency_seconds: dict[str, float] = field(default_factory=dict)
    held: dict[GroupKey, dict[TopicPartition, int]] = field(default_factory=dict)
    last_commits: dict[GroupKey, float] = field(default_factory=dict)
    last_moves: dict[GroupKey, float] = field(default_factory=dict)
    sinks: dict[str, Sinks] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def copy(self) -> Numbers:
        """A copy that later events do not change; runs in the order their newest batches began."""
        runs = sorted(self.runs.items(), key=lambda item: item[1].metrics.started or 0.0)
        return Numbers(
            started=self.started,
            counts={family: counted.copy() for family, counted in self.counts.items()},
            latencies=self.latencies.copy(),
            latency_seconds=dict(self.latency_seconds),
            held={key: dict(offsets) for key, offsets in self.held.items()},
            last_commits=dict(self.last_commits),
            last_moves=dict(self.last_moves),
            sinks={
                query: replace(one, held={sink: dict(at) for sink, at in one.held.items()})
                for query, one in self.sinks.items()
            },
            runs={run_id: copy.copy(run) for run_id, run in runs},
        )
