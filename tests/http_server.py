"""An HTTP server of a test's own, on a free port of this machine."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a line on standard error for each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Stay quiet."""


@contextmanager
def serving(handler: type[QuietHandler], *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve, and give the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="http server of a test")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
