"""The HTTP server that Prometheus scrapes."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from eo_listener.observers.bounded_server import BoundedHandler, BoundedServer

PATH: Final = "/metrics"


class _Handler(BoundedHandler, MetricsHandler):
    """Answers one request."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
        """The numbers, at their path alone."""
        if self._is_ours():
            super().do_GET()

    def do_HEAD(self) -> None:  # noqa: N802  # http.server's name for it
        """Answer a HEAD request as a GET would begin, for clients that only check if the server is
        up.
        """
        if self._is_ours():
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()

    def _is_ours(self) -> bool:
        try:
            found = urlsplit(self.path).path == PATH
        except ValueError as error:  # "http://[/metrics"
            self.send_error(400, f"The path cannot be read: {error}")
            return False
        if not found:
            self.send_error(404, f"The metrics are at {PATH}")
        return found


class MetricsServer(BoundedServer):
    """Answers scrapes of one registry."""

    def __init__(self, address: str, port: int, registry: CollectorRegistry) -> None:
        handler = type("_OfThisRegistry", (_Handler,), {"registry": registry})
        super().__init__(address, port, handler, name="metrics")
