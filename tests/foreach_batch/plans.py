"""Plans and heads for the tests of the judgement, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from eo_listener.audit.advice import Advice
from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.position_finding import AuditOutcome, outcome
from eo_listener.audit.position_judge import judge_positions
from eo_listener.audit.positions import (
    CheckpointPositions,
    LedgerPositions,
    Positions,
    SourcePositions,
    StorePositions,
)
from eo_listener.batch_guard.judge import Judgement, OtherHeads, judge_batch
from eo_listener.errors import EoListenerError
from eo_listener.model.ledger import Head, LedgerKey
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
    former = how.get("other_heads") or OtherHeads(sink="delays", heads={})
    assert audited(plan, heads, former).to_act_on, "the audit says that the query will start"
    return raised.value


def audited(
    plan: PlannedBatch, heads: Mapping[TopicPartition, Head], former: OtherHeads
) -> AuditOutcome:
    """The audit of a checkpoint with this plan, and of a ledger with these heads."""
    ranges = {tp: span for of_source in plan.sources.values() for tp, span in of_source.items()}
    checkpoint = CheckpointPositions(
        label="/c",
        query_id=plan.query_id,
        committed=plan.batch_id - 1,
        planned=plan.batch_id,
        done={tp: ranges[tp].start for tp in plan.continued & ranges.keys()},
        ahead={tp: span.until for tp, span in ranges.items()},
        next_batch=plan,
    )
    ledger = LedgerPositions(store="s", key=LedgerKey(former.sink, "flights"), heads=heads)
    ends = {tp: ranges[tp].until for tp in plan.log_starts} | dict(plan.log_ends)
    logs = {
        tp: LogFacts(
            start=plan.log_starts.get(tp, 0), stable=end, end=end, topic_id=plan.topic_ids[tp.topic]
        )
        for tp, end in ends.items()
    }
    read = bool(logs) or plan.has_log_bounds
    source = SourcePositions(servers="k:9092", logs=logs) if read else None
    stores = (StorePositions(store="s", ledgers=(ledger,), renamed=former.heads),)
    positions = Positions(checkpoint=checkpoint, stores=stores, source=source)
    return outcome(judge_positions(positions, Advice()), compared=positions.compared)
