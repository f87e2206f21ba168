"""Metrics about queries: Spark's own numbers, lag as a time, and guard violations."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from eo_listener.observers.metrics.counts import Numbers, RunTally


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
    for query, tally in numbers.queries.items():
        missed.add_metric((query,), tally.missed)
        ignored.add_metric((query,), tally.ignored)
        for kind, times in tally.violations.items():
            violations.add_metric((query, kind), times)
    yield from (violations, missed, ignored)


def _event_time_lag(run: RunTally) -> float | None:
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
