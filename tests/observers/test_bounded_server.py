"""The limits of the HTTP servers, whatever they serve."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from eo_listener.observers import bounded_server
from eo_listener.observers.bounded_server import BoundedHandler, BoundedServer
from tests.threads import none_left

GET = b"GET / HTTP/1.0\r\n\r\n"


class Hello(BoundedHandler):
    def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with none_left():
        server = BoundedServer("127.0.0.1", 0, Hello, name="test")
        server.start()
        yield "127.0.0.1", server.port
        server.stop()


def ask(address: tuple[str, int], request: bytes = GET) -> bytes:
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(request)
        with contextlib.suppress(ConnectionResetError):  # it was closed with bytes not yet read
            return b"".join(iter(lambda: client.recv(65536), b""))
    return b""


def test_one_who_is_silent_makes_room(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has done so for longest, and not before it has had some time."""
    monkeypatch.setattr(bounded_server, "_MOST_OPEN", 2)
    monkeypatch.setattr(bounded_server, "_LATE", 1000.0)
    with contextlib.ExitStack() as opened:
        first, second = (
            opened.enter_context(socket.create_connection(address, timeout=20)) for _ in range(2)
        )
        time.sleep(0.3)  # until both were taken
        assert ask(address).startswith(b"HTTP/1.0 503")
        monkeypatch.setattr(bounded_server, "_LATE", 0.0)
        assert ask(address).endswith(b"hello")
        assert first.recv(1) == b""
        second.sendall(GET)
        assert second.recv(1000).startswith(b"HTTP/1.0 200")


def test_one_being_answered_stays(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the answer takes: the next one is refused."""
    monkeypatch.setattr(bounded_server, "_MOST_OPEN", 1)
    monkeypatch.setattr(bounded_server, "_LATE", 0.0)
    begun, free = threading.Event(), threading.Event()

    def slow(self: Hello) -> None:
        begun.set()
        free.wait(20)
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nat last")

    monkeypatch.setattr(Hello, "do_GET", slow)
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(GET)
        assert begun.wait(20)
        assert ask(address).startswith(b"HTTP/1.0 503")
        free.set()
        assert client.recv(1000).endswith(b"at last")


def test_a_request_is_read_up_to_a_limit(address: tuple[str, int]) -> None:
    """Its line and its headers together."""
    for path, headers, answered in (
        (b"", b"X: " + b"x" * 16_000 + b"\r\n", True),
        (b"", b"X: " + b"x" * 17_000 + b"\r\n", False),
        (b"x" * 17_000, b"", False),
        (b"", b"X: x\r\n" * 20_000, False),
    ):
        request = b"GET /" + path + b" HTTP/1.0\r\n" + headers + b"\r\n"
        assert ask(address, request).endswith(b"hello") is answered


def test_a_server_that_was_never_started_can_be_stopped() -> None:
    """As after a first reading that has failed; its port is free then."""
    server = BoundedServer("127.0.0.1", 0, Hello, name="test")
    server.stop()
    socket.create_server(("127.0.0.1", server.port)).close()
