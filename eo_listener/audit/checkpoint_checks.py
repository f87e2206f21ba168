"""Checks a checkpoint's files and its batch in doubt. Pure."""

from __future__ import annotations

from eo_listener.audit.advice import Advice
from eo_listener.audit.position_finding import Findings, PositionFinding, PositionFindingKind
from eo_listener.audit.positions import CheckpointPositions, Positions
from eo_listener.errors import few


def check_checkpoint(positions: Positions, advice: Advice) -> Findings:
    """Say whether it is there and whole, and which batch is planned and not committed."""
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
    if checkpoint.planned is not None and checkpoint.planned != checkpoint.committed:
        yield _doubt(about, checkpoint, positions)
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
    """How to go on without the checkpoint."""
    ledgers = [ledger for ledger in positions.ledgers if ledger.heads]
    if len({ledger.key.query for ledger in ledgers}) > 1:
        return "name the query with --query NAME to see how to continue"
    if ledgers:
        return advice.begin_from(ledgers[0])
    for group in positions.groups:
        if group.after:
            return advice.begin_from_group(group.name)
    return "check the path; it is the query's checkpointLocation"


def _doubt(about: str, checkpoint: CheckpointPositions, positions: Positions) -> PositionFinding:
    planned = {
        tp: until
        for tp, until in checkpoint.ahead.items()
        if until > checkpoint.done.get(tp, checkpoint.began.get(tp, 0))
    }
    text = f"batch {checkpoint.planned} is planned and not committed"
    applied = [
        ledger
        for ledger in positions.ledgers
        if planned
        and all(
            tp in ledger.heads and ledger.heads[tp].range.until >= until
            for tp, until in planned.items()
        )
    ]
    if positions.ledgers and len(applied) == len(positions.ledgers):
        text += "; every sink has applied it, and skips it when Spark repeats it"
    elif applied:
        text += (
            f"; {len(applied)} of {len(positions.ledgers)} sinks have applied it, and it will be "
        )
        text += "repeated for the others"
    elif positions.ledgers and planned:  # else its end is unknown, or it has no records
        text += "; no sink has applied it, and Spark repeats it"
    return PositionFindingKind.BATCH_IN_DOUBT.finding(
        about,
        text,
        cause="the query is processing it, or ended while processing it",
        fix="nothing, if the query runs or will be started again",
    )
