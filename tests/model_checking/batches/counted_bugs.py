"""Bugs planted in how a counted source is judged, to see whether the model notices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eo_listener.foreach_batch import batch_guard
from eo_listener.foreach_batch.batch_guard import _consent, next_move
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import Applied, Entry, Move
from eo_listener.testing import MemorySink
from tests.model_checking.bugs import bug

_apply, _move = MemorySink.apply, MemorySink._move


def _any_plan(plan: Any, counted: Any, head: Any) -> bool:
    """A batch of the same number is a replay, whenever it was planned."""
    return head is not None and head.range == plan.count and head.query_id == plan.query_id


def _any_life(plan: Any, counted: Any, head: Any) -> bool:
    """A batch of the same number is a replay, of whichever checkpoint."""
    return head is not None and head.range == plan.count


def _taken_over(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """A head of another checkpoint is taken over without consent."""
    how["new_checkpoint"] = None if head is None else _consent(plan, head)
    return next_move(plan, counted, head, *rest, **how)


def _standing(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """A consent that was once given holds for every checkpoint."""
    take = next_move if how["new_checkpoint"] is None else _taken_over
    return take(plan, counted, head, *rest, **how)


def _whatever_there_is(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """A consent holds for its checkpoint, whatever batch the sink has by then."""
    named = plan.query_id in (how["new_checkpoint"] or "").split()
    return (_taken_over if named else next_move)(plan, counted, head, *rest, **how)


def _goes_on(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """The numbers of a confirmed checkpoint go on from those of the one before."""
    if head is not None and how["new_checkpoint"] == _consent(plan, head):
        head = replace(head, query_id=plan.query_id)
    return next_move(plan, counted, head, *rest, **how)


def _any_before(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """Which batch it follows is not compared, only its number."""
    if head is not None:
        counted = replace(counted, before=head.topic_id)
    return next_move(plan, counted, head, *rest, **how)


def _no_gap(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """Batches that are missing are passed over."""
    move = next_move(plan, counted, head, *rest, **{**how, "accept": True})
    return None if move is None else move._replace(gap=None)


def _always_there(plan: Any, counted: Any, head: Any, *rest: Any, **how: Any) -> Move | None:
    """A source that has its first offset late counts as read by the batches before."""
    plan = replace(plan, continued=plan.continued | {BATCHES})
    return next_move(plan, counted, head, *rest, **how)


def _kafka_alone(self: MemorySink, transaction: Any, entry: Entry) -> None:
    """The number of the batch is not put into the ledger."""
    _move(self, transaction, replace(entry, moves=entry.kafka_moves))


def _in_parts(self: MemorySink, frame: Any, entry: Entry, plan: Any) -> Applied:
    """A transaction a partition, though rows of a counted source are of none."""
    return _apply(self, frame, entry, replace(plan, counted=None))


BUGS = (
    bug("plan id ignored", "files planned again", batch_guard, "is_applied", _any_plan),
    bug("number alone", "files, stranger", batch_guard, "is_applied", _any_life),
    bug("another checkpoint taken over", "files, stranger", batch_guard, "next_move", _taken_over),
    bug("consent that never ends", "files, stranger", batch_guard, "next_move", _standing),
    bug(
        "consent to what was restored",
        "files, restored store",
        batch_guard,
        "next_move",
        _whatever_there_is,
    ),
    bug(
        "consent to a zombie's batch",
        "files, zombie, new checkpoint",
        batch_guard,
        "next_move",
        _whatever_there_is,
    ),
    bug("numbers go on in a new life", "files, new checkpoint", batch_guard, "next_move", _goes_on),
    bug("batch before not compared", "files aside", batch_guard, "next_move", _any_before),
    bug("missing batches passed over", "files aside", batch_guard, "next_move", _no_gap),
    bug(
        "first files late, taken for lost",
        "beside, files later",
        batch_guard,
        "next_move",
        _always_there,
    ),
    bug("number not recorded", "files beside Kafka", MemorySink, "_move", _kafka_alone),
    bug("counted rows by partition", "beside, alone", MemorySink, "apply", _in_parts),
)
