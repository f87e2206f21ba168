"""Turns the events of `eo_listener.events` into the metrics of docs/reference/metrics.md.

All modules except `serve`, `address` and `counters` need the extra `metrics` or `opentelemetry`.

This package keeps the numbers, and converts them to prometheus-client's metric families at each
scrape. It does not use the library's own `Counter`, `Gauge` and `Histogram`. In a process with
PROMETHEUS_MULTIPROC_DIR, these keep their values in files of that directory: a removed series stays
there, the first event raises if the directory is missing, and a user's registry with a
MultiProcessCollector shows every metric twice. These classes also export `_created` series unless
that is switched off for the whole process, and prometheus-client 0.21 cannot remove all series of a
group regardless of their other labels.
"""

from eo_listener.observers.metrics.serve import open_metrics

__all__ = ["open_metrics"]
