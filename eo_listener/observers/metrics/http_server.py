"""The HTTP server that Prometheus scrapes."""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

PATH: Final = "/metrics"
_SILENCE: Final = 10.0  # seconds without a byte after which a connection is closed
_LONGEST: Final = 30.0  # seconds after which it is closed in any case
_MOST_OPEN: Final = 32  # connections, each with a thread; a scraper has one
_POLL: Final = 0.1  # seconds between two checks for what is to be closed

_TOO_MANY: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\n\r\n"
    b"%d connections are open already\n" % _MOST_OPEN
)

logger = logging.getLogger("eo_listener")


class _Handler(MetricsHandler):
    """Answers one request."""

    timeout = _SILENCE

    def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
        """The numbers, at their path alone."""
        if self._is_ours():
            super().do_GET()

    def do_HEAD(self) -> None:  # noqa: N802  # http.server's name for it
        """What a GET would begin with, for those that only ask whether somebody is there."""
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


class MetricsServer(ThreadingHTTPServer):
    """Answers scrapes, each on a thread of its own that ends with the answer."""

    daemon_threads = True

    def __init__(self, address: str, port: int, registry: CollectorRegistry) -> None:
        handler = type("_OfThisRegistry", (_Handler,), {"registry": registry})
        if ":" in address:
            self.address_family = socket.AF_INET6
        self._open: dict[Any, float] = {}
        self._open_lock = threading.Lock()
        super().__init__((address, port), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name="eo-listener-metrics", daemon=True
        )

    def server_bind(self) -> None:
        """Bind; HTTPServer's own asks a name server for the host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # the library's
        """Refuse one too many; those that are silent are closed soon, and make room."""
        with self._open_lock:
            free = len(self._open) < _MOST_OPEN
        if not free:
            with contextlib.suppress(OSError):  # the other side has closed it
                request.sendall(_TOO_MANY)
        return free

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer, and note since when."""
        with self._open_lock:
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """It was answered, or given up."""
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close what takes too long: one that sends a byte now and then is never silent.

        Called by `serve_forever` again and again.
        """
        until = time.monotonic() - _LONGEST
        with self._open_lock:
            late = [request for request, since in self._open.items() if since < until]
            for request in late:
                with contextlib.suppress(OSError):  # the other side has closed it
                    request.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the library's
        """A scraper that hung up is no news; socketserver would print a traceback of it."""
        fault = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(fault, OSError) else logging.ERROR
        # Not the whole of it: one of UnicodeEncodeError holds all the numbers.
        logger.log(
            level,
            "metrics: a request could not be answered: %s: %.200s",
            type(fault).__name__,
            fault,
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port, and end the thread."""
        self.shutdown()
        self.server_close()
        self._thread.join(5.0)
