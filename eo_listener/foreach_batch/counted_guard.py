"""Whether a batch with sources that are not Kafka is the next one of its checkpoint. Pure.

Its number is compared with the head of BATCHES, which a checkpoint moves by one with each batch. A
number means something in its own checkpoint alone, and there only for one plan of the batch: so the
head names both, the checkpoint by its query id, the plan in the place of a topic's id. A head of
another checkpoint is taken over where the user has named it and the new one, and nowhere else: a
standing consent would have a deleted checkpoint read all of a source a second time, and what the
new one has to read depends on what the sink has.
"""

from __future__ import annotations

from eo_listener.foreach_batch.batch_error_kinds import BatchErrorKind
from eo_listener.foreach_batch.batch_errors import BatchErrors
from eo_listener.foreach_batch.first_batch import OtherHeads, doubt, is_late
from eo_listener.model.counted_sources import BATCHES, CountedSources
from eo_listener.model.ledger import BatchVerdict, Head, Move
from eo_listener.model.offsets import OffsetRange
from eo_listener.model.planned_batch import PlannedBatch


def is_applied(plan: PlannedBatch, counted: CountedSources, head: Head | None) -> bool:
    """Whether `head`, that of BATCHES, was left by this very batch, in an earlier try."""
    return (
        head is not None
        and head.range == plan.count
        and head.query_id == plan.query_id
        and head.topic_id == counted.plan_id
    )


def next_move(
    plan: PlannedBatch,
    counted: CountedSources,
    head: Head | None,
    other_heads: OtherHeads | None,
    errors: BatchErrors,
    *,
    accept: bool,
    adopt: bool,
    new_checkpoint: str | None,
) -> Move | None:
    """The move of BATCHES by a batch that is not applied; None where it must not be, see `errors`.

    `accept` and `adopt` are on_gap and on_first, `new_checkpoint` says which checkpoint may follow
    which batch of another one, as `_consent` does.
    """
    start = plan.count.start
    if head is None:
        if other_heads is not None and doubt(
            plan, BATCHES, plan.count, other_heads, errors, accept=adopt
        ):
            return None
        is_first = other_heads is None or not is_late(plan, BATCHES, plan.count)
        reached, verdict = start if is_first else 0, BatchVerdict.FIRST
        accept = True  # on_first did
    elif head.query_id != plan.query_id:
        consent = _consent(plan, head)
        if new_checkpoint != consent:
            errors.name_checkpoint(plan, head, consent)
            return None
        reached, verdict = 0 if BATCHES in plan.continued else start, BatchVerdict.FIRST
    else:
        if _is_refused(plan, counted, head, errors):
            return None
        reached, verdict = head.range.until, BatchVerdict.NEXT
    gap = OffsetRange(reached, start) if reached < start else None
    if gap is not None and not accept:
        errors.add(BatchErrorKind.BATCH_GAP, BATCHES, gap)
        return None
    return Move(counted.indices[0], plan.count, counted.plan_id, verdict, head, gap)


def _consent(plan: PlannedBatch, head: Head) -> str:
    """What the user gives to have the plan's checkpoint follow the batch that has left `head`."""
    return f"{plan.query_id} after {head.topic_id}"


def _is_refused(
    plan: PlannedBatch, counted: CountedSources, head: Head, errors: BatchErrors
) -> bool:
    """Whether a head of the same checkpoint shows that it is not the one that was running."""
    start, reached = plan.count.start, head.range.until
    if plan.count == head.range or (start == reached and counted.before != head.topic_id):
        errors.add(BatchErrorKind.REPLANNED, BATCHES, head.range)
    elif start < reached:
        errors.add(BatchErrorKind.BATCH_BEHIND, BATCHES, OffsetRange(start, reached))
    else:
        return False
    return True
