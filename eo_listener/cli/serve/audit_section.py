"""Builds the page's section about an audit: verdict, actions, positions and last batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.audit.position_finding import PositionFinding
from eo_listener.cli.serve.audit_reading import AuditReading, LastBatches, WholeBatch
from eo_listener.cli.serve.elements import cut, excess, node, number, table
from eo_listener.errors import counted
from eo_listener.model.check_finding import Severity

_FINDINGS: Final = 50
_LEDGERS: Final = 20
_TEXT: Final = 4_000  # characters of a finding's text
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
            f" {cut(finding.about)}: {cut(finding.what, _TEXT)}",
        ),
        *_advice(finding),
        cls="wrong" if finding.matters else None,
    )


def _advice(finding: PositionFinding) -> Iterator[Element]:
    if not finding.matters:
        return
    if finding.cause:
        yield node("p", f"cause: {cut(finding.cause, _TEXT)}")
    if finding.fix:
        yield node("pre", cut(finding.fix, _TEXT))


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
