"""The server as a browser, and as somebody who means harm, meets it; no Kafka is asked."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
from collections.abc import Iterator

import pytest

from eo_listener.cli.serve.groups_section import path_of
from eo_listener.cli.serve.page_server import AllowedHosts
from eo_listener.errors import KafkaError, SettingsError
from eo_listener.model.lag_window import LagVerdict
from tests.browser import Browser, chromium, program
from tests.cli.serve.made_up import HOSTILE, group, served, watched
from tests.threads import none_left

ALL = ["/", "/api/status", "/api/audit", "/metrics", "/healthz", "/page.css", "/nosuch", "/?page=x"]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


@pytest.fixture
def port() -> Iterator[int]:
    """A server of one group."""
    made, _, _ = watched([group("g", range(50), end=100)], times=3)
    with none_left(), served(made) as port:
        yield port


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


@pytest.mark.parametrize("path", ALL)
def test_every_answer_has_the_policy(port: int, path: str) -> None:
    """Nothing may be run, framed, kept, guessed or read from elsewhere, errors included."""
    answer, body = ask(port, path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for header, value in HEADERS.items():
        assert answer.headers[header] == value
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


@pytest.mark.parametrize("path", ALL)
def test_a_foreign_name_gets_nothing(port: int, path: str) -> None:
    """DNS rebinding: neither page nor numbers for a name that is not ours."""
    answer, body = ask(port, path, Host="evil.example.com")
    assert answer.status == 403
    assert b"--allow-host" in body
    assert b"flights" not in body


ONE_HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        (b"GET / HTTP/1.0", b""),
        (b"GET / HTTP/1.1", b""),
        (b"GET / HTTP/1.0", b"Host: evil.example.com\r\n" + ONE_HOST),
        (b"GET / HTTP/1.1", b"Host: evil.example.com\r\n" + ONE_HOST),
        *((line, ONE_HOST) for line in (b"GET", b"GET / HTTP/9.9", b"GET / x y HTTP/1.0")),
        *((line, ONE_HOST) for line in (b"\x00\xff / HTTP/1.0", b"<script> HTTP/1.0")),
    ],
)
def test_what_is_no_request_is_refused(port: int, line: bytes, hosts: bytes) -> None:
    """A request has one host. What was sent is not repeated."""
    answer = raw(port, line + b"\r\n" + hosts + b"\r\n")
    assert b" 200 " not in answer
    assert hosts == ONE_HOST or answer.startswith(b"HTTP/1.0 400")
    assert b"script" not in answer.partition(b"\r\n\r\n")[2]


def test_a_page_is_compressed_for_who_takes_it(port: int) -> None:
    """And for nobody else."""
    answer, body = ask(port, "/")
    assert "Content-Encoding" not in answer.headers
    packed, small = ask(port, "/", **{"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(small) < len(body)
    assert gzip.decompress(small).startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("address", "header", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:9405", True),
        ("127.0.0.1", "localhost:8080", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "[::1]:9405", True),
        ("127.0.0.1", "lag.example.com", True),
        ("127.0.0.1", "evil.example.com:9405", False),
        ("127.0.0.1", "127.0.0.1.evil.example.com", False),
        ("127.0.0.1", "localhost.evil.example.com", False),
        ("127.0.0.1", "10.0.0.7:9405", False),
        ("127.0.0.1", "evil@localhost", False),
        ("127.0.0.1", "localhost:9405:1", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[::1", False),
        ("10.0.0.7", "10.0.0.7:9405", True),
        ("0.0.0.0", "10.0.0.7:9405", True),  # noqa: S104  # what somebody may type
        ("0.0.0.0", "evil.example.com", False),  # noqa: S104  # what somebody may type
        ("::", "[fe80::1]:9405", True),
        ("::", "evil.example.com", False),
    ],
)
def test_only_our_own_names_are_served(address: str, header: str, allowed: bool) -> None:
    """A page of somebody else's can make its own name point here, but no other and no address."""
    assert AllowedHosts(address, ["lag.example.com"]).allows(header) is allowed


@pytest.mark.parametrize(
    "name", ["http://lag.example.com", "lag.example.com:80", "", "a b", "*.com"]
)
def test_a_name_that_is_none_is_wrong_use(name: str) -> None:
    """Also one with a port, which would never be compared."""
    with pytest.raises(SettingsError, match="--allow-host"):
        AllowedHosts("127.0.0.1", [name])


PHONE = 390
_CUT_OFF = """
[...document.querySelectorAll("body *")]
    .filter((one) => !one.closest(".wide") && one.getBoundingClientRect().right > innerWidth + 0.5)
    .map((one) => one.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests here."""
    path = program()
    if path is None:
        pytest.skip("no browser: install Chromium, or name it by EO_TEST_CHROMIUM")
    with chromium(path) as made:
        yield made


def test_nothing_is_cut_off_on_a_phone(browser: Browser) -> None:
    """Hostile names of any length, errors and commands: only tables are wider, and scroll."""
    found = [group(name, [1, 2], topic=name, verdict=LagVerdict.STOP) for name in HOSTILE]
    made, _, _ = watched([*found, group("refused", [], error=HOSTILE[-1])], times=20)
    made.audit_failed(HOSTILE[-1])
    with served(made) as port:
        for path in ("/", path_of(HOSTILE[0]), path_of(HOSTILE[-1])):
            page = browser.open(f"http://127.0.0.1:{port}{path}", width=PHONE)
            assert page.value("document.querySelectorAll('article').length") > 0
            assert page.value(_CUT_OFF) == []
            assert page.value("document.documentElement.scrollWidth") == PHONE


def test_hostile_names_do_nothing(browser: Browser) -> None:
    """No element and no script is made of them; the page's own style and script are there."""
    found = [group(name, [1], topic=name, query=name) for name in HOSTILE]
    made, reader, clock = watched(found, times=3)
    made.every = 1.0
    with served(made) as port:
        page = browser.open(f"http://127.0.0.1:{port}/", width=PHONE)
        assert page.value("document.querySelectorAll('img, body script, svg[onload]').length") == 0
        assert page.value("document.body.textContent.includes('<script>alert(1)</script>')")
        assert (
            page.value("getComputedStyle(document.querySelector('article')).borderRadius") != "0px"
        )
        clock.seconds += 10
        reader.found = [group("it-refreshed")]
        made.read_groups(reader)
        page.until("document.body.textContent.includes('it-refreshed')")


@pytest.mark.slow
def test_a_page_that_gets_no_answer_says_so(browser: Browser) -> None:
    """And while Kafka is away, that nothing is known."""
    made, reader, _ = watched([group("g")])
    made.every = 1.0
    with served(made) as port:
        page = browser.open(f"http://127.0.0.1:{port}/", width=PHONE)
        assert page.value("document.getElementById('old').hidden")
        reader.found = KafkaError("no broker answered", code="_TRANSPORT", fix="Start it")
        made.try_groups(reader)
        page.until("document.querySelector('.alert')?.textContent.includes('no broker answered')")
    page.until("!document.getElementById('old').hidden", 90)
    assert "No answer since" in page.value("document.getElementById('old').textContent")
