"""Renders the whole page: the newest readings, their times, and the last errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.audit.position_finding import PositionFinding
from eo_listener.cli.options import utc
from eo_listener.cli.serve.audit_reading import AuditReading, LastBatches, WholeBatch
from eo_listener.cli.serve.elements import cut, excess, html, node, number, table
from eo_listener.cli.serve.groups_section import (
    alarms,
    by_gravity,
    group_section,
    groups_section,
    legend,
    path_of,
)
from eo_listener.cli.serve.watched import Groups, LoggedError, Moment, Reading, Unknown, View
from eo_listener.errors import counted, length
from eo_listener.model.check_finding import Severity
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


_FINDINGS: Final = 50
_LEDGERS: Final = 20
_FINDING: Final = 4_000  # characters of a text
_KINDS: Final = {
    Severity.FINE: "good",
    Severity.NOTE: "",
    Severity.WARNING: "warn",
    Severity.PROBLEM: "bad",
}


def found_to_act_on(audit: AuditReading) -> Iterator[Element]:
    """Yield the verdict and the findings that need action, if any, the gravest first."""
    wrong = [finding for finding in reversed(audit.findings) if finding.matters]
    if not wrong:
        return
    yield node("p", node("strong", f"audit: {audit.verdict}", cls="bad"))
    for finding in wrong[:_FINDINGS]:
        yield _finding(finding)
    if len(wrong) > _FINDINGS:
        yield node("p", f"and {len(wrong) - _FINDINGS:,} more findings; /api/audit has them all")


def audit_section(audit: AuditReading) -> Element:
    """Return the section with verdict, other findings, positions, and ledgers' last batches."""
    rest = [finding for finding in reversed(audit.findings) if not finding.matters]
    kind = "bad" if audit.to_act_on else "good"
    return node(
        "section",
        node("h2", "audit"),
        node("p", node("strong", audit.verdict, cls=kind)),
        _fine(rest),
        _positions(audit),
        *(_ledger(ledger) for ledger in audit.ledgers[:_LEDGERS]),
    )


def _fine(rest: Sequence[PositionFinding]) -> Element | None:
    """Return the findings that need no action, as a collapsed list, or None if there are none."""
    if not rest:
        return None
    return node(
        "details",
        node("summary", f"{counted(len(rest), 'finding')} without need for action"),
        *(_finding(finding) for finding in rest[:_FINDINGS]),
        excess(len(rest), _FINDINGS, "more findings; /api/audit has them all"),
        id="fine",
    )


def _finding(finding: PositionFinding) -> Element:
    return node(
        "article",
        node(
            "p",
            node("strong", finding.severity.value, cls=f"badge {_KINDS[finding.severity]}"),
            f" {cut(finding.about)}: {cut(finding.what, _FINDING)}",
        ),
        *_advice(finding),
        cls="wrong" if finding.matters else None,
    )


def _advice(finding: PositionFinding) -> Iterator[Element]:
    if not finding.matters:
        return
    if finding.cause:
        yield node("p", f"cause: {cut(finding.cause, _FINDING)}")
    if finding.fix:
        yield node("pre", cut(finding.fix, _FINDING))


def _positions(audit: AuditReading) -> Element | None:
    if not audit.rows:
        return None
    more = f", the first {len(audit.rows)} of them" if audit.partitions > len(audit.rows) else ""
    rows: list[list[str | Element]] = [
        [node("strong", cut(cell)) if bad else cut(cell) for cell in row] for row, bad in audit.rows
    ]
    return node(
        "details",
        node("summary", f"positions of {counted(audit.partitions, 'partition')}{more}"),
        table(list(map(cut, audit.headings)), rows, cls="numbers"),
        id="positions",
    )


def _ledger(ledger: LastBatches) -> Element:
    return node(
        "article",
        node("h3", f"ledger of sink {cut(ledger.sink)}, query {cut(ledger.query)}"),
        node("p", cut(ledger.store)),
        node("p", f"batch {ledger.begun} was begun and is not finished", cls="warn")
        if ledger.begun is not None
        else None,
        table(
            ["batch", "run", "partitions", "offsets", "rows", "gap", "applied at"],
            [_batch(batch) for batch in ledger.batches],
            cls="batches",
        )
        if ledger.batches
        else node("p", "nothing was applied yet"),
    )


def _batch(batch: WholeBatch) -> list[str | Element]:
    return [
        str(batch.batch),
        batch.run[:8],
        number(batch.partitions),
        number(batch.offsets),
        number(batch.rows),
        number(batch.gap_offsets),
        cut(batch.applied_at or "-"),
    ]


def _errors(view: View) -> Element | None:
    if not view.errors:
        return None
    return node(
        "section", node("h2", "last errors"), node("ul", *map(_error, view.errors), cls="errors")
    )


def _error(error: LoggedError) -> Element:
    when = utc(round(error.last * 1000))
    if error.times > 1:
        when += f", {error.times:,} times since {utc(round(error.first * 1000))}"
    return node("li", node("small", when), " ", f"{cut(error.about)}: {cut(error.error, _TEXT)}")


def _footer(view: View) -> Element:
    audit = () if view.audit is None else ("/api/audit",)
    paths = ("/api/status", *audit, "/metrics", "/healthz")
    links = [node("a", path, href=path) for path in paths]
    return node("footer", *links, node("span", f"eo-listener {__version__}"))
