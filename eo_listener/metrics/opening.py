"""Open the observer for Prometheus, where the extra that it needs is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from eo_listener.errors import SettingsError
from eo_listener.settings import LOOPBACK

if TYPE_CHECKING:
    from eo_listener.metrics.prometheus import Prometheus


def open_metrics(port: int, address: str = LOOPBACK) -> Prometheus:
    """An observer whose numbers are served at `http://address:port/metrics` until it is closed.

    Port 0 takes a free one. Raises SettingsError when the extra is not installed or the port is
    none, and UnavailableError when the address cannot be listened on.
    """
    if find_spec("prometheus_client") is None:
        raise SettingsError(
            "metrics were asked for, and prometheus_client is not installed",
            cause="it is an extra of eo-listener",
            fix="pip install 'eo-listener[metrics]'",
        )
    from eo_listener.metrics.prometheus import Prometheus  # noqa: PLC0415  # needs the extra

    observer = Prometheus()
    observer.serve(port, address)
    return observer
