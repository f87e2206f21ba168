"""The numbers that are kept of groups, queries and runs: as `EventCounters` counts them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eo_listener.model.events import BatchMetrics, SourceProgressed
from eo_listener.model.offsets import Offsets, TopicPartition

_KEPT = 64  # log ends that are not reached yet; of more, every other is dropped


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
        """Take in a batch: when its trigger began, where it ended, and where its logs did."""
        # The same ends again are not newer: Trigger.AvailableNow reads them once, at its start.
        if log_ends != self._newest:
            self._ahead.append((started, log_ends))
            self._newest = log_ends
        while self._ahead and _covers(ends, self._ahead[0][1]):
            self.since = self._ahead.popleft()[0]
        if len(self._ahead) > _KEPT:
            # What is dropped makes the bound coarser, never wrong.
            self._ahead = deque(list(self._ahead)[::2])

    def lag(self, now: float) -> float | None:
        """Seconds; 0 when the newest batch took all there was, None when nothing is known."""
        if not self._ahead:
            return None if self.since is None else 0.0
        return None if self.since is None else max(0.0, now - self.since)


def _covers(ends: Offsets, log_ends: Offsets) -> bool:
    return ends is log_ends or all(ends.get(tp, 0) >= end for tp, end in log_ends.items())


LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

GroupKey = tuple[str, str]
"""Cluster and group."""


@dataclass(slots=True)
class Latency:
    """A histogram: requests by the first bound of LATENCIES that they kept, and beyond all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCIES) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one request."""
        self.counts[bisect_left(LATENCIES, seconds)] += 1
        self.seconds += seconds

    def copy(self) -> Latency:
        """A copy that later events do not change."""
        return replace(self, counts=list(self.counts))


@dataclass(slots=True)
class GroupCounts:
    """One group of one cluster. `held` is what was confirmed to us; `last` a wall-clock time."""

    commits: int = 0
    last: float | None = None
    held: dict[TopicPartition, int] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    incidents: Counter[str] = field(default_factory=Counter)

    def copy(self) -> GroupCounts:
        """A copy that later events do not change."""
        return replace(
            self,
            held=dict(self.held),
            failures=self.failures.copy(),
            refusals=self.refusals.copy(),
            incidents=self.incidents.copy(),
        )


@dataclass(slots=True)
class SinkCounts:
    """What exactly_once did for a query, all its sinks together; `lost` are accepted offsets.

    `held` is what each sink's ledger holds, by its label, as far as `run_id` has moved it.
    """

    applied: int = 0
    replayed: int = 0
    rows: int = 0
    dead_letters: int = 0
    lost: int = 0
    state_lost: int = 0
    batch_failures: Counter[str] = field(default_factory=Counter)
    run_id: str = ""
    held: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def copy(self) -> SinkCounts:
        """A copy that later events do not change."""
        held = {sink: dict(offsets) for sink, offsets in self.held.items()}
        return replace(self, batch_failures=self.batch_failures.copy(), held=held)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where the sinks stand; of several, the one that is behind the others counts."""
        least: dict[TopicPartition, int] = {}
        for offsets in self.held.values():
            least |= {tp: min(offset, least.get(tp, offset)) for tp, offset in offsets.items()}
        return least


@dataclass(slots=True)
class QueryCounts:
    """One query, over all its runs; `sinks` is None where it has none of exactly_once."""

    violations: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    ignored: int = 0
    sinks: SinkCounts | None = None

    def copy(self) -> QueryCounts:
        """A copy that later events do not change."""
        sinks = None if self.sinks is None else self.sinks.copy()
        return replace(self, violations=self.violations.copy(), sinks=sinks)


@dataclass(slots=True)
class RunCounts:
    """One run. `lags` are seconds by source; `ended` is on the monotonic clock, None before."""

    query: str
    batch_id: int | None = None
    metrics: BatchMetrics = field(default_factory=BatchMetrics)
    sources: dict[int, SourceProgressed] = field(default_factory=dict)
    time_lags: dict[int, TimeLag] = field(default_factory=dict)
    lags: dict[int, float] = field(default_factory=dict)
    withheld: set[int] = field(default_factory=set)
    groups: frozenset[GroupKey] = frozenset()
    ended: float | None = None

    def copy(self) -> RunCounts:
        """A copy that later events do not change."""
        return replace(
            self,
            sources=dict(self.sources),
            time_lags={},
            lags=dict(self.lags),
            withheld=set(self.withheld),
        )

    @property
    def done(self) -> float | None:
        """When its newest batch was done, in seconds since the epoch."""
        started, took = self.metrics.started, self.metrics.seconds
        return None if started is None or took is None else started + took

    def progressed(self, source: SourceProgressed) -> None:
        """Take in where a source is; `metrics` are those of its batch already."""
        self.sources[source.source] = source
        started, done = self.metrics.started, self.done
        if source.log_ends is None or started is None or done is None:
            return
        known = self.time_lags.setdefault(source.source, TimeLag())
        known.progressed(started, source.ends, source.log_ends)
        lag = known.lag(done)
        if lag is not None:
            self.lags[source.source] = lag


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A copy that nobody else changes; runs in the order in which their newest batches began."""

    groups: dict[GroupKey, GroupCounts]
    queries: dict[str, QueryCounts]
    runs: list[RunCounts]
    latencies: dict[str, Latency]
    internal_errors: int


@dataclass(slots=True)
class SeriesBudget:
    """How many partitions may still have series; `beyond` is how many have found no room."""

    left: int
    beyond: int = 0

    def takes(self, partitions: int) -> bool:
        """Whether there is room for all of a topic: a part of it would be taken for all."""
        if partitions > self.left:
            self.beyond += partitions
            return False
        self.left -= partitions
        return True


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each topic, in order."""
    topics: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for tp in sorted(offsets):
        topics[tp.topic][tp] = offsets[tp]
    return topics
