"""Source log, checkpoint, groups and ledgers side by side, judged into findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.audit.advice import Advice
from eo_listener.audit.checkpoint_checks import check_checkpoint
from eo_listener.audit.group_checks import check_groups
from eo_listener.audit.intervals import Intervals
from eo_listener.audit.ledger_checks import check_ledgers
from eo_listener.audit.position_finding import (
    Findings,
    Harm,
    PositionFinding,
    PositionFindingKind,
    Severity,
)
from eo_listener.audit.positions import LedgerPositions, Positions
from eo_listener.audit.result import AuditFinding, AuditFindingKind, Gravity
from eo_listener.audit.source_checks import check_source
from eo_listener.errors import EoListenerError, few
from eo_listener.offsets import OffsetRange, TopicPartition


def judge_positions(positions: Positions, advice: Advice) -> Findings:
    """Say what is right and wrong; what was not read is not judged."""
    yield from check_source(positions, advice)
    yield from check_checkpoint(positions, advice)
    yield from check_groups(positions, advice)
    yield from check_ledgers(positions, advice)


def not_read(about: str, error: EoListenerError, lost: str = "") -> PositionFinding:
    """Say what could not be read, in the error's own words; `lost`: what to do if it is no more."""
    return PositionFindingKind.NOT_READ.finding(
        about,
        error.problem,
        cause=error.cause or "",
        fix="; or, ".join(text for text in (error.fix, lost) if text)
        or "fix this, then run the command again",
    )


def judge_rows(
    ledger: LedgerPositions,
    table: str,
    rows: Iterable[AuditFinding],
    advice: Advice,
    count: int,
    without: int = 0,
) -> Findings:
    """Yield the findings of a table's proof: one for each kind, with the number of offsets.

    The table has `count` rows, `without` of them without topic, partition or offset.
    """
    by_kind: dict[AuditFindingKind, list[AuditFinding]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row)
    for kind, findings in by_kind.items():
        yield from _of_kind(ledger, table, kind, findings, advice)
    if all(kind.gravity is Gravity.EXPLAINED for kind in by_kind):
        yield PositionFindingKind.AGREED.finding(
            f"rows of {table}",
            f"{count:,} rows: each offset of the ledger is in the table once, or explained",
        )
    if without:
        yield PositionFindingKind.ROWS_UNPROVABLE.finding(
            severity=Severity.WARNING,
            about=f"rows of {table}",
            what=f"{without:,} of {count:,} rows do not name their source offset",
            cause="another program writes to the table, or the transform leaves a column empty",
            fix="name the columns that hold topic, partition and offset: --columns A,B,C",
            harm=Harm.NONE,
        )


_LOST = frozenset({AuditFindingKind.MISSING, AuditFindingKind.TAIL, AuditFindingKind.UNEXPLAINED})
_KINDS = {
    **dict.fromkeys(_LOST, PositionFindingKind.ROWS_MISSING),
    AuditFindingKind.DUPLICATE: PositionFindingKind.ROWS_DOUBLED,
}


def _of_kind(
    ledger: LedgerPositions,
    table: str,
    kind: AuditFindingKind,
    findings: list[AuditFinding],
    advice: Advice,
) -> Findings:
    count = sum(finding.range.until - finding.range.start for finding in findings)
    about = f"rows of {table}"
    shown = few(f"{finding.partition} {finding.range}" for finding in findings)
    text = f"{count:,} offsets, {kind.value}: {shown}"
    if kind.gravity is not Gravity.WRONG:
        is_explained = kind.gravity is Gravity.EXPLAINED
        yield (
            PositionFindingKind.ROWS_EXPLAINED
            if is_explained
            else PositionFindingKind.ROWS_UNPROVABLE
        ).finding(about, text, ranges=_by_partition(findings))
        return
    yield _KINDS.get(kind, PositionFindingKind.ROWS_WRONG).finding(
        about,
        text,
        cause=_CAUSES.get(kind, ""),
        fix=_fix(ledger, kind, advice),
        ranges=_by_partition(findings),
    )


def _by_partition(findings: list[AuditFinding]) -> dict[TopicPartition, Intervals]:
    ranges: dict[TopicPartition, list[OffsetRange]] = {}
    for finding in findings:
        ranges.setdefault(finding.partition, []).append(finding.range)
    return {tp: tuple(every) for tp, every in ranges.items()}


_CAUSES = {
    AuditFindingKind.MISSING: "rows were deleted, the transform leaves rows out, or the columns "
    "are not the source's",
    AuditFindingKind.TAIL: "the table was restored from a copy older than the ledger, or rows were "
    "deleted",
    AuditFindingKind.DUPLICATE: "rows were copied or written without the sink, the transform "
    "makes several rows of a record, or the topic was recreated and the table has rows of both",
    AuditFindingKind.UNCLAIMED: "another query or program writes to the table, or the ledger was "
    "restored from an older copy",
}


def _fix(ledger: LedgerPositions, kind: AuditFindingKind, advice: Advice) -> str:
    if kind is AuditFindingKind.DUPLICATE:
        return (
            "if the topic was never recreated, delete all but one row of each topic, partition and "
            "offset, while no driver runs"
        )
    if kind in _LOST:
        return (
            "restore the table and its ledger from one copy; or read these offsets again with a "
            "batch query (spark.read, with startingOffsets and endingOffsets), and append its "
            "rows to the table while no driver runs"
        )
    if kind is AuditFindingKind.RECREATED:
        return advice.begin_from_ledger(ledger, recreated=True)
    return "find out who else writes to the table, and restore it together with its ledger"
