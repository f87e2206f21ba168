"""Builds gauges, limits their series, and makes their labels encodable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from eo_listener.observers.metrics.counters import GROUP, Labels
from eo_listener.offsets import TopicPartition

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
