"""Families about queries: Spark's own numbers, lag as a time, and what the guard found."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from eo_listener.metrics.numbers import Numbers, RunTally


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
        "The oldest record that the newest batch left unprocessed was at most this old.",
        labels=("query", "source"),
    )
    for query, run in by_query.items():
        for source, seconds in run.lags.items():
            lag.add_metric((query, str(source)), seconds)
    yield lag
    violations = CounterMetricFamily(
        "eo_listener_guard_violations",
        "Partitions in which a batch did not continue where the one before it ended.",
        labels=("query", "breach"),
    )
    missed = CounterMetricFamily(
        "eo_listener_events_missed", "Holes in the progress events.", labels=("query",)
    )
    ignored = CounterMetricFamily(
        "eo_listener_sources_ignored",
        "Sources that are not committed because of a mistake.",
        labels=("query",),
    )
    for query, tally in numbers.queries.items():
        missed.add_metric((query,), tally.missed)
        ignored.add_metric((query,), tally.ignored)
        for breach, times in tally.violations.items():
            violations.add_metric((query, breach), times)
    yield from (violations, missed, ignored)


def _event_time_lag(run: RunTally) -> float | None:
    newest, done = run.measures.newest, run.done
    return None if newest is None or done is None else max(0.0, done - newest)


_GAUGES = (
    ("batch_id", "The newest batch that was told of.", lambda run: run.batch_id),
    ("last_batch_timestamp_seconds", "When it was done.", lambda run: run.done),
    ("batch_duration_seconds", "How long it took.", lambda run: run.measures.seconds),
    ("input_rows", "Rows that it read.", lambda run: run.measures.rows),
    (
        "input_rows_per_second",
        "At which rows came, by Spark.",
        lambda run: run.measures.input_rows_per_second,
    ),
    (
        "processed_rows_per_second",
        "At which they were processed, by Spark.",
        lambda run: run.measures.processed_rows_per_second,
    ),
    (
        "event_time_lag_seconds",
        "How far the newest event time in it was behind the clock.",
        _event_time_lag,
    ),
    (
        "watermark_timestamp_seconds",
        "The watermark that it was processed with.",
        lambda run: run.measures.watermark,
    ),
    (
        "withheld_sources",
        "Sources that the guard withholds in this run.",
        lambda run: len(run.withheld),
    ),
)
