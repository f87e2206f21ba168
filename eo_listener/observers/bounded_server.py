"""An HTTP server that limits the number and duration of connections, and a request's size.

The functions here also check the address and the port on which it is to listen.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import sys
import threading
import time
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from eo_listener.errors import SettingsError

_SILENCE: Final = 10.0  # seconds without a byte after which a connection is closed
_LONGEST: Final = 30.0  # seconds after which a connection is closed in any case
_LATE: Final = 0.1  # seconds without a whole request, after which a new connection may replace it
_MOST_OPEN: Final = 32  # connections, each with a thread; a scraper has one
_REQUEST: Final = 16 * 1024  # bytes of a request, including its headers
_POLL: Final = 0.1  # seconds between two checks for connections to close

_TOO_MANY: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 10\r\n\r\n"
    b"%d connections are open already\n" % _MOST_OPEN
)

logger = logging.getLogger("eo_listener")


LOOPBACK: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65535


def require_port(port: object, setting: str = "metrics_port") -> None:
    """Raise SettingsError unless `port` is a number from 0 to 65535."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _HIGHEST_PORT:
        raise SettingsError(
            f"{setting} must be from 0 to {_HIGHEST_PORT}, got {port!r}",
            fix="Give a port, or 0 for any free port",
        )


def require_address(address: object, setting: str = "metrics_address") -> None:
    """Raise SettingsError for an empty address, which would silently mean all interfaces."""
    if not isinstance(address, str) or not address.strip():
        raise SettingsError(
            f"{setting} must be a host name or an IP address, got {address!r}",
            cause="a variable may be unset; an empty address would mean all interfaces",
            fix=f"Give {LOOPBACK} for this machine only, or 0.0.0.0 for the whole network",
        )


class _BoundedRequest:
    """The stream of a client's request, of at most `_REQUEST` bytes.

    Reading more bytes raises LineTooLong, which http.server answers with status 431.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._remaining = _REQUEST

    def readline(self, limit: int) -> bytes:
        if self._remaining <= 0:
            raise LineTooLong("request")
        line: bytes = self._stream.readline(min(limit, self._remaining))
        self._remaining -= len(line)
        return line

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers one request of a `BoundedServer`."""

    timeout = _SILENCE
    server: BoundedServer

    def setup(self) -> None:
        """Limit the size of the request."""
        super().setup()
        self.rfile: Any = _BoundedRequest(self.rfile)

    def parse_request(self) -> bool:
        """Read the request, and tell the server not to replace this connection by a newer one."""
        whole = super().parse_request()
        if whole:
            self.server.keep(self.request)
        return whole

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's
        """Print nothing; a request needs no log line."""


class BoundedServer(ThreadingHTTPServer):
    """Answers each request on a new thread, which ends with the answer.

    The server's log lines and its thread have the `name`. Raises OSError if the server cannot
    listen on the address.
    """

    daemon_threads = True
    request_queue_size = 128  # with the library's 5, a few simultaneous browsers wait for a second

    def __init__(
        self, address: str, port: int, handler: type[BoundedHandler], *, name: str
    ) -> None:
        if ":" in address:
            self.address_family = socket.AF_INET6
        self._name = name
        self._open: dict[Any, float] = {}
        self._asking: set[Any] = set()
        self._open_lock = threading.Lock()
        super().__init__((address, port), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name=f"eo-listener-{name}", daemon=True
        )

    @property
    def port(self) -> int:
        """The port on which the server listens, even if port 0 (any free port) was requested."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind to the address; skip HTTPServer's look-up of a host name, which may be slow."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # override
        """Return True if the limit allows this connection; close a slow connection if needed."""
        with self._open_lock:
            if len(self._open) >= _MOST_OPEN:
                self._close_slowest()
            free = len(self._open) < _MOST_OPEN
        if not free:
            with contextlib.suppress(OSError):  # the other side has closed it
                request.sendall(_TOO_MANY)
        return free

    def _close_slowest(self) -> None:
        """Close the slowest connection, so that slow clients do not keep out other clients."""
        since, slowest = min(
            ((self._open[request], request) for request in self._asking),
            key=lambda entry: entry[0],
            default=(0.0, None),
        )
        if slowest is not None and time.monotonic() - since >= _LATE:
            del self._open[slowest]
            self._asking.discard(slowest)
            _wake(slowest)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer a request, and record the time."""
        with self._open_lock:
            self._open[request] = time.monotonic()
            self._asking.add(request)
        super().process_request(request, client_address)

    def keep(self, request: Any) -> None:
        """Record that a connection has sent its whole request."""
        with self._open_lock:
            self._asking.discard(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, after its answer or because it was too slow."""
        with self._open_lock:
            self._open.pop(request, None)
            self._asking.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that take too long, even if they still send a byte now and then.

        `serve_forever` calls this method repeatedly.
        """
        until = time.monotonic() - _LONGEST
        with self._open_lock:
            for request, since in self._open.items():
                if since < until:
                    _wake(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # override
        """Log an error, at DEBUG if the client closed the connection.

        socketserver itself would print a traceback.
        """
        fault = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(fault, OSError) else logging.ERROR
        # Not the whole text: the text of a UnicodeEncodeError holds all the numbers.
        logger.log(
            level,
            "%s: cannot answer a request: %s: %.200s",
            self._name,
            type(fault).__name__,
            fault,
        )

    def start(self) -> None:
        """Begin to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port, and end the thread."""
        if self._thread.ident is not None:  # else `shutdown` would wait forever for the thread
            self.shutdown()
        self.server_close()
        if self._thread.ident is not None:
            self._thread.join(5.0)


def _wake(request: Any) -> None:
    """Shut down a connection, so that its thread wakes up and closes it."""
    with contextlib.suppress(OSError):  # the other side has closed it
        request.shutdown(socket.SHUT_RDWR)
