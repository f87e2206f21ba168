"""What the page shows of an audit: its verdict, what to act on, positions, and last batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.audit.advice import commits_at_once
from eo_listener.audit.position_finding import PositionFinding, Severity
from eo_listener.cli.audit_screen import ROWS, cells, headings, shown_rows, side_by_side
from eo_listener.cli.serve.elements import counted, cut, node, number, table
from eo_listener.cli.serve.last_batches import LastBatches, WholeBatch
from eo_listener.cli.serve.watched import AuditReading

_FINDINGS: Final = 50
_LEDGERS: Final = 20
_TEXT: Final = 4_000  # characters of a finding's text
_KINDS: Final = {
    Severity.FINE: "good",
    Severity.NOTE: "",
    Severity.WARNING: "warn",
    Severity.PROBLEM: "bad",
}


def audit_section(found: AuditReading) -> Element:
    """The gravest finding first."""
    findings = found.outcome.findings[::-1]
    more = len(findings) - _FINDINGS
    kind = "bad" if found.outcome.to_act_on else "good"
    return node(
        "section",
        node("h2", "audit"),
        node("p", node("strong", found.outcome.verdict, cls=f"badge {kind}")),
        *(_finding(one) for one in findings[:_FINDINGS]),
        node("p", f"and {more:,} more findings; /api/audit has them all") if more > 0 else None,
        _positions(found),
        *(_ledger(one) for one in found.ledgers[:_LEDGERS]),
    )


def _finding(one: PositionFinding) -> Element:
    return node(
        "article",
        node(
            "p",
            node("strong", one.severity.value, cls=f"badge {_KINDS[one.severity]}"),
            f" {cut(one.about)}: {cut(one.what, _TEXT)}",
        ),
        *(_advice(one) if one.matters else ()),
    )


def _advice(one: PositionFinding) -> Iterator[Element]:
    if one.cause:
        yield node("p", f"cause: {cut(one.cause, _TEXT)}")
    if one.fix:
        yield node("pre", cut(one.fix, _TEXT))
    if commits_at_once(one.fix):
        yield node("p", "that commits at once: `eo-listener follow --once` has no dry run")


def _positions(found: AuditReading) -> Element | None:
    rows = list(side_by_side(found.positions))
    if not rows:
        return None
    more = f", the first {ROWS} of them" if len(rows) > ROWS else ""
    shown = [
        [node("strong", cut(cell)) if wrong else cut(cell) for cell in cells(found.positions, row)]
        for row, wrong in shown_rows(rows, found.outcome)
    ]
    names = [cut(name) for name in headings(found.positions)]
    return node(
        "details",
        node("summary", f"positions of {counted(len(rows), 'partition')}{more}"),
        table(names, [list(row) for row in shown], cls="numbers"),
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
            [_batch(one) for one in ledger.batches],
            cls="numbers",
        )
        if ledger.batches
        else node("p", "nothing was applied yet"),
    )


def _batch(one: WholeBatch) -> list[str | Element]:
    return [
        str(one.batch_id),
        one.run_id[:8],
        number(one.partitions),
        number(one.offsets),
        number(one.rows),
        number(one.gaps),
        cut(one.applied_at or "-"),
    ]
