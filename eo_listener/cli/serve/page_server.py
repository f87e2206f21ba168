"""The HTTP server of the page: allowed host names, the response to each path, its headers.

`respond` uses no socket, so that tests need no server.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from eo_listener.cli.options import picked
from eo_listener.cli.serve.page import group_page, overview
from eo_listener.cli.serve.watched import Groups, Reading, Unknown, View
from eo_listener.errors import MissingExtraError, SettingsError
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
            if not _NAME.fullmatch(name) and _address(name) is None:
                raise SettingsError(
                    f"--allow-host must be a host name, got {name!r}",
                    fix="Write it as in the browser, without scheme or port: lag.example.com",
                )
        listens = _address(address)
        self._every = listens is not None and listens.is_unspecified
        self._names = {_plain(name) for name in (*_LOCAL, address, *names)}

    def allows(self, header: str) -> bool:
        """Return True if `header`, a Host header, has an allowed name, with any port."""
        match = _HOST.fullmatch(header.strip())
        if match is None:
            return False
        name = match["six"] or match["name"]
        return _plain(name) in self._names or (self._every and _address(name) is not None)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


_GROUP: Final = re.compile(r"/group/[0-9a-f]{16}")
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_FILES: Final = {
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response; `kind` is the content type of `body`."""

    status: HTTPStatus
    kind: str
    body: bytes


def respond(view: View, problems: list[str], target: str) -> Response:
    """Return the response to a GET of `target`. `problems` are the reasons why readings stopped."""
    try:
        parts = urlsplit(target)
        page = _page(parts.query)
    except ValueError:  # "http://[/", or page=x
        return text(HTTPStatus.BAD_REQUEST, "the path cannot be read")
    if parts.path in _FILES:
        name, kind = _FILES[parts.path]
        return Response(HTTPStatus.OK, kind, _file(name))
    match parts.path:
        case "/":
            return Response(HTTPStatus.OK, _HTML, overview(view, page))
        case "/api/status":
            return _status(view)
        case "/api/audit":
            return _audit(view)
        case "/metrics":
            return _metrics(view)
        case "/healthz":
            return _health(view, problems)
        case path if _GROUP.fullmatch(path) and (body := group_page(view, path)) is not None:
            return Response(HTTPStatus.OK, _HTML, body)
    return text(HTTPStatus.NOT_FOUND, "not found; the page is at /")


def text(status: HTTPStatus, line: str) -> Response:
    """Return a response with one line of text."""
    return Response(status, _TEXT, f"{line}\n".encode())


def _page(query: str) -> int:
    """Return the number in the parameter `page`, by default 1. Raises ValueError."""
    number = parse_qs(query, max_num_fields=10).get("page", ["1"])[0]
    if not re.fullmatch(r"[0-9]{1,6}", number):
        raise ValueError(number)
    return max(1, int(number))


@cache
def _file(name: str) -> bytes:
    return (resources.files(__package__) / name).read_bytes()


def _document(status: HTTPStatus, document: dict[str, Any]) -> Response:
    return Response(status, _JSON, _encoded(document))


def _encoded(document: dict[str, Any]) -> bytes:
    """Encode a document, with escapes beyond ASCII, since a lone surrogate has no encoding."""
    return json.dumps(document).encode() + b"\n"


def _unknown(view: View, unknown: Unknown) -> Response:
    """Return the response for a missing current reading.

    The response has no numbers, because readers could mistake old numbers for current ones.
    """
    since = None if unknown.since is None else unknown.since.wall
    errors = [asdict(error) for error in view.errors]
    answer = {"error": unknown.error, "known_until": since, "errors": errors}
    return _document(HTTPStatus.SERVICE_UNAVAILABLE, answer)


def _status(view: View) -> Response:
    groups = view.groups
    if isinstance(groups, Unknown):
        return _unknown(view, groups)
    return Response(HTTPStatus.OK, _JSON, groups.once("status", lambda _: _groups(view, groups)))


def _groups(view: View, reading: Reading[Groups]) -> bytes:
    return _encoded(
        {
            "servers": view.servers,
            "read_at": reading.at.wall,
            "groups": [group.document() for group in reading.value],
            "errors": [asdict(error) for error in view.errors],
        }
    )


def _audit(view: View) -> Response:
    audit = view.audit
    if audit is None:
        line = "no audit was requested: start with --checkpoint, --ledger or -g"
        return _document(HTTPStatus.NOT_FOUND, {"error": line})
    if isinstance(audit, Unknown):
        return _unknown(view, audit)
    at = audit.at.wall
    body = audit.once("audit", lambda reading: _encoded({"read_at": at, **reading.document}))
    return Response(HTTPStatus.OK, _JSON, body)


def _metrics(view: View) -> Response:
    try:
        from eo_listener.observers.metrics import families as metrics  # noqa: PLC0415  # needs the extra
    except ImportError as error:
        lacking = MissingExtraError("/metrics", package=error.name or "", extra="metrics")
        return text(HTTPStatus.NOT_IMPLEMENTED, str(lacking))
    kind = "text/plain; version=0.0.4; charset=utf-8"
    groups, audit = view.groups, view.audit
    audited = None
    if isinstance(audit, Reading):
        numbers = picked(audit.value, "lost", "doubled", "to_act_on", "complete")
        audited = metrics.AuditNumbers(at=audit.at.wall, **numbers)
    behind = metrics.exposed_audit(audited)
    if isinstance(groups, Unknown):
        nothing = metrics.exposed(metrics.StatusNumbers(cluster=view.servers))
        return Response(HTTPStatus.OK, kind, nothing + behind)

    def expose(statuses: Groups) -> bytes:
        numbers = [
            metrics.GroupNumbers(
                group.group, group.rows, group.age, group.verdict, group.error is None
            )
            for group in statuses
        ]
        return metrics.exposed(
            metrics.StatusNumbers(cluster=view.servers, at=groups.at.wall, groups=numbers)
        )

    return Response(HTTPStatus.OK, kind, groups.once("metrics", expose) + behind)


def _health(view: View, problems: list[str]) -> Response:
    """Report whether this process still reads; it is healthy even if Kafka is unreachable."""
    if problems:
        return text(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(problems))
    state = "nothing is known of the groups" if isinstance(view.groups, Unknown) else "groups read"
    return text(HTTPStatus.OK, f"ok, {state}")


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
        """Send the response; `_send` leaves out its body for a HEAD."""
        self._send(self._found())

    do_HEAD = do_GET  # noqa: N815  # http.server's name for it

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
