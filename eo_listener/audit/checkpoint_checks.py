"""What a checkpoint says of itself, and of the batch in doubt. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eo_listener.audit.advice import Advice
from eo_listener.audit.position_finding import PositionFinding, PositionFindingKind
from eo_listener.audit.positions import CheckpointPositions, Positions
from eo_listener.audit.target_checks import begin_from
from eo_listener.model.errors import few


def check_checkpoint(positions: Positions, advice: Advice) -> Iterator[PositionFinding]:
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
            f"files cannot be used: {few(checkpoint.damaged)}",
            cause="the disk or the machine failed while they were written or copied, or they were "
            "edited",
            fix=f"see the others: {advice.show_checkpoint()}; restore them from a copy; or "
            f"{_way_on(positions, advice)}",
        )
    if checkpoint.counted:
        yield PositionFindingKind.NOT_KAFKA.finding(
            about, "the query has sources that are not Kafka: of these only batches are compared"
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
        "there is none: a query that starts with it begins at its startingOffsets (by default "
        "latest), and not where it was",
        cause="it was deleted or moved; or the path is another one",
        fix=_way_on(positions, advice),
    )


def _way_on(positions: Positions, advice: Advice) -> str:
    """How to go on without the checkpoint."""
    found = [ledger for ledger in positions.ledgers if ledger.heads]
    if len({ledger.key.query for ledger in found}) > 1:
        return "name the query, --query NAME, and how it goes on is shown"
    if found:
        return begin_from(found[0], advice)
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
    what = f"batch {checkpoint.planned} is planned and not committed"
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
        what += "; it is applied, and will be skipped when it is repeated"
    elif applied:
        what += f"; of {len(positions.ledgers)} sinks {len(applied)} have it, and it will be "
        what += "repeated for the others"
    elif positions.ledgers and planned:  # else where it ends is not known, or it has no records
        what += "; it is not applied, and will be repeated"
    return PositionFindingKind.BATCH_IN_DOUBT.finding(
        about,
        what,
        cause="the query is working on it, or ended in it",
        fix="nothing, when the query runs or is started again",
    )
