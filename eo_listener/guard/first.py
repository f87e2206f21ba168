"""What a partition without a head is doubted by: the plan, and the ledger's other names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eo_listener.guard.breaches import Breaches, Kind
from eo_listener.ledger import Head, LedgerKey
from eo_listener.offsets import Span, TopicPartition
from eo_listener.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The heads that the plan's query id has moved in the ledger of a sink, under other names.

    `sink` is the sink's own key. Names that this run uses beside are not among them.
    """

    sink: str
    heads: Mapping[LedgerKey, Mapping[TopicPartition, Head]]

    def of(self, tp: TopicPartition) -> tuple[LedgerKey, Head] | None:
        """The head of a partition that says most: in the same sink first, then the farthest."""
        found = [(key, heads[tp]) for key, heads in self.heads.items() if tp in heads]
        return max(
            found, key=lambda one: (one[0].sink == self.sink, one[1].span.until), default=None
        )


def is_unknown(plan: Plan, applied: Mapping[TopicPartition, Head]) -> bool:
    """Whether the plan reads a partition that has no head, or the ledger has no head at all."""
    return not applied or any(tp not in applied for spans in plan.sources.values() for tp in spans)


def doubt(
    plan: Plan,
    tp: TopicPartition,
    span: Span,
    elsewhere: Elsewhere,
    breaches: Breaches,
    *,
    accept: bool,
) -> bool:
    """Whether a partition without a head may not begin with this batch; adds why to `breaches`.

    Where its query begins with it, it may: in the query's first batch, or as a new partition. With
    `accept` it may anywhere, but for rows that the same sink has under another name.
    """
    lost = is_late(plan, tp, span)
    found = elsewhere.of(tp)
    if found is not None:
        key, head = found
        has_it = head.batch_id >= plan.batch_id or head.span.until > span.start
        same = key.sink == elsewhere.sink
        if (has_it and same) or (not accept and (has_it or lost)):
            kind = Kind.UNDER_OLD_NAME if has_it and same else Kind.RENAMED
            where = "" if same else f" of {key.sink}"
            breaches.old_name = key.query
            breaches.add(kind, tp, head.span, f"batch {head.batch_id} of {key.query!r}{where}")
            return True
    if lost and not accept:
        breaches.add(Kind.UNKNOWN, tp, Span(0, span.start))
        return True
    return False


def is_late(plan: Plan, tp: TopicPartition, span: Span) -> bool:
    """Whether offsets before the range were read by an earlier batch of the checkpoint."""
    return span.start > 0 and tp in plan.continued
