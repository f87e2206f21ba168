"""Derives a ledger's history from its heads after each batch, by comparing two batches. No I/O.

Iceberg and Delta tables have no separate ledger history: each commit of a batch has all heads. A
sink omits offsets only if its query has accepted a gap, so a head that does not begin where the
previous head ended shows an accepted gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from typing import Final, NamedTuple

from eo_listener.model.ledger import GAP_ACCEPTED, AppliedBatch, BatchVerdict, Head
from eo_listener.model.planned_batch import BATCHES
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_text import Heads

BATCHES_READ: Final = 100
"""The most batches that a reader of the history reads, newest first: each may be a file."""
BATCHES_COUNTED: Final = 2_000
"""The same limit for a command that counts rows; it reports older gaps as unknown."""
_ENTRIES: Final = 200_000  # heads of all these batches together, about 300 bytes each


class LedgerStep(NamedTuple):
    """The `heads` in the ledger after a batch, and the heads `before` it, or None if unknown.

    `rows` is how many rows the batch changed, or None if the table does not record it; `at` is the
    time of its commit in milliseconds since 1970. A repair that changed no head has a `verdict`.
    """

    heads: Heads
    before: Heads | None
    rows: int | None
    at: int
    verdict: str | None = None


def newest_steps(steps: Iterable[LedgerStep], batches: int) -> Iterator[LedgerStep]:
    """Yield the first steps, at most `batches`, or fewer if the steps have very many heads."""
    heads = 0
    for number, step in enumerate(islice(steps, batches)):
        heads += len(step.heads)
        if number >= BATCHES_READ and heads > _ENTRIES:
            return
        yield step


def applied_batches(steps: Iterable[LedgerStep]) -> list[AppliedBatch]:
    """Return the batches that `steps` applied, sorted by partition, then from oldest to newest.

    `steps` must be sorted from newest to oldest.
    """
    batches = [batch for step in steps for batch in _applied(step)]
    batches.reverse()
    return sorted(batches, key=lambda batch: batch.partition)


def moved_at(steps: Iterable[LedgerStep]) -> dict[TopicPartition, str]:
    """Return the time at which each head of the newest step was moved to its offset, if known.

    `steps` must be sorted from newest to oldest. The function takes only as many steps as it needs,
    and at most BATCHES_READ.
    """
    times: dict[TopicPartition, str] = {}
    heads: Heads = {}
    for number, step in enumerate(islice(steps, BATCHES_READ)):
        heads = step.heads if number == 0 else heads
        for tp, head in step.heads.items():
            if tp not in times and heads.get(tp) == head and _has_moved(step, tp):
                times[tp] = _moment(step.at)
        if len(times) == len(heads):
            break
    return times


def _has_moved(step: LedgerStep, tp: TopicPartition) -> bool:
    """Return True if the batch of `step` moved the head of `tp`.

    If the heads before the batch are unknown, the batch numbers of the heads decide: the newest
    batch has the highest number. Numbers can be compared only within one checkpoint, so the
    function returns False unless all heads have the same query id.
    """
    if step.before is not None:
        return step.before.get(tp) != step.heads[tp]
    queries = {head.query_id for head in step.heads.values()}
    newest = max(head.batch_id for head in step.heads.values())
    return len(queries) == 1 and step.heads[tp].batch_id == newest


def _moment(at: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, timezone.utc)
    return moment.isoformat(timespec="milliseconds")


def _applied(step: LedgerStep) -> Iterator[AppliedBatch]:
    if step.before is None:
        return
    for tp, head in step.heads.items():
        if step.verdict is not None:
            until = head.range.until
            yield AppliedBatch(
                partition=tp,
                head=replace(head, range=OffsetRange(until, until)),
                rows=0,
                verdict=step.verdict,
                gap=None,
                applied_at=_moment(step.at),
            )
            continue
        old = step.before.get(tp)
        if head == old or (old is not None and _is_empty(tp, old, head)):
            continue
        gap = None if old is None else _gap(tp, old, head)
        follows = old is not None and _is_same_log(tp, old, head)
        verdict = BatchVerdict.NEXT if follows else BatchVerdict.FIRST
        yield AppliedBatch(
            partition=tp,
            head=head,
            rows=step.rows,
            verdict=verdict.value if gap is None else GAP_ACCEPTED,
            gap=gap,
            applied_at=_moment(step.at),
        )


def _is_empty(tp: TopicPartition, old: Head, head: Head) -> bool:
    """Return True if the batch had no offsets of `tp`: only the writer in its head changed."""
    return head.range.start == head.range.until == old.range.until and _is_same_log(tp, old, head)


def _gap(tp: TopicPartition, old: Head, head: Head) -> OffsetRange | None:
    if not _is_same_log(tp, old, head) or head.range.start <= old.range.until:
        return None
    return OffsetRange(old.range.until, head.range.start)


def _is_same_log(tp: TopicPartition, old: Head, head: Head) -> bool:
    """Return True if both heads are of one topic or, for a counted source, of one checkpoint."""
    if tp == BATCHES:
        return old.query_id == head.query_id
    return old.topic_id is None or head.topic_id is None or old.topic_id == head.topic_id
