"""The events of `eo_listener.events` as metrics for Prometheus; names stand in docs/metrics.md.

All but `opening` and the counting itself need the extra `metrics`.
"""

from typing import Final

LOOPBACK: Final = "127.0.0.1"
"""Where numbers are served unless somebody asks for more."""
