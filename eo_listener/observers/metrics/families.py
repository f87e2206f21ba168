"""Metrics about groups and commits: names, labels, and how many series there may be.

The names are those of kafka_exporter with `eo_listener_` for `kafka_`, where it has one for the
same thing; docs/metrics.md has the table.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from eo_listener.model.offsets import TopicPartition
from eo_listener.observers.metrics.counts import (
    LATENCIES,
    GroupCounts,
    GroupKey,
    Numbers,
    RunCounts,
    SeriesBudget,
    by_topic,
)
from eo_listener.observers.metrics.query_families import applied_offsets, of_queries, of_sinks
from eo_listener.version import __version__

_GROUP = ("cluster", "consumergroup")
_TOPIC = ("cluster", "consumergroup", "topic")
_PARTITION = ("cluster", "consumergroup", "topic", "partition")
_LOG = ("cluster", "topic", "partition")

LogEnds = Mapping[str, Mapping[TopicPartition, int]]
"""The newest log ends that are known, by cluster."""

logger = logging.getLogger("eo_listener")


class Families:
    """Draws families from numbers; of `limit` partitions at most, of the others sums by topic."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._said = False

    def draw(self, numbers: Numbers) -> Iterator[Metric]:
        """All families, also those that are empty: dashboards look for them."""
        return map(_encodable, self._draw(numbers))

    def _draw(self, numbers: Numbers) -> Iterator[Metric]:
        log_ends = _log_ends(numbers.runs)
        yield InfoMetricFamily(
            "eo_listener_build", "Version of eo_listener, as a label.", {"version": __version__}
        )
        of_applied = SeriesBudget(self._limit)
        applied = applied_offsets(numbers, of_applied)
        yield from self._offsets(numbers.groups, log_ends, of_applied.beyond)
        yield from _commits(numbers)
        yield from of_queries(numbers)
        yield from of_sinks(numbers)
        yield from applied

    def _offsets(
        self, groups: Mapping[GroupKey, GroupCounts], log_ends: LogEnds, beyond: int
    ) -> Iterator[Metric]:
        name = "eo_listener_consumergroup"
        held = GaugeMetricFamily(
            f"{name}_current_offset",
            "Offset that the group coordinator confirmed, by partition.",
            labels=_PARTITION,
        )
        lag = GaugeMetricFamily(
            f"{name}_lag",
            "Log end offset when the newest batch was planned, minus committed offset.",
            labels=_PARTITION,
        )
        held_sum = GaugeMetricFamily(
            f"{name}_current_offset_sum",
            "Sum of the confirmed offsets of all partitions of a topic.",
            labels=_TOPIC,
        )
        lag_sum = GaugeMetricFamily(
            f"{name}_lag_sum", "Sum of the lag of all partitions of a topic.", labels=_TOPIC
        )
        summed = GaugeMetricFamily(
            "eo_listener_partitions_without_series",
            "Partitions that have no series of their own, because of the limit of series.",
        )
        room = SeriesBudget(self._limit, beyond)
        for (cluster, group), counts in groups.items():
            ends = log_ends.get(cluster, {})
            for topic, offsets in by_topic(counts.held).items():
                whole = (cluster, group, topic)
                lags = {tp: max(0, ends[tp] - at) for tp, at in offsets.items() if tp in ends}
                held_sum.add_metric(whole, sum(offsets.values()))
                if lags:
                    lag_sum.add_metric(whole, sum(lags.values()))
                if not room.takes(len(offsets)):
                    continue
                for tp, at in offsets.items():
                    held.add_metric((*whole, str(tp.partition)), at)
                for tp, behind in lags.items():
                    lag.add_metric((*whole, str(tp.partition)), behind)
        summed.add_metric((), room.beyond)
        self._say(room.beyond)
        yield from (held, lag, held_sum, lag_sum, summed, self._logs(log_ends))

    def _logs(self, log_ends: LogEnds) -> Metric:
        family = GaugeMetricFamily(
            "eo_listener_topic_partition_current_offset",
            "Log end offset when the newest batch was planned, by partition.",
            labels=_LOG,
        )
        room = SeriesBudget(self._limit)
        for cluster, ends in log_ends.items():
            for topic, offsets in by_topic(ends).items():
                if room.takes(len(offsets)):
                    for tp, end in offsets.items():
                        family.add_metric((cluster, topic, str(tp.partition)), end)
        return family

    def _say(self, beyond: int) -> None:
        if beyond and not self._said:
            self._said = True
            logger.warning(
                "metrics: %d partitions are beyond the limit of %d; their topics have only sums",
                beyond,
                self._limit,
            )


def _encodable(family: Metric) -> Metric:
    """The family, with an escape for what UTF-8 cannot encode: it would spoil the whole scrape.

    A name may hold half of a character: Java's strings can, and Python's from a broken locale.
    """
    for at, sample in enumerate(family.samples):
        labels = {key: _escaped(value) for key, value in sample.labels.items()}
        if labels != sample.labels:
            family.samples[at] = sample._replace(labels=labels)
    return family


def _escaped(label: str) -> str:
    return label.encode("utf-8", "backslashreplace").decode()


def _commits(numbers: Numbers) -> Iterator[Metric]:
    done = CounterMetricFamily(
        "eo_listener_commits",
        "Commit requests that the group coordinator confirmed.",
        labels=_GROUP,
    )
    failed = CounterMetricFamily(
        "eo_listener_commit_failures",
        "Commit requests that failed, by Kafka's error name; each is retried.",
        labels=(*_GROUP, "code"),
    )
    refused = CounterMetricFamily(
        "eo_listener_commit_refusals",
        "Commits refused before sending, by reason.",
        labels=(*_GROUP, "reason"),
    )
    incidents = CounterMetricFamily(
        "eo_listener_group_incidents",
        "Other incidents of the group, by kind.",
        labels=(*_GROUP, "kind"),
    )
    last = GaugeMetricFamily(
        "eo_listener_consumergroup_last_commit_timestamp_seconds",
        "Time at which the group's last commit was confirmed, in seconds since the epoch.",
        labels=_GROUP,
    )
    for key, counts in numbers.groups.items():
        done.add_metric(key, counts.commits)
        if counts.last is not None:
            last.add_metric(key, counts.last)
        for family, counted in (
            (failed, counts.failures),
            (refused, counts.refusals),
            (incidents, counts.incidents),
        ):
            for name, times in counted.items():
                family.add_metric((*key, name), times)
    yield from (done, failed, refused, incidents, last, _latencies(numbers))
    faults = CounterMetricFamily(
        "eo_listener_internal_errors",
        "Unexpected errors inside eo_listener; the log has each of them.",
    )
    faults.add_metric((), numbers.internal_errors)
    yield faults


def _latencies(numbers: Numbers) -> Metric:
    family = HistogramMetricFamily(
        "eo_listener_commit_latency_seconds",
        "Time from a commit request to its confirmation, in seconds.",
        labels=("cluster",),
    )
    bounds = (*map(str, LATENCIES), "+Inf")
    for cluster, latency in numbers.latencies.items():
        buckets = zip(bounds, accumulate(latency.counts), strict=True)
        family.add_metric((cluster,), list(buckets), sum_value=latency.seconds)
    return family


def _log_ends(runs: list[RunCounts]) -> LogEnds:
    """What the newest event said, of each partition: `runs` come in that order."""
    ends: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for run in runs:
        for source in run.sources.values():
            if source.cluster is not None and source.log_ends is not None:
                ends[source.cluster].update(source.log_ends.items())
    return ends
