"""The observer that Prometheus scrapes, and its HTTP server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from eo_listener.errors import MissingExtraError, SettingsError, UnavailableError
from eo_listener.events import Event
from eo_listener.observers.bounded_server import (
    LOOPBACK,
    BoundedHandler,
    BoundedServer,
    require_address,
    require_port,
)
from eo_listener.observers.metrics.counters import EventCounters, Numbers

try:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.exposition import MetricsHandler
    from prometheus_client.registry import Collector

    from eo_listener.observers.metrics.families import Families
except ImportError as error:
    raise MissingExtraError("metrics", package="prometheus_client", extra="metrics") from error

PARTITIONS = 10_000
PATH: Final = "/metrics"
_GROUPS = 2_000  # groups, and also queries and runs, that have numbers of their own


class Prometheus(Collector):
    """Counts events, and offers the numbers to Prometheus, by `serve` or in your own registry.

        OffsetCommitListener(observers=[Prometheus(registry)])

    At most `partitions` partitions have series of their own; topics beyond this limit have only
    sums. As an observer, the object returns at once: it computes the metrics at each scrape.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, partitions: int = PARTITIONS
    ) -> None:
        self._counters = EventCounters(_GROUPS)
        self._families = Families(partitions)
        self._registry = CollectorRegistry() if registry is None else registry
        try:
            self._registry.register(self)
        except ValueError as error:
            raise SettingsError(
                "this registry already has the metrics of eo_listener",
                cause="another Prometheus() uses it",
                fix="Pass that object to every listener and every exactly_once, as an observer",
            ) from error
        self._server: BoundedServer | None = None

    def __call__(self, event: Event) -> None:
        """Count one event."""
        self._counters(event)

    def collect(self) -> Iterable[Metric]:
        """Return the current families; the registry calls this."""
        return list(self._families.draw(self._counters.numbers()))

    def describe(self) -> Iterable[Metric]:
        """Return the families without numbers: the registry needs their names for `?name[]=`."""
        return list(Families(0).draw(Numbers()))

    @property
    def port(self) -> int | None:
        """The port on which `serve` offers the numbers, or None if nothing serves them."""
        server = self._server  # another thread may call `close`
        return None if server is None else server.port

    def serve(self, port: int, address: str = LOOPBACK) -> int:
        """Serve the registry at `http://address:port/metrics`, and return the port.

        Port 0 means any free port.

        The default address is loopback, since the labels name topics, groups and servers, and there
        is no authentication. Raises SettingsError for an invalid port or address, and
        UnavailableError if the server cannot listen on the address.
        """
        require_port(port)
        require_address(address)
        self.close()
        try:
            handler = type("_OfThisRegistry", (_Handler,), {"registry": self._registry})
            self._server = BoundedServer(address, port, handler, name="metrics")
        except OSError as error:
            raise UnavailableError(
                f"metrics cannot be served at {address}:{port}: {error.strerror or error}",
                cause="another program or listener uses that port, or the address does not "
                "belong to this machine",
                fix="Give another port, or 0 for a free one",
            ) from error
        self._server.start()
        return self._server.port

    def close(self) -> None:
        """Stop serving, and keep the numbers."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class _Handler(BoundedHandler, MetricsHandler):
    """Answers one request."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
        """Send the numbers if the request has the path of the metrics."""
        if self._is_metrics_path():
            super().do_GET()

    def do_HEAD(self) -> None:  # noqa: N802  # http.server's name for it
        """Send the headers of a GET's answer, for clients that check whether the server is up."""
        if self._is_metrics_path():
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()

    def _is_metrics_path(self) -> bool:
        try:
            matches = urlsplit(self.path).path == PATH
        except ValueError as error:  # "http://[/metrics"
            self.send_error(400, f"The path cannot be read: {error}")
            return False
        if not matches:
            self.send_error(404, f"The metrics are at {PATH}")
        return matches
