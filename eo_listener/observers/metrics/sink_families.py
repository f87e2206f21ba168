"""Metrics about the sinks of exactly_once: what they applied, and what they did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from eo_listener.observers.metrics.counts import Numbers, SeriesBudget, SinkTally, by_topic


def of_sinks(numbers: Numbers) -> Iterator[Metric]:
    """Draw them, of each query all sinks together."""
    told = _told(numbers)
    batches = CounterMetricFamily(
        "eo_listener_sink_batches",
        "Batches by outcome: applied, or replayed because the sink already had them.",
        labels=("query", "outcome"),
    )
    halts = CounterMetricFamily(
        "eo_listener_sink_batch_failures",
        "Batches that failed, by the class of the error.",
        labels=("query", "error"),
    )
    for query, sinks in told.items():
        batches.add_metric((query, "applied"), sinks.applied)
        batches.add_metric((query, "replayed"), sinks.replayed)
        for error, times in sinks.halts.items():
            halts.add_metric((query, error), times)
    yield from (batches, halts)
    for name, meaning, of in _COUNTED:
        family = CounterMetricFamily(f"eo_listener_sink_{name}", meaning, labels=("query",))
        for query, sinks in told.items():
            family.add_metric((query,), of(sinks))
        yield family


def applied_offsets(numbers: Numbers, room: SeriesBudget) -> list[Metric]:
    """Draw where the sinks stand, as far as there is room."""
    name = "eo_listener_sink_applied_offset"
    meaning = "Next offset to apply, by partition; of several sinks the lowest."
    each = GaugeMetricFamily(name, meaning, labels=("query", "topic", "partition"))
    whole = GaugeMetricFamily(
        f"{name}_sum",
        "Sum of the next offsets to apply of all partitions of a topic.",
        labels=("query", "topic"),
    )
    for query, sinks in _told(numbers).items():
        for topic, offsets in by_topic(sinks.offsets).items():
            whole.add_metric((query, topic), sum(offsets.values()))
            if room.takes(len(offsets)):
                for tp, offset in offsets.items():
                    each.add_metric((query, topic, str(tp.partition)), offset)
    return [each, whole]


def _told(numbers: Numbers) -> dict[str, SinkTally]:
    return {name: one.sinks for name, one in numbers.queries.items() if one.sinks is not None}


_COUNTED: tuple[tuple[str, str, Callable[[SinkTally], int]], ...] = (
    ("rows", "Rows written to the sinks.", lambda one: one.rows),
    ("dead_letters", "Rows written to dead-letter tables.", lambda one: one.dead_letters),
    (
        "accepted_gap_offsets",
        'Offsets in gaps that on_gap="accept" accepted: their records are lost.',
        lambda one: one.lost,
    ),
    (
        "query_states_lost",
        "Times that a stateful query started in a sink without its state.",
        lambda one: one.state_lost,
    ),
)
