"""The metrics: their names, their labels, and the limit on series.

If kafka_exporter has a metric for the same thing, the name is the same, with `eo_listener_` instead
of `kafka_`. docs/reference/metrics.md has the table.

The names of the metrics of `eo-listener serve`, which it reads from a cluster, not from a driver,
begin with `eo_listener_status_`, so that no sum counts a group twice if a driver reports the group
too. docs/how-to/serve.md has their table.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client import Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from eo_listener.model.lag import PartitionLag
from eo_listener.model.lag_window import LagVerdict
from eo_listener.observers.metrics.counters import (
    GROUP,
    LATENCY_BOUNDS,
    Counted,
    Labels,
    Numbers,
    Run,
)
from eo_listener.offsets import TopicPartition
from eo_listener.version import __version__

logger = logging.getLogger("eo_listener")

_WITHOUT_SERIES: Final = "Partitions without a series of their own, because of the limit on series."


class Families:
    """Makes Prometheus metrics from numbers. Topics beyond `limit` partitions have only sums."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._warned = False

    def draw(self, numbers: Numbers) -> Iterator[Metric]:
        """Yield all metric families, including empty families, because dashboards query them."""
        return map(encodable, self._draw(numbers))

    def _draw(self, numbers: Numbers) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "eo_listener_build", "Version of eo_listener, as a label.", {"version": __version__}
        )
        yield total(
            "start_timestamp_seconds",
            "Time at which this process began to count, in seconds since the epoch.",
            numbers.started,
        )
        for family in Counted:
            counter = CounterMetricFamily(family.title, family.meaning, labels=family.labels)
            for labels, times in numbers.counts[family].items():
                counter.add_metric(labels, times)
            yield counter
        yield gauge(
            "consumergroup_last_commit_timestamp_seconds",
            "Time at which the group's last commit was confirmed, in seconds since the epoch.",
            GROUP,
            numbers.last_commits.items(),
        )
        yield gauge(
            "consumergroup_last_move_timestamp_seconds",
            "Time at which a commit last changed the group's offsets, in seconds since the epoch.",
            GROUP,
            numbers.last_moves.items(),
        )
        yield _latencies(numbers)
        yield from _of_queries(numbers)
        applied = SeriesBudget(self._limit)
        yield from _applied(numbers, applied)
        groups = SeriesBudget(self._limit)
        yield from _group_offsets(numbers, groups)
        beyond = applied.beyond + groups.beyond
        self._say(beyond)
        yield total("partitions_without_series", _WITHOUT_SERIES, beyond)
        yield log_ends(
            "topic_partition_current_offset",
            "Log end offset when the newest batch was planned, by partition.",
            _newest_log_ends(numbers).items(),
            SeriesBudget(self._limit),
        )

    def _say(self, beyond: int) -> None:
        if beyond and not self._warned:
            self._warned = True
            logger.warning(
                "metrics: %d partitions exceed the limit of %d; their topics have sums only",
                beyond,
                self._limit,
            )


def _latencies(numbers: Numbers) -> Metric:
    family = HistogramMetricFamily(
        "eo_listener_commit_latency_seconds",
        "Time from a commit request to its confirmation, in seconds.",
        labels=("cluster",),
    )
    for cluster, seconds in numbers.latency_seconds.items():
        counts = accumulate(numbers.latencies[cluster, bound] for bound in LATENCY_BOUNDS)
        buckets = list(zip(LATENCY_BOUNDS, counts, strict=True))
        family.add_metric((cluster,), buckets, sum_value=seconds)
    return family


def _group_offsets(numbers: Numbers, budget: SeriesBudget) -> Iterator[Metric]:
    """Yield the offsets and the lag of the groups."""
    ends = _newest_log_ends(numbers)
    return of_groups(
        "consumergroup",
        (
            "Offset that the group coordinator confirmed, by partition.",
            "Log end offset when the newest batch was planned, minus committed offset.",
            "Sum of the confirmed offsets of all partitions of a topic.",
        ),
        ((group, at, ends.get(group[0], {})) for group, at in numbers.group_offsets.items()),
        budget,
    )


def _applied(numbers: Numbers, budget: SeriesBudget) -> Iterator[Metric]:
    """Yield the applied offsets of each query, for all of its sinks together."""
    name = "sink_applied_offset"
    each = gauge(
        name,
        "Next offset to apply, by partition; the lowest if there are several sinks.",
        ("query", "topic", "partition"),
    )
    whole = gauge(
        f"{name}_sum",
        "Sum of the next offsets to apply of all partitions of a topic.",
        ("query", "topic"),
    )
    for query, sinks in numbers.sinks.items():
        for topic, offsets in by_topic(sinks.offsets):
            whole.add_metric((query, topic), sum(offsets.values()))
            if budget.takes(len(offsets)):
                add_each(each, (query, topic), offsets)
    yield from (each, whole)


def _newest_log_ends(numbers: Numbers) -> Mapping[str, Mapping[TopicPartition, int]]:
    """Return the newest log ends by cluster.

    `numbers` has the runs in the order of their newest batches.
    """
    ends: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for run in numbers.runs.values():
        for source in run.sources.values():
            if source.cluster is not None and source.log_ends is not None:
                ends[source.cluster].update(source.log_ends.items())
    return ends


def _of_queries(numbers: Numbers) -> Iterator[Metric]:
    """Yield the metrics of queries. If runs share a query name, the newest run counts."""
    reported: dict[str, float] = {}
    for run in numbers.runs.values():  # not only the newest run, which may have no batch yet
        if run.reported is not None:
            reported[run.query] = max(run.reported, reported.get(run.query, 0.0))
    yield gauge(
        "query_last_event_timestamp_seconds",
        "Time of Spark's last event of the query: its start, a batch's end, or no data.",
        ("query",),
        (((query,), at) for query, at in reported.items()),
    )
    # A run that has been idle since its start has no batch, but may have an ignored source.
    every = numbers.runs.values()
    runs = {run.query: run for run in every if run.batch_id is not None or run.ignored}
    for name, meaning, value in _OF_RUN:
        series = (((query,), value(run)) for query, run in runs.items())
        yield gauge(f"query_{name}", meaning, ("query",), series)
    yield gauge(
        "query_lag_seconds",
        "Upper bound of the age of the oldest unprocessed record, when the newest batch ended.",
        ("query", "source"),
        (
            ((query, str(source)), seconds)
            for query, run in runs.items()
            for source, seconds in run.lags.items()
        ),
    )


def _event_time_lag(run: Run) -> float | None:
    newest, done = run.metrics.newest, run.done
    return None if newest is None or done is None else max(0.0, done - newest)


_OF_RUN = (
    ("batch_id", "Batch id of the newest completed batch.", lambda run: run.batch_id),
    (
        "last_batch_timestamp_seconds",
        "Time at which the newest batch ended, in seconds since the epoch.",
        lambda run: run.done,
    ),
    (
        "batch_duration_seconds",
        "Duration of the newest batch's trigger, in seconds.",
        lambda run: run.metrics.seconds,
    ),
    ("input_rows", "Input rows of the newest batch.", lambda run: run.metrics.rows),
    (
        "input_rows_per_second",
        "Input rows per second, as reported by Spark.",
        lambda run: run.metrics.input_rows_per_second,
    ),
    (
        "processed_rows_per_second",
        "Processed rows per second, as reported by Spark.",
        lambda run: run.metrics.processed_rows_per_second,
    ),
    (
        "event_time_lag_seconds",
        "Time from the latest event time in the newest batch to the end of that batch.",
        _event_time_lag,
    ),
    (
        "watermark_timestamp_seconds",
        "Watermark of the newest batch, in seconds since the epoch.",
        lambda run: run.metrics.watermark,
    ),
    (
        "withheld_sources",
        "Sources of the newest run that the guard withholds from commits.",
        lambda run: len(run.withheld),
    ),
    (
        "ignored_sources",
        "Sources of the newest run that are not committed because of a wrong setting.",
        lambda run: len(run.ignored),
    ),
)


_TOPIC = (*GROUP, "topic")
_PARTITION = (*_TOPIC, "partition")

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class SeriesBudget:
    """The number of partitions that may still get series; `beyond` counts those without series."""

    remaining: int
    beyond: int = 0

    def takes(self, partitions: int) -> bool:
        """Return True, and reserve the series, if all partitions of a topic fit.

        Otherwise the method reserves no series, since readers would take some partitions for the
        whole topic.
        """
        if partitions > self.remaining:
            self.beyond += partitions
            return False
        self.remaining -= partitions
        return True


def encodable(family: Metric) -> Metric:
    """Return `family` with escapes in the labels for characters that UTF-8 cannot encode.

    Such a character would make the whole scrape fail.

    A name from Java may contain such a character (a lone surrogate), and so may a name from Python
    under a broken locale.
    """
    for at, sample in enumerate(family.samples):
        labels = {
            key: label.encode("utf-8", "backslashreplace").decode()
            for key, label in sample.labels.items()
        }
        if labels != sample.labels:
            family.samples[at] = sample._replace(labels=labels)
    return family


def gauge(
    name: str, meaning: str, names: Labels, series: Iterable[tuple[Labels, float | None]] = ()
) -> GaugeMetricFamily:
    """Return a gauge with the series whose value is not None."""
    family = GaugeMetricFamily(f"eo_listener_{name}", meaning, labels=names)
    for labels, value in series:
        if value is not None:
            family.add_metric(labels, value)
    return family


def total(name: str, meaning: str, value: float | None) -> GaugeMetricFamily:
    """Return a gauge without labels."""
    return gauge(name, meaning, (), [((), value)])


def by_topic(
    offsets: Mapping[TopicPartition, int],
) -> Iterable[tuple[str, dict[TopicPartition, int]]]:
    """Return the offsets of each topic, sorted by topic and partition."""
    topics: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for tp in sorted(offsets):
        topics[tp.topic][tp] = offsets[tp]
    return topics.items()


def add_each(
    family: GaugeMetricFamily, labels: Labels, offsets: Mapping[TopicPartition, int]
) -> None:
    """Add the offset of each partition to `family`, with the partition as the last label."""
    for tp, offset in offsets.items():
        family.add_metric((*labels, str(tp.partition)), offset)


def of_groups(
    prefix: str,
    meanings: tuple[str, str, str],
    groups: Iterable[tuple[Labels, Offsets, Offsets]],
    budget: SeriesBudget,
) -> Iterator[Metric]:
    """Yield metrics for the offsets and the lag of `groups`.

    A group is a tuple of its labels, its committed offsets, and the log ends. `meanings` describe
    the offset, the lag, and the sum of the offsets.
    """
    offset = gauge(f"{prefix}_current_offset", meanings[0], _PARTITION)
    lag = gauge(f"{prefix}_lag", meanings[1], _PARTITION)
    offset_sum = gauge(f"{prefix}_current_offset_sum", meanings[2], _TOPIC)
    lag_sum = gauge(f"{prefix}_lag_sum", "Sum of the lag of all partitions of a topic.", _TOPIC)
    for group, positions, ends in groups:
        for topic, offsets in by_topic(positions):
            labels = (*group, topic)
            lags = {tp: max(0, ends[tp] - at) for tp, at in offsets.items() if tp in ends}
            offset_sum.add_metric(labels, sum(offsets.values()))
            if lags:
                lag_sum.add_metric(labels, sum(lags.values()))
            if budget.takes(len(offsets)):
                add_each(offset, labels, offsets)
                add_each(lag, labels, lags)
    yield from (offset, lag, offset_sum, lag_sum)


def log_ends(
    name: str, meaning: str, clusters: Iterable[tuple[str, Offsets]], budget: SeriesBudget
) -> Metric:
    """Return a gauge with the log ends of each cluster."""
    family = gauge(name, meaning, ("cluster", "topic", "partition"))
    for cluster, ends in clusters:
        for topic, offsets in by_topic(ends):
            if budget.takes(len(offsets)):
                add_each(family, (cluster, topic), offsets)
    return family


PARTITIONS: Final = 10_000
_GROUPS: Final = 2_000
_PREFIX: Final = "status_consumergroup"


class GroupNumbers(NamedTuple):
    """The numbers of one group; `seconds` is the age of its oldest unread record.

    `read` is False if the group could not be read.
    """

    group: str
    rows: Sequence[PartitionLag]
    seconds: float | None
    verdict: LagVerdict | None
    read: bool

    @property
    def committed(self) -> Offsets:
        """The committed offsets."""
        return {row.partition: row.committed for row in self.rows if row.committed is not None}

    @property
    def log_ends(self) -> Offsets:
        """The known log ends."""
        return {row.partition: row.log_end for row in self.rows if row.log_end is not None}


class AuditNumbers(NamedTuple):
    """The results of an audit; `at` is its start, in seconds since the epoch."""

    at: float
    lost: int
    doubled: int
    to_act_on: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusNumbers:
    """The current numbers of a cluster, read at the time `at`.

    `at` is in seconds since the epoch, or None if the offsets are unknown. Then `groups` is empty,
    since readers would mistake old numbers for current ones.
    """

    cluster: str
    at: float | None = None
    groups: Sequence[GroupNumbers] = ()


def exposed(numbers: StatusNumbers, *, partitions: int = PARTITIONS) -> bytes:
    """Return the text for Prometheus. Topics beyond `partitions` partitions have only sums."""
    return _text(status_families(numbers, partitions))


def exposed_audit(audit: AuditNumbers | None) -> bytes:
    """Return an audit's text for Prometheus, which follows the text of `exposed`.

    The text is separate, because audits have their own interval.
    """
    return _text(audit_families(audit))


def _text(families: Iterator[Metric]) -> bytes:
    return generate_latest(_Drawn(families))


def status_families(numbers: StatusNumbers, partitions: int) -> Iterator[Metric]:
    """Yield all metric families, including empty families, because alerts query them."""
    return map(encodable, _draw(numbers, partitions))


class _Drawn(Collector):
    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families


def _draw(numbers: StatusNumbers, partitions: int) -> Iterator[Metric]:
    yield total(
        "status_known",
        "1 while Kafka's offsets are known, 0 while they cannot be read.",
        int(numbers.at is not None),
    )
    yield total(
        "status_timestamp_seconds",
        "Time at which these numbers were read, in seconds since the epoch.",
        numbers.at,
    )
    groups = numbers.groups[:_GROUPS]
    yield total(
        "status_groups_not_read",
        "Groups that Kafka refused, or that exceed the limit on groups.",
        sum(not group.read for group in groups) + len(numbers.groups) - len(groups),
    )
    budget, cluster = SeriesBudget(partitions), numbers.cluster
    yield from of_groups(
        _PREFIX,
        (
            "Committed offset, by partition.",
            "Log end offset minus committed offset.",
            "Sum of the committed offsets of a topic.",
        ),
        (((cluster, group.group), group.committed, group.log_ends) for group in groups),
        budget,
    )
    yield from _judged(cluster, groups)
    yield log_ends(
        "status_topic_partition_current_offset",
        "Log end offset, by partition.",
        [(cluster, {tp: end for group in groups for tp, end in group.log_ends.items()})],
        SeriesBudget(partitions),
    )
    yield total("status_partitions_without_series", _WITHOUT_SERIES, budget.beyond)


def _judged(cluster: str, groups: Sequence[GroupNumbers]) -> Iterator[Metric]:
    yield gauge(
        f"{_PREFIX}_lag_seconds",
        "Age of the oldest record that the group has not read, in seconds.",
        GROUP,
        (((cluster, group.group), group.seconds) for group in groups),
    )
    yield gauge(
        f"{_PREFIX}_verdict",
        "1 for the verdict of the group, 0 for the others.",
        (*GROUP, "verdict"),
        (
            ((cluster, group.group, verdict.value), int(group.verdict is verdict))
            for group in groups
            if group.verdict is not None
            for verdict in LagVerdict
        ),
    )


def audit_families(audit: AuditNumbers | None) -> Iterator[Metric]:
    """Yield the metric families of an audit, including empty families."""
    for name, meaning, value in (
        ("timestamp_seconds", "Time at which the audit began.", audit and audit.at),
        (
            "complete",
            "1 if the audit could read everything that it was asked for.",
            audit and int(audit.complete),
        ),
        ("lost_records", "Records that are lost or not applied.", audit and audit.lost),
        ("doubled_records", "Records that were applied twice.", audit and audit.doubled),
        ("findings", "Findings of the audit to act on.", audit and audit.to_act_on),
    ):
        yield total(f"status_audit_{name}", meaning, value)
