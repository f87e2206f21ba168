"""Bugs planted in how a counted source is judged, to see whether the model notices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eo_listener.batch_guard import judge as batch_guard
from eo_listener.batch_guard.judge import _BatchCheck, _consent
from eo_listener.model.ledger import Applied, Entry, Move
from eo_listener.model.planned_batch import BATCHES
from eo_listener.testing import MemorySink
from tests.model_checking.bugs import bug

_apply, _move = MemorySink.apply, MemorySink._move
_next_move = _BatchCheck.next_move


def _any_plan(plan: Any, counted: Any, head: Any) -> bool:
    """A batch of the same number is a replay, whenever it was planned."""
    return head is not None and head.range == plan.count and head.query_id == plan.query_id


def _any_life(plan: Any, counted: Any, head: Any) -> bool:
    """A batch of the same number is a replay, of whichever checkpoint."""
    return head is not None and head.range == plan.count


def _taken_over(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """A head of another checkpoint is taken over without consent."""
    return _next_move(self, counted, head, None if head is None else _consent(self.plan, head))


def _standing(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """A consent that was once given holds for every checkpoint."""
    take = _next_move if consent is None else _taken_over
    return take(self, counted, head, consent)


def _whatever_there_is(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """A consent holds for its checkpoint, whatever batch the sink has by then."""
    take = _taken_over if self.plan.query_id in (consent or "").split() else _next_move
    return take(self, counted, head, consent)


def _goes_on(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """The numbers of a confirmed checkpoint go on from those of the one before."""
    if head is not None and consent == _consent(self.plan, head):
        head = replace(head, query_id=self.plan.query_id)
    return _next_move(self, counted, head, consent)


def _any_before(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """Which batch it follows is not compared, only its number."""
    if head is not None:
        counted = replace(counted, before=head.topic_id)
    return _next_move(self, counted, head, consent)


def _no_gap(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """Batches that are missing are passed over."""
    move = _next_move(replace(self, accepts_gaps=True), counted, head, consent)
    return None if move is None else move._replace(gap=None)


def _always_there(self: Any, counted: Any, head: Any, consent: Any) -> Move | None:
    """A source that has its first offset late counts as read by the batches before."""
    self.plan = replace(self.plan, continued=self.plan.continued | {BATCHES})
    return _next_move(self, counted, head, consent)


def _kafka_alone(self: MemorySink, transaction: Any, entry: Entry) -> None:
    """The number of the batch is not put into the ledger."""
    _move(self, transaction, replace(entry, moves=entry.kafka_moves))


def _in_parts(self: MemorySink, frame: Any, entry: Entry, plan: Any) -> Applied:
    """A transaction a partition, though rows of a counted source are of none."""
    return _apply(self, frame, entry, replace(plan, counted=None))


BUGS = (
    bug("plan id ignored", "files planned again", batch_guard, "is_applied", _any_plan),
    bug("number alone", "files, stranger", batch_guard, "is_applied", _any_life),
    bug("another checkpoint taken over", "files, stranger", _BatchCheck, "next_move", _taken_over),
    bug("consent that never ends", "files, stranger", _BatchCheck, "next_move", _standing),
    bug(
        "consent to what was restored",
        "files, restored store",
        _BatchCheck,
        "next_move",
        _whatever_there_is,
    ),
    bug(
        "consent to a zombie's batch",
        "files, zombie, new checkpoint",
        _BatchCheck,
        "next_move",
        _whatever_there_is,
    ),
    bug("numbers go on in a new life", "files, new checkpoint", _BatchCheck, "next_move", _goes_on),
    bug("batch before not compared", "files aside", _BatchCheck, "next_move", _any_before),
    bug("missing batches passed over", "files aside", _BatchCheck, "next_move", _no_gap),
    bug(
        "first files late, taken for lost",
        "beside, files later",
        _BatchCheck,
        "next_move",
        _always_there,
    ),
    bug("number not recorded", "files beside Kafka", MemorySink, "_move", _kafka_alone),
    bug("counted rows by partition", "beside, alone", MemorySink, "apply", _in_parts),
)
