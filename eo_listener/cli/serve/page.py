"""Renders the whole page: the newest readings, their times, and the last errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.cli.options import utc
from eo_listener.cli.serve.audit_reading import AuditReading
from eo_listener.cli.serve.audit_section import audit_section, found_to_act_on
from eo_listener.cli.serve.elements import cut, html, node
from eo_listener.cli.serve.groups_section import (
    alarms,
    by_gravity,
    group_section,
    groups_section,
    legend,
    path_of,
)
from eo_listener.cli.serve.readings import LoggedError, Moment, Reading, Unknown
from eo_listener.cli.serve.watched import Groups, View
from eo_listener.errors import length
from eo_listener.version import __version__

_LEAST: Final = 2.0  # seconds between two requests of a browser
_TEXT: Final = 2_000


def overview(view: View, page: int = 1) -> bytes:
    """Render the overview: problems and their fixes, all groups, the audit, and the last errors."""
    groups = view.groups
    ordered = () if isinstance(groups, Unknown) else by_gravity(groups.value)
    raised = list(alarms(view, ordered))
    return html(
        _document(
            view,
            _title(view, ordered, raised),
            _to_act_on(view, raised),
            _unknown(view, "groups", groups)
            if isinstance(groups, Unknown)
            else groups_section(view, ordered, page),
            _audit(view),
            _errors(view),
            None if page > 1 else legend(),
        )
    )


def _to_act_on(view: View, raised: Sequence[Element]) -> Element | None:
    """Return the section with the problems that need action, or None if there are none."""
    wrong = list(raised)
    if isinstance(view.audit, Reading):
        wrong += found_to_act_on(view.audit.value)
    return node("section", node("h2", "to act on"), *wrong) if wrong else None


def group_page(view: View, path: str) -> bytes | None:
    """Render the page of the group with `path`, or return None if there is no such group."""
    groups = view.groups
    back = node("nav", node("a", "all groups", href="/"))
    if isinstance(groups, Unknown):
        return html(_document(view, "unknown", back, _unknown(view, "groups", groups)))
    for group in groups.value:
        if path_of(group.group) == path:
            section = group_section(view, group)
            return html(_document(view, cut(group.group, 50), back, section, legend()))
    for name, at in view.gone.items():
        if path_of(name) == path:
            when = utc(round(view.wall(at) * 1000))
            text = f"group {cut(name)} is no longer there; it held offsets until {when}"
            return html(_document(view, cut(name, 50), back, _alert(text)))
    return None


def _title(view: View, ordered: Groups, raised: Sequence[Element]) -> str:
    """Return the title of the browser tab, which begins with the gravest verdict."""
    if isinstance(view.groups, Unknown):
        return "unknown"
    audited = isinstance(view.audit, Reading) and view.audit.value.to_act_on
    if audited and not raised:
        return "audit: to act on"
    if not ordered:
        return "no group"
    first = ordered[0]
    verdict = "" if first.verdict is None else f"{first.verdict.value} "
    return verdict + cut(first.group, 50)


def _document(view: View, title: str, *sections: Element | None) -> Element:
    every = max(_LEAST, view.every)
    head = node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", name="viewport", content="width=device-width, initial-scale=1"),
        node("meta", name="color-scheme", content="light dark"),
        node("title", f"{title} - eo-listener"),
        node("link", rel="stylesheet", href="/page.css"),
        node("noscript", node("meta", http_equiv="refresh", content=f"{every:.0f}")),
        node("script", src="/page.js", defer="defer"),
    )
    main = node("main", *(section for section in sections if section is not None), id="main")
    body = node(
        "body",
        node("header", node("h1", "eo-listener"), _read(view)),
        node("p", "", id="old", role="alert", hidden="hidden"),
        main,
        _footer(view),
        data_every=f"{every:g}",
    )
    return node("html", head, body, lang="en")


def _read(view: View) -> Element:
    """Return the line with the cluster's servers and the time of the groups' reading."""
    groups = view.groups
    when = "no current reading" if isinstance(groups, Unknown) else f"as of {_ago(view, groups.at)}"
    text = f"{cut(view.servers)}: {when}, read every {view.every:g} s"
    return node("p", text, id="read")


def _ago(view: View, at: Moment) -> str:
    past = view.now.monotonic - at.monotonic
    return f"{utc(round(at.wall * 1000))} ({length(past)} ago)"


def _unknown(view: View, subject: str, unknown: Unknown) -> Element:
    """Return the alert that there is no current reading of `subject`.

    The page shows no old numbers, since readers would mistake them for current numbers.
    """
    since = "" if unknown.since is None else f", since {_ago(view, unknown.since)}"
    return _alert(f"Nothing is known of the {subject}{since}: {cut(unknown.error, _TEXT)}")


def _alert(text: str) -> Element:
    return node("section", node("p", text, cls="alert", role="alert"))


def _audit(view: View) -> Element | None:
    audit: Reading[AuditReading] | Unknown | None = view.audit
    if audit is None:
        return None
    if isinstance(audit, Unknown):
        return _unknown(view, "audit", audit)
    section = audit_section(audit.value)
    section.insert(1, node("p", f"as of {_ago(view, audit.at)}"))
    return section


def _errors(view: View) -> Element | None:
    if not view.errors:
        return None
    return node(
        "section",
        node("h2", "last errors"),
        node("ul", *map(_error, view.errors), cls="errors"),
    )


def _error(error: LoggedError) -> Element:
    times = (
        ""
        if error.times == 1
        else f", {error.times:,} times since {utc(round(error.first * 1000))}"
    )
    when = f"{utc(round(error.last * 1000))}{times}"
    return node("li", node("small", when), " ", f"{cut(error.about)}: {cut(error.error, _TEXT)}")


def _footer(view: View) -> Element:
    audit = () if view.audit is None else ("/api/audit",)
    paths = ("/api/status", *audit, "/metrics", "/healthz")
    links = [node("a", path, href=path) for path in paths]
    return node("footer", *links, node("span", f"eo-listener {__version__}"))
