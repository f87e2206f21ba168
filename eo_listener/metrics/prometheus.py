"""The observer that Prometheus scrapes."""

from __future__ import annotations

import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Iterable
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from eo_listener.errors import UnavailableError
from eo_listener.events import Event
from eo_listener.metrics.families import Families
from eo_listener.metrics.tally import Tally
from eo_listener.settings import LOOPBACK, require_address, require_port

PARTITIONS = 10_000
_GROUPS = 2_000  # groups, and queries and runs, that have numbers of their own

logger = logging.getLogger("eo_listener")


class Prometheus(Collector):
    """Counts events; Prometheus gets the numbers from `serve`, or from a registry of yours.

        OffsetCommitListener(observers=[Prometheus(registry)])

    At most `partitions` have series of their own; of a topic beyond that there are sums. As an
    observer it returns at once: the arithmetic is done when somebody asks for the numbers.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, partitions: int = PARTITIONS
    ) -> None:
        self._tally = Tally(_GROUPS)
        self._families = Families(partitions)
        self._registry = CollectorRegistry() if registry is None else registry
        self._registry.register(self)
        self._server: _Server | None = None

    def __call__(self, event: Event) -> None:
        """Count one event."""
        self._tally(event)

    def collect(self) -> Iterable[Metric]:
        """The families as they are now; called by the registry."""
        return list(self._families.draw(self._tally.numbers()))

    def describe(self) -> Iterable[Metric]:
        """Nothing: so that registering does not ask for numbers."""
        return ()

    @property
    def port(self) -> int | None:
        """Where the numbers are served; None while they are not."""
        server = self._server  # another thread may close it
        return None if server is None else int(server.server_address[1])

    def serve(self, port: int, address: str = LOOPBACK) -> int:
        """Serve the registry at `http://address:port/metrics`; return the port, for 0 a free one.

        Bound to loopback unless told otherwise: the numbers name topics, groups and servers, and
        nobody is asked who they are. Raises SettingsError for a port or address that is none, and
        UnavailableError when the address cannot be listened on.
        """
        require_port(port)
        require_address(address)
        self.close()
        try:
            self._server = _Server(address, port, self._registry)
        except OSError as error:
            raise UnavailableError(
                f"metrics cannot be served at {address}:{port}: {error.strerror or error}",
                cause="another program, or another listener, has that port, or the address is not "
                "one of this machine",
                fix="Give another port, or 0 for a free one",
            ) from error
        self._server.start()
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no more; the numbers stay."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class _Server(ThreadingHTTPServer):
    """Answers scrapes, each on a thread of its own that ends with the answer."""

    daemon_threads = True

    def __init__(self, address: str, port: int, registry: CollectorRegistry) -> None:
        # A scraper that connects and says nothing must not keep its thread for ever.
        handler = type("_Handler", (MetricsHandler,), {"registry": registry, "timeout": 10.0})
        if ":" in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, port), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.1,), name="eo-listener-metrics", daemon=True
        )

    def server_bind(self) -> None:
        """Bind; HTTPServer's own asks a name server for the host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the library's
        """A scraper that hung up is no news; socketserver would print a traceback of it."""
        fault = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(fault, OSError) else logging.ERROR
        logger.log(level, "metrics: a request could not be answered: %r", fault)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port, and end the thread."""
        self.shutdown()
        self.server_close()
        self._thread.join(5.0)
