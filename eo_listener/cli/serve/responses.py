"""Makes the response to the path of a request. Uses no socket, so that tests need no server."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from eo_listener.cli.serve.page import group_page, overview
from eo_listener.cli.serve.watched import Groups, Reading, Unknown, View
from eo_listener.errors import MissingExtraError

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
        from eo_listener.observers.metrics import status_families as metrics  # noqa: PLC0415  # needs the extra
    except ImportError as error:
        lacking = MissingExtraError("/metrics", package=error.name or "", extra="metrics")
        return text(HTTPStatus.NOT_IMPLEMENTED, str(lacking))
    kind = "text/plain; version=0.0.4; charset=utf-8"
    groups, audit = view.groups, view.audit
    audited = None
    if isinstance(audit, Reading):
        result = audit.value
        audited = metrics.AuditNumbers(
            at=audit.at.wall,
            lost=result.lost,
            doubled=result.doubled,
            to_act_on=result.to_act_on,
            complete=result.complete,
        )
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
