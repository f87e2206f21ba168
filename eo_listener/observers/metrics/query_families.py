"""Families about queries and their sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from eo_listener.observers.metrics.counts import (
    Numbers,
    RunCounts,
    SeriesBudget,
    SinkCounts,
    by_topic,
)


def of_queries(numbers: Numbers) -> Iterator[Metric]:
    """Draw them; of two runs of a query, or two queries of one name, the newer counts."""
    by_query = {run.query: run for run in numbers.runs if run.batch_id is not None}
    for name, meaning, of in _GAUGES:
        gauge = GaugeMetricFamily(f"eo_listener_query_{name}", meaning, labels=("query",))
        for query, run in by_query.items():
            value = of(run)
            if value is not None:
                gauge.add_metric((query,), value)
        yield gauge
    lag = GaugeMetricFamily(
        "eo_listener_query_lag_seconds",
        "Upper bound of the age of the oldest unprocessed record, when the newest batch ended.",
        labels=("query", "source"),
    )
    for query, run in by_query.items():
        for source, seconds in run.lags.items():
            lag.add_metric((query, str(source)), seconds)
    yield lag
    violations = CounterMetricFamily(
        "eo_listener_guard_violations",
        "Partitions in which a batch did not continue where the batch before ended, by kind.",
        labels=("query", "kind"),
    )
    missed = CounterMetricFamily(
        "eo_listener_progress_event_gaps",
        "Times that progress events did not arrive.",
        labels=("query",),
    )
    ignored = CounterMetricFamily(
        "eo_listener_sources_ignored",
        "Sources that are not committed because of a wrong setting.",
        labels=("query",),
    )
    for query, counts in numbers.queries.items():
        missed.add_metric((query,), counts.missed)
        ignored.add_metric((query,), counts.ignored)
        for kind, times in counts.violations.items():
            violations.add_metric((query, kind), times)
    yield from (violations, missed, ignored)


def _event_time_lag(run: RunCounts) -> float | None:
    newest, done = run.metrics.newest, run.done
    return None if newest is None or done is None else max(0.0, done - newest)


_GAUGES = (
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
)


def of_sinks(numbers: Numbers) -> Iterator[Metric]:
    """Draw them, of each query all sinks together."""
    by_query = _by_query(numbers)
    batches = CounterMetricFamily(
        "eo_listener_sink_batches",
        "Batches by outcome: applied, or replayed because the sink already had them.",
        labels=("query", "outcome"),
    )
    batch_failures = CounterMetricFamily(
        "eo_listener_sink_batch_failures",
        "Batches that failed, by the class of the error.",
        labels=("query", "error"),
    )
    for query, sinks in by_query.items():
        batches.add_metric((query, "applied"), sinks.applied)
        batches.add_metric((query, "replayed"), sinks.replayed)
        for error, times in sinks.batch_failures.items():
            batch_failures.add_metric((query, error), times)
    yield from (batches, batch_failures)
    for name, meaning, of in _COUNTED:
        family = CounterMetricFamily(f"eo_listener_sink_{name}", meaning, labels=("query",))
        for query, sinks in by_query.items():
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
    for query, sinks in _by_query(numbers).items():
        for topic, offsets in by_topic(sinks.offsets).items():
            whole.add_metric((query, topic), sum(offsets.values()))
            if room.takes(len(offsets)):
                for tp, offset in offsets.items():
                    each.add_metric((query, topic, str(tp.partition)), offset)
    return [each, whole]


def _by_query(numbers: Numbers) -> dict[str, SinkCounts]:
    return {name: one.sinks for name, one in numbers.queries.items() if one.sinks is not None}


_COUNTED: tuple[tuple[str, str, Callable[[SinkCounts], int]], ...] = (
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
