"""The server as a browser, and as somebody who means harm, meets it; no Kafka is asked."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from eo_listener.cli.serve.hosts import AllowedHosts
from eo_listener.cli.serve.page_server import PageServer
from eo_listener.cli.serve.responses import respond
from tests.cli.serve.made_up import group, watched
from tests.threads import none_left

PATHS = (
    "/",
    "/api/status",
    "/api/audit",
    "/metrics",
    "/healthz",
    "/page.css",
    "/nosuch",
    "/?page=x",
)


@pytest.fixture
def port() -> Iterator[int]:
    """A server of one group."""
    made, _, _ = watched([group("g", range(50), end=100)], times=3)
    with none_left():
        server = PageServer(
            "127.0.0.1",
            0,
            lambda target: respond(made.view(), [], target),
            AllowedHosts("127.0.0.1"),
        )
        server.start()
        yield server.port
        server.stop()


def ask(
    port: int, path: str = "/", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request)
        with contextlib.suppress(ConnectionResetError):  # it was closed with bytes not yet read
            return b"".join(iter(lambda: client.recv(65536), b""))
    return b""


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_policy(port: int, path: str) -> None:
    """Nothing may be run, framed, kept, guessed or read from elsewhere, errors included."""
    answer, body = ask(port, path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]
    assert len(body) == int(answer.headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "NOSUCH"])
def test_nothing_but_get_and_head(port: int, method: str) -> None:
    """405 with what is allowed, and the policy."""
    answer, _ = ask(port, "/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert "Content-Security-Policy" in answer.headers


def test_head_is_what_get_begins_with(port: int) -> None:
    """The same headers, no body."""
    head, body = raw(port, b"HEAD /page.css HTTP/1.0\r\nHost: localhost\r\n\r\n").split(b"\r\n\r\n")
    answer, there = ask(port, "/page.css")
    assert body == b""
    assert f"Content-Length: {len(there)}\r\n".encode() in head
    assert answer.headers["Content-Length"] == str(len(there))


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_name_gets_nothing(port: int, path: str) -> None:
    """DNS rebinding: neither page nor numbers for a name that is not ours."""
    answer, body = ask(port, path, Host="evil.example.com")
    assert answer.status == 403
    assert b"--allow-host" in body
    assert b"flights" not in body


def test_a_request_has_one_host(port: int) -> None:
    """None or two are refused, whatever the version of HTTP."""
    for head in (b"", b"Host: localhost\r\nHost: evil.example.com\r\n"):
        for version in (b"1.0", b"1.1"):
            assert raw(port, b"GET / HTTP/" + version + b"\r\n" + head + b"\r\n").startswith(
                b"HTTP/1.0 400"
            )


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET",
        b"GET / HTTP/9.9",
        b"\x00\xff / HTTP/1.0",
        b"GET / x y HTTP/1.0",
        b"<script> HTTP/1.0",
    ],
)
def test_what_is_no_request_is_refused(port: int, request_line: bytes) -> None:
    """In words of ours: what was sent is not repeated."""
    answer = raw(port, request_line + b"\r\nHost: localhost\r\n\r\n")
    assert b" 200 " not in answer
    assert b"script" not in answer.partition(b"\r\n\r\n")[2]


def test_a_request_of_any_size_is_bounded(port: int) -> None:
    """A path, one header and many headers beyond 16 KB are refused before they are kept."""
    for request in (
        b"GET /" + b"x" * 100_000 + b" HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: localhost\r\n" + b"X: xxxxxxxxxxx\r\n" * 5000 + b"\r\n",
    ):
        assert raw(port, request)[:12] in (b"HTTP/1.0 431", b"HTTP/1.0 414", b"")


def test_a_page_is_compressed_for_who_takes_it(port: int) -> None:
    """And for nobody else."""
    answer, body = ask(port, "/")
    assert "Content-Encoding" not in answer.headers
    packed, small = ask(port, "/", **{"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(small) < len(body)
    assert gzip.decompress(small).startswith(b"<!DOCTYPE html>")


def test_fifty_slow_clients_lock_nobody_out(port: int) -> None:
    """Each sends a byte now and then, and connects again: a browser is answered all the same."""
    ended = threading.Event()

    def drip() -> None:
        while not ended.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=5) as client,
            ):
                client.sendall(b"GET / HTTP/1.0\r\nX: ")
                while not ended.wait(0.1):
                    client.sendall(b"x")
            ended.wait(0.05)

    dripping = [threading.Thread(target=drip, daemon=True) for _ in range(50)]
    for one in dripping:
        one.start()
    try:
        time.sleep(0.5)
        answered = 0
        deadline = time.monotonic() + 60
        while answered < 20:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answered += ask(port, "/healthz")[0].status == 200
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ours = [one for one in threading.enumerate() if "process_request" in one.name]
        assert len(ours) < 80
    finally:
        ended.set()
        for one in dripping:
            one.join(10)
