"""The page's section about an audit: verdict, actions, positions and last batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from eo_listener.audit.position_finding import Severity
from eo_listener.cli.serve.audit_reading import AuditReading, ShownFinding
from eo_listener.cli.serve.elements import cut, node, number, table
from eo_listener.cli.serve.last_batches import LastBatches, WholeBatch
from eo_listener.errors import counted

_FINDINGS: Final = 50
_LEDGERS: Final = 20
_TEXT: Final = 4_000  # characters of a finding's text
_TO_ACT_ON: Final = (Severity.WARNING, Severity.PROBLEM)
_KINDS: Final = {
    Severity.FINE: "good",
    Severity.NOTE: "",
    Severity.WARNING: "warn",
    Severity.PROBLEM: "bad",
}


def found_to_act_on(found: AuditReading) -> Iterator[Element]:
    """The verdict and the findings that need action, the gravest first; nothing without any."""
    wrong = [one for one in reversed(found.findings) if one.severity in _TO_ACT_ON]
    if not wrong:
        return
    yield node("p", node("strong", f"audit: {found.verdict}", cls="bad"))
    for one in wrong[:_FINDINGS]:
        yield _finding(one)
    if len(wrong) > _FINDINGS:
        yield node("p", f"and {len(wrong) - _FINDINGS:,} more findings; /api/audit has them all")


def audit_section(found: AuditReading) -> Element:
    """The verdict, what is as it should be, positions, and the last batches of each ledger."""
    rest = [one for one in reversed(found.findings) if one.severity not in _TO_ACT_ON]
    kind = "bad" if found.to_act_on else "good"
    return node(
        "section",
        node("h2", "audit"),
        node("p", node("strong", found.verdict, cls=kind)),
        _fine(rest),
        _positions(found),
        *(_ledger(one) for one in found.ledgers[:_LEDGERS]),
    )


def _fine(rest: Sequence[ShownFinding]) -> Element | None:
    """Findings that need no action, folded."""
    if not rest:
        return None
    more = len(rest) - _FINDINGS
    return node(
        "details",
        node("summary", f"{counted(len(rest), 'finding')} to know of"),
        *(_finding(one) for one in rest[:_FINDINGS]),
        node("p", f"and {more:,} more findings; /api/audit has them all") if more > 0 else None,
        id="fine",
    )


def _finding(one: ShownFinding) -> Element:
    return node(
        "article",
        node(
            "p",
            node("strong", one.severity.value, cls=f"badge {_KINDS[one.severity]}"),
            f" {cut(one.about)}: {cut(one.what, _TEXT)}",
        ),
        *_advice(one),
        cls="wrong" if one.severity in _TO_ACT_ON else None,
    )


def _advice(one: ShownFinding) -> Iterator[Element]:
    if one.cause:
        yield node("p", f"cause: {cut(one.cause, _TEXT)}")
    if one.fix:
        yield node("pre", cut(one.fix, _TEXT))
    if one.at_once:
        yield node("p", "this commits immediately: `eo-listener follow --once` has no dry run")


def _positions(found: AuditReading) -> Element | None:
    if not found.rows:
        return None
    more = f", the first {len(found.rows)} of them" if found.partitions > len(found.rows) else ""
    rows: list[list[str | Element]] = [
        [node("strong", cut(cell)) if bad else cut(cell) for cell in row] for row, bad in found.rows
    ]
    return node(
        "details",
        node("summary", f"positions of {counted(found.partitions, 'partition')}{more}"),
        table(list(map(cut, found.headings)), rows, cls="numbers"),
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
            cls="batches",
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
