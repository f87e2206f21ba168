"""Compares source log, checkpoint, groups and ledgers, and yields a finding for each difference.

Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.audit.advice import Advice
from eo_listener.audit.group_checks import check_groups
from eo_listener.audit.intervals import Intervals, size
from eo_listener.audit.ledger_checks import check_ledgers
from eo_listener.audit.next_batch import NextBatch, next_batch, starts
from eo_listener.audit.position_finding import (
    Findings,
    Harm,
    PositionFinding,
    PositionFindingKind,
    single,
)
from eo_listener.audit.positions import CheckpointPositions, LedgerPositions, Positions
from eo_listener.audit.proof import AuditFinding, AuditFindingKind, Gravity
from eo_listener.audit.source_checks import HANGING, check_source
from eo_listener.batch_guard.judge import Judgement
from eo_listener.errors import EoListenerError, few, length
from eo_listener.model.check_finding import Severity
from eo_listener.model.ledger import BatchVerdict
from eo_listener.offsets import OffsetRange, TopicPartition


def judge_positions(positions: Positions, advice: Advice) -> Findings:
    """Yield the findings about all positions; leave out places that were not read."""
    batch = next_batch(positions, advice)
    yield from check_source(positions, advice)
    yield from check_checkpoint(positions, advice, batch)
    yield from check_groups(positions, advice)
    yield from check_ledgers(positions, advice, batch)


def not_read(about: str, error: EoListenerError, lost: str = "") -> PositionFinding:
    """Return the finding for a place that could not be read.

    `lost` is an additional fix, for a place that no longer exists.
    """
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
    """Yield the results of the gap proof `rows`, one finding for each kind, with its offsets.

    The table has `count` rows, of which `without` lack a topic, partition or offset.
    """
    by_kind: dict[AuditFindingKind, list[AuditFinding]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row)
    for kind, findings in by_kind.items():
        yield from _of_kind(ledger, table, kind, findings, advice)
    if all(kind.gravity is Gravity.EXPLAINED for kind in by_kind):
        yield PositionFindingKind.AGREED.finding(
            f"rows of {table}",
            f"{count:,} rows: each offset of the ledger is in the table once, or its absence is "
            "explained",
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
    count = size(finding.range for finding in findings)
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
    "makes several rows from a record, or the topic was recreated and the table has rows of "
    "both topics",
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


def check_checkpoint(positions: Positions, advice: Advice, batch: NextBatch | None) -> Findings:
    """Yield findings about the checkpoint's existence, its files, and its uncommitted batch."""
    checkpoint = positions.checkpoint
    if checkpoint is None:
        return
    about = f"checkpoint {checkpoint.label}"
    if not checkpoint.exists:
        yield _missing(about, positions, advice)
        return
    if checkpoint.damaged:
        yield PositionFindingKind.CHECKPOINT_DAMAGED.finding(
            about,
            f"unusable files: {few(checkpoint.damaged)}",
            cause="the disk or machine failed while the files were being written or copied, or "
            "somebody edited them",
            fix=f"list the other files with {advice.show_checkpoint()}; restore these from a "
            f"copy; or {_way_on(positions, advice)}",
        )
    if checkpoint.counted:
        yield PositionFindingKind.NOT_KAFKA.finding(
            about,
            "the query has sources other than Kafka; for those the audit compares batches only",
        )
    if checkpoint.skipped and batch is not None:
        yield _skipped(about, checkpoint, batch, positions)
    if checkpoint.planned is not None and checkpoint.planned != checkpoint.committed:
        yield _doubt(about, checkpoint, batch)
    elif not checkpoint.damaged:
        yield PositionFindingKind.AGREED.finding(
            about,
            "no batch is planned yet"
            if checkpoint.committed is None
            else f"batch {checkpoint.committed} is committed, none is planned after it",
        )


def _missing(about: str, positions: Positions, advice: Advice) -> PositionFinding:
    return PositionFindingKind.CHECKPOINT_MISSING.finding(
        about,
        "it does not exist: a query started with it begins at its startingOffsets (latest by "
        "default), not where it stopped",
        cause="it was deleted or moved, or the path is wrong",
        fix=_way_on(positions, advice),
    )


def _way_on(positions: Positions, advice: Advice) -> str:
    """Return the advice on how to continue the query without the checkpoint."""
    ledgers = [ledger for ledger in positions.ledgers if ledger.heads]
    if len({ledger.key.query for ledger in ledgers}) > 1:
        return "name the query with --query NAME to see how to continue"
    if ledgers:
        return advice.begin_from(ledgers[0])
    for group in positions.groups:
        if group.after:
            return advice.begin_from_group(group.name)
    return "check the path; it is the query's checkpointLocation"


def _skipped(
    about: str, checkpoint: CheckpointPositions, batch: NextBatch, positions: Positions
) -> PositionFinding:
    """Return the finding that Spark continues after batches that it has not committed."""
    skipped = {
        tp: OffsetRange(checkpoint.done.get(tp, checkpoint.began.get(tp, start)), start)
        for tp, start in starts(batch.plan).items()
    }
    skipped = {tp: offsets for tp, offsets in skipped.items() if offsets.start < offsets.until}
    is_applied = bool(positions.ledgers and skipped) and all(
        tp in ledger.heads and ledger.heads[tp].range.until >= offsets.until
        for ledger in positions.ledgers
        for tp, offsets in skipped.items()
    )
    return PositionFindingKind.BATCHES_SKIPPED.finding(
        about,
        f"batch {few(map(str, checkpoint.skipped))} is planned and not committed, and Spark does "
        f"not run it again: the query continues with batch {checkpoint.planned}"
        + ("; every sink has applied it" if is_applied else ""),
        cause="files in commits/ are missing: a copy of the checkpoint was made while the query "
        "was running",
        fix="restore the checkpoint from a copy that was made while the query was stopped",
        ranges=single(skipped),
        severity=Severity.WARNING if is_applied else None,
        harm=Harm.NONE if is_applied else None,
    )


def _doubt(about: str, checkpoint: CheckpointPositions, batch: NextBatch | None) -> PositionFinding:
    """Return the finding about the newest planned batch, which is not committed."""
    since = checkpoint.planned_ago
    planned = "" if since is None else f", {length(since)} ago,"
    text = f"batch {checkpoint.planned} is planned{planned} and not committed"
    verdicts = [] if batch is None else [each for of_store in batch.verdicts for each in of_store]
    applied = sum(
        isinstance(each, Judgement) and each.verdict is BatchVerdict.REPLAY for each in verdicts
    )
    refused = sum(isinstance(each, Exception) for each in verdicts)
    if refused:
        text += f"; {refused} of {len(verdicts)} sinks will refuse it"
    elif verdicts and applied == len(verdicts):
        text += "; every sink has applied it, and skips it when Spark repeats it"
    elif applied:
        text += f"; {applied} of {len(verdicts)} sinks have applied it, and Spark repeats it for "
        text += "the others"
    elif verdicts:
        text += "; no sink has applied it, and Spark repeats it"
    fix = "nothing, if the query runs or will be started again"
    is_old = since is not None and since > HANGING
    if is_old:
        fix = "start the query; if it runs, or fails at each start, look in its driver's log"
    return PositionFindingKind.BATCH_IN_DOUBT.finding(
        about,
        text,
        cause="the query is processing it, or ended while processing it",
        fix=fix,
        severity=Severity.WARNING if is_old else None,
    )
