"""Judges the query's next batch for each sink, by the rule that the sink itself applies.

Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from eo_listener.audit.advice import Advice
from eo_listener.audit.positions import LedgerPositions, Positions, StorePositions, lowest
from eo_listener.batch_guard.errors import SinkLedger
from eo_listener.batch_guard.judge import Judgement, OtherHeads, judge_batch
from eo_listener.errors import GuardError, SettingsError
from eo_listener.model.ledger_place import LedgerStore
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition

Verdict = Judgement | GuardError | SettingsError
"""The guard's judgement of a batch, or the error with which the query would fail."""


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch that the query repeats or writes next, with a verdict for each ledger.

    `ago` is the time since Spark planned the batch, in seconds, or None if that is unknown.
    `verdicts` has the verdict for each ledger of each store, in the order of `Positions.stores`.
    """

    plan: PlannedBatch
    ago: float | None
    verdicts: tuple[tuple[Verdict, ...], ...]


def next_batch(positions: Positions, advice: Advice) -> NextBatch | None:
    """Judge the next batch for every ledger, or return None if the next batch is unknown.

    If Spark has not planned the batch, the function judges it as if it read each partition to the
    end of its log, and at least one record.
    """
    checkpoint = positions.checkpoint
    if checkpoint is None or checkpoint.next_batch is None:
        return None
    is_planned = checkpoint.next_batch.batch_id == checkpoint.planned
    plan = _with_logs(checkpoint.next_batch, positions)
    if not is_planned:
        plan = _filled(plan)
    verdicts = tuple(
        tuple(_judge(plan, positions, store, ledger, advice) for ledger in store.ledgers)
        for store in positions.stores
    )
    return NextBatch(plan, checkpoint.planned_ago if is_planned else None, verdicts)


def _with_logs(plan: PlannedBatch, positions: Positions) -> PlannedBatch:
    """Add the facts about Kafka's logs to a plan, if the audit has read the logs."""
    if positions.source is None:
        return plan
    logs = {tp: log for tp, log in positions.source.logs.items() if tp in plan.partitions}
    return replace(
        plan,
        topic_ids={tp.topic: log.topic_id for tp, log in logs.items() if log.topic_id is not None},
        log_starts={tp: log.start for tp, log in logs.items()},
        log_ends={tp: log.end for tp, log in logs.items()},
        has_log_bounds=True,
    )


def _filled(plan: PlannedBatch) -> PlannedBatch:
    """Return the plan of a batch that Spark has not planned, with records in each partition."""
    begins = starts(plan)
    ends = {tp: max(end, begins[tp] + 1) for tp, end in plan.log_ends.items()}
    reached = {tp: end for tp, end in ends.items() if plan.log_ends[tp] >= begins[tp]}
    sources = {
        index: {
            tp: OffsetRange(start, ends.get(tp, start + 1)) for tp, (start, _) in ranges.items()
        }
        for index, ranges in plan.sources.items()
    }
    return replace(plan, sources=MappingProxyType(sources), log_ends={**plan.log_ends, **reached})


def starts(plan: PlannedBatch) -> Mapping[TopicPartition, int]:
    """Return the offset at which the batch starts, by Kafka partition."""
    return lowest(
        {tp: offsets.start for tp, offsets in ranges.items()} for ranges in plan.sources.values()
    )


def _judge(
    plan: PlannedBatch,
    positions: Positions,
    store: StorePositions,
    ledger: LedgerPositions,
    advice: Advice,
) -> Verdict:
    """Judge a batch for one sink, and then the partitions for which it has no new offsets."""
    sink = ledger.key.sink
    runs = {head.run_id for head in ledger.heads.values()}
    # Names under which the same run writes are not former names.
    former = {
        key: heads
        for key, heads in store.renamed.items()
        if runs.isdisjoint(head.run_id for head in heads.values())
    }
    judge = partial(
        judge_batch,
        name=ledger.key.query,
        sink=positions.named(ledger),
        # Only a sink in PostgreSQL may commit each partition alone, and then finishes the others.
        per_partition=LedgerStore.from_address(store.address) is LedgerStore.POSTGRES,
        other_heads=OtherHeads(sink=sink, heads=former),
        ledger=SinkLedger(sink, advice.place(store.address), at_once=False),
    )
    try:
        judgement = judge(plan, ledger.heads)
        later = _later(plan)
        if later is not None:
            judge(later, {tp: ledger.heads[tp] for tp in later.partitions & ledger.heads.keys()})
    except (GuardError, SettingsError) as error:
        return error
    return judgement


def _later(plan: PlannedBatch) -> PlannedBatch | None:
    """Return a batch after `plan`, of the partitions without new offsets in `plan`, or None."""
    sources = {
        index: {tp: offsets for tp, offsets in ranges.items() if offsets.start == offsets.until}
        for index, ranges in plan.sources.items()
    }
    sources = {index: ranges for index, ranges in sources.items() if ranges}
    if not sources or plan.counted is not None:
        return None
    ends = {
        tp: end for ranges in sources.values() for tp, end in plan.log_ends.items() if tp in ranges
    }
    return _filled(replace(plan, batch_id=plan.batch_id + 1, sources=sources, log_ends=ends))
