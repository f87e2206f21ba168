"""Events of `eo_listener.model` as metrics: docs/reference/metrics.md lists them.

All but `serve`, `address` and the counting itself need the extra `metrics`, or `opentelemetry`.

The numbers are kept here, and converted to the library's metric families when somebody asks for
them. The library's own `Counter`, `Gauge` and `Histogram` are not used, because their values are
not ours alone: in a process with PROMETHEUS_MULTIPROC_DIR they are kept in files of that directory,
in which a removed series stays, the first event raises if the directory is missing, and a user's
registry with a MultiProcessCollector shows every metric twice. They also export `_created` series
unless that is switched off for the whole process, and prometheus-client 0.21 cannot remove the
series of a group whatever their other labels are.
"""

from eo_listener.observers.metrics.serve import open_metrics

__all__ = ["open_metrics"]
