"""Plans and heads for the tests of the judgement, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from eo_listener.batch_guard.judge import Judgement, judge_batch
from eo_listener.errors import EoListenerError
from eo_listener.model.ledger import Head
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

P0, P1, P2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
U0 = TopicPartition("u", 0)
_Error = TypeVar("_Error", bound=EoListenerError)
Ranges = Mapping[TopicPartition, tuple[int, int]]


def plan_of(ranges: Ranges, *, batch_id: int = 7, **how: Any) -> PlannedBatch:
    """A plan of one source; `how` are other fields of it."""
    plan = PlannedBatch(
        query_id="q",
        run_id="r2",
        query="flights",
        batch_id=batch_id,
        sources={0: {tp: OffsetRange(*span) for tp, span in ranges.items()}},
        topic_ids={"t": "T", "u": "U"},
        log_starts={},
        log_ends={},
    )
    return replace(plan, **how)


def head_of(start: int, until: int, *, batch_id: int = 6, **how: Any) -> Head:
    """A head that an earlier run has left."""
    span = OffsetRange(start, until)
    head = Head(range=span, topic_id="T", query_id="q", run_id="r1", batch_id=batch_id)
    return replace(head, **how)


def judged(plan: PlannedBatch, heads: Mapping[TopicPartition, Head], **how: Any) -> Judgement:
    """The judgement, for query `flights` and sink `table delays`."""
    return judge_batch(plan, heads, name="flights", sink="table delays", **how)


def refused(
    error: type[_Error], plan: PlannedBatch, heads: Mapping[TopicPartition, Head], **how: Any
) -> _Error:
    """The error of this class with which a plan is refused, for the same query and sink."""
    with pytest.raises(error) as raised:
        judged(plan, heads, **how)
    return raised.value
