"""Families about the sinks of exactly_once: what came into them, and what did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from eo_listener.metrics.numbers import Numbers, SinkTally


def of_sinks(numbers: Numbers) -> Iterator[Metric]:
    """Draw them, of each query all sinks together."""
    told = {name: one.sinks for name, one in numbers.queries.items() if one.sinks is not None}
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


_COUNTED: tuple[tuple[str, str, Callable[[SinkTally], int]], ...] = (
    ("rows", "Rows that were written.", lambda one: one.rows),
    ("dead_letters", "Rows that were put aside.", lambda one: one.dead),
    ("lost_offsets", "Offsets that are lost, and were accepted as lost.", lambda one: one.lost),
)
