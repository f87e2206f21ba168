"""Families about the sinks of exactly_once: what came into them, and what did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from eo_listener.metrics.numbers import Numbers, Room, SinkTally, by_topic


def of_sinks(numbers: Numbers) -> Iterator[Metric]:
    """Draw them, of each query all sinks together."""
    told = _told(numbers)
    batches = CounterMetricFamily(
        "eo_listener_sink_batches",
        "Batches that a sink has got, or had before.",
        labels=("query", "outcome"),
    )
    halts = CounterMetricFamily(
        "eo_listener_sink_halts",
        "Batches that were broken off, by the class of the error.",
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


def applied_offsets(numbers: Numbers, room: Room) -> list[Metric]:
    """Draw where the sinks stand, as far as there is room."""
    name, meaning = "eo_listener_sink_applied_offset", "The next offset that the sinks lack."
    each = GaugeMetricFamily(name, meaning, labels=("query", "topic", "partition"))
    whole = GaugeMetricFamily(
        f"{name}_sum", "The same, all partitions together.", labels=("query", "topic")
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
    ("rows", "Rows that were written.", lambda one: one.rows),
    ("dead_letters", "Rows that were put aside.", lambda one: one.dead),
    ("lost_offsets", "Offsets that are lost, and were accepted as lost.", lambda one: one.lost),
    (
        "states_left_behind",
        "Times that a stateful query began in a sink without its state.",
        lambda one: one.left_behind,
    ),
)
