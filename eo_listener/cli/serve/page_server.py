"""The HTTP server of the page: allowed host names, requests, and the headers of responses."""

from __future__ import annotations

import gzip
import ipaddress
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from eo_listener.cli.serve.responses import Response, text
from eo_listener.errors import SettingsError
from eo_listener.observers.bounded_server import BoundedHandler, BoundedServer

_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:\[\]/@]+))(?::\d{1,5})?")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class AllowedHosts:
    """The allowed hosts: this machine's own names, the server's address, and `names`.

    Another site could make its own name resolve to 127.0.0.1 (DNS rebinding), and its page could
    then read this server's pages like its own. Such a request has that site's name in the header
    Host, which no page can change.

    If the server listens on all addresses, it allows any IP address, since only names can be made
    to resolve to another address. Raises SettingsError for an invalid name.
    """

    def __init__(self, address: str, names: Iterable[str] = ()) -> None:
        for name in names:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise SettingsError(
                    f"--allow-host must be a host name, got {name!r}",
                    fix="Write it as in the browser, without scheme or port: lag.example.com",
                )
        self._every = _is_wildcard(address)
        self._names = {_plain(name) for name in (*_LOCAL, address, *names)}

    def allows(self, header: str) -> bool:
        """Return True if `header`, a Host header, has an allowed name, with any port."""
        match = _HOST.fullmatch(header.strip())
        if match is None:
            return False
        name = match["six"] or match["name"]
        return _plain(name) in self._names or (self._every and _is_address(name))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_wildcard(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_COMPRESSED: Final = range(1_400, 1_000_000)
"""The sizes in bytes of bodies to compress; a larger body would take memory for each request."""

Answer = Callable[[str], Response]


class _Handler(BoundedHandler):
    """Answers one request. No request changes anything."""

    answer: Answer
    hosts: AllowedHosts

    def version_string(self) -> str:
        """Return the value of the header Server, which does not reveal Python's version."""
        return "eo-listener"

    def do_GET(self) -> None:  # noqa: N802  # http.server's name for it
        """Send the response."""
        self._send(self._found())

    def do_HEAD(self) -> None:  # noqa: N802  # http.server's name for it
        """Send the response without its body."""
        self._send(self._found())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002  # the library's
        """Answer a request that http.server refuses, with the same headers as any response."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:  # http.server's answer to any other method
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._send(text(status, status.description or status.phrase))

    def _found(self) -> Response:
        named = self.headers.get_all("Host", [])
        if len(named) != 1:
            return text(HTTPStatus.BAD_REQUEST, "the request must have one header Host")
        if not self.hosts.allows(named[0]):
            return text(
                HTTPStatus.FORBIDDEN,
                "this host name is not served. Fix: start with --allow-host and the name",
            )
        return self.answer(self.path)

    def _send(self, response: Response) -> None:
        self.request_version = "HTTP/1.0"  # a request of HTTP/0.9 would get no headers
        body, packed = response.body, False
        if len(body) in _COMPRESSED and self._takes_gzip():
            body, packed = gzip.compress(body, 5), True
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _takes_gzip(self) -> bool:
        headers: Any = getattr(self, "headers", None)  # none before the request was read
        accepted = "" if headers is None else headers.get("Accept-Encoding", "")
        return any(encoding.strip() == "gzip" for encoding in accepted.split(","))


class PageServer(BoundedServer):
    """Serves the responses of `answer` to requests for a name that `hosts` allows."""

    def __init__(self, address: str, port: int, answer: Answer, hosts: AllowedHosts) -> None:
        members = {"answer": staticmethod(answer), "hosts": hosts}
        super().__init__(address, port, type("_OfThisPage", (_Handler,), members), name="serve")
