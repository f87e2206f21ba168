"""What makes series of numbers: gauges, their limit, and labels that can be encoded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from eo_listener.model.offsets import TopicPartition
from eo_listener.observers.metrics.counts import Labels


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


def encodable(family: Metric) -> Metric:
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


def gauge(
    name: str, meaning: str, names: Labels, series: Iterable[tuple[Labels, float | None]] = ()
) -> GaugeMetricFamily:
    """A gauge of the series whose value is known."""
    family = GaugeMetricFamily(f"eo_listener_{name}", meaning, labels=names)
    for labels, value in series:
        if value is not None:
            family.add_metric(labels, value)
    return family


def by_topic(
    offsets: Mapping[TopicPartition, int],
) -> Iterable[tuple[str, dict[TopicPartition, int]]]:
    """The offsets of each topic, in order."""
    topics: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for tp in sorted(offsets):
        topics[tp.topic][tp] = offsets[tp]
    return topics.items()


def add_each(
    family: GaugeMetricFamily, labels: Labels, offsets: Mapping[TopicPartition, int]
) -> None:
    """A number for each partition, behind the labels of its topic."""
    for tp, offset in offsets.items():
        family.add_metric((*labels, str(tp.partition)), offset)
