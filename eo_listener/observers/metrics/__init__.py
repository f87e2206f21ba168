"""Events of `eo_listener.model` as metrics for Prometheus; names stand in docs/metrics.md.

All but `serve`, `address` and the counting itself need the extra `metrics`.
"""

from eo_listener.observers.metrics.serve import open_metrics

__all__ = ["open_metrics"]
