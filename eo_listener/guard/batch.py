"""Whether a planned batch is the next one for a sink, or one that the sink has already. Pure.

Decided by the ranges of offsets, partition by partition, and never by the batch's number: a new
checkpoint counts from 0 again. The one exception is a batch without any new offsets, whose rows
come from Spark's state alone: of it only the number tells whether it was applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from eo_listener.errors import SettingsError
from eo_listener.guard.breaches import Breaches, Kind
from eo_listener.ledger import Entry, Head, Move, Verdict
from eo_listener.offsets import Span, TopicPartition
from eo_listener.plan import Plan

OnGap = Literal["halt", "accept"]
"""What a gap leads to; nothing else can be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a sink is to do with a batch.

    `verdict` is that of the whole: REPLAY when the sink has all of it, FIRST when none of its
    partitions was known. `entry` has no moves where nothing is to be written: after REPLAY, and
    for a batch without any partition. `replayed` are the ranges that the sink has already.
    """

    verdict: Verdict
    entry: Entry
    replayed: Mapping[TopicPartition, Span]

    @property
    def holes(self) -> dict[TopicPartition, Span]:
        """The offsets that are lost, and accepted as lost."""
        moves = self.entry.moves.items()
        return {tp: move.hole for tp, move in moves if move.hole is not None}


def judge_batch(
    plan: Plan,
    applied: Mapping[TopicPartition, Head],
    *,
    name: str,
    sink: str,
    on_gap: OnGap = "halt",
    per_partition: bool = False,
) -> Judgement:
    """Judge `plan` by the heads that a sink's ledger holds under `name`.

    `sink` is its label, for the words of errors. Raises SettingsError for a plan that cannot be
    judged, else of all that is wrong the gravest GuardError, with all its partitions:
    TopicRecreatedError, PartitionVanishedError, RegressionError, OverlapError, GapError,
    MixedReplayError.
    """
    _refuse_what_cannot_be_judged(plan, name)
    ranges = plan.ranges()
    bench = _Bench(plan, applied, accept=on_gap == "accept")
    bench.find_vanished(ranges)
    if any(start != until for start, until in ranges.values()):
        bench.judge_ranges(ranges)
    else:
        bench.judge_number(ranges)
    if not per_partition and bench.continues:
        for tp, span in bench.replayed.items():
            bench.breaches.add(Kind.MIXED, tp, span)
    bench.breaches.raise_gravest(batch_id=plan.batch_id, name=name, sink=sink)
    moves = bench.moves if bench.continues or not bench.replayed else {}
    entry = Entry(
        query=name,
        query_id=plan.query_id,
        run_id=plan.run_id,
        batch_id=plan.batch_id,
        moves=moves,
    )
    return Judgement(verdict=bench.verdict(), entry=entry, replayed=bench.replayed)


class _Bench:
    """One judgement in the making."""

    def __init__(self, plan: Plan, applied: Mapping[TopicPartition, Head], *, accept: bool) -> None:
        self._plan = plan
        self._applied = applied
        self._accept = accept
        self._sources = _by_partition(plan)
        self._only = next(iter(plan.sources))
        self.breaches = Breaches()
        self.moves: dict[TopicPartition, Move] = {}
        self.replayed: dict[TopicPartition, Span] = {}
        self.continues = False  # something is FIRST or NEXT, a new head at an empty range aside

    def verdict(self) -> Verdict:
        """That of the whole batch."""
        if self.replayed and not self.continues:
            return Verdict.REPLAY
        known = any(move.found is not None for move in self.moves.values())
        return Verdict.NEXT if known or self.replayed else Verdict.FIRST

    def find_vanished(self, ranges: Mapping[TopicPartition, Span]) -> None:
        """Find partitions of the ledger that are not read, of topics that are."""
        gone = self._applied.keys() - ranges.keys()
        read = {tp.topic for tp in ranges} if gone else set()
        for tp in sorted(gone):
            if tp.topic in read:
                reached = self._applied[tp].span.until
                self.breaches.add(Kind.VANISHED, tp, Span(reached, reached))

    def judge_ranges(self, ranges: Mapping[TopicPartition, Span]) -> None:
        """Judge by offsets; of an empty range only a missing head is made.

        What is simply next is taken here and at once: it is nearly all there ever is.
        """
        applied, moves, plan = self._applied.get, self.moves, self._plan
        starts, ends, ids = plan.log_starts.get, plan.log_ends.get, plan.topic_ids.get
        sources, only, following = self._sources, self._only, Verdict.NEXT
        for tp, span in ranges.items():
            start, until = span
            head, topic_id = applied(tp), ids(tp[0])
            if (
                head is not None
                and start == head.span[1]
                and topic_id == head.topic_id
                and start < until <= ends(tp, until)
                and starts(tp, 0) <= start
            ):
                source = sources[tp] if sources else only
                moves[tp] = Move(source, span, topic_id, following, head)
            elif self._is_recreated(tp, span, head):
                continue
            elif start != until:
                self._judge_range(tp, span, head)
            elif head is None:
                moves[tp] = self._move(tp, span, None, None)
        self.continues = any(move.verdict is not None for move in moves.values())

    def _is_recreated(self, tp: TopicPartition, span: Span, head: Head | None) -> bool:
        was, now = head.topic_id if head else None, self._plan.topic_ids.get(tp.topic)
        if was == now or was is None or now is None:
            return False
        self.breaches.add(Kind.RECREATED, tp, span, f"its id was {was}, is {now}")
        return True

    def _judge_range(self, tp: TopicPartition, span: Span, head: Head | None) -> None:
        start, until = span
        reached = start if head is None else head.span.until
        if until < start:
            self.breaches.add(Kind.BACKWARD, tp, Span(until, start))
        elif head is not None and span == head.span:
            self.replayed[tp] = span
        elif start < reached:
            kind = Kind.BEHIND if until < reached else Kind.OVERLAP
            self.breaches.add(kind, tp, Span(start, reached))
        elif self._plan.log_ends.get(tp, until) < until:
            self.breaches.add(Kind.CUT_BACK, tp, Span(self._plan.log_ends[tp], until))
        else:
            self._continue(tp, span, head, reached)

    def _continue(self, tp: TopicPartition, span: Span, head: Head | None, reached: int) -> None:
        """Take a range that starts at what was reached, or beyond."""
        start, until = span
        there = max(start, min(self._plan.log_starts.get(tp, 0), until))
        hole = Span(reached, there) if there > reached else None
        if hole is not None and not self._accept:
            self.breaches.add(Kind.GAP if start > reached else Kind.LOST, tp, hole)
            return
        verdict = Verdict.FIRST if head is None else Verdict.NEXT
        self.moves[tp] = self._move(tp, span, verdict, head, hole)

    def judge_number(self, ranges: Mapping[TopicPartition, Span]) -> None:
        """Judge a batch without new offsets: its heads are marked with its number."""
        plan, strays = self._plan, {}
        for tp, span in ranges.items():
            head = self._applied.get(tp)
            if self._is_recreated(tp, span, head):
                continue
            if head is None:
                self.moves[tp] = self._move(tp, span, None, None)
            elif head.span.until != span.start:
                strays[tp] = (span, head)  # it is judged by its next offsets
            elif head.query_id != plan.query_id or head.batch_id < plan.batch_id:
                self.moves[tp] = self._move(tp, span, None, head)
                self.continues = True
            elif head.batch_id == plan.batch_id:
                self.replayed[tp] = span
            else:
                self.breaches.add(Kind.OLDER, tp, span, f"applied was batch {head.batch_id}")
        if not self.moves and not self.replayed:
            # Nothing would tell a repetition of this batch, so its rows may not be written.
            for tp, (span, head) in strays.items():
                self._judge_stray(tp, span, head)

    def _judge_stray(self, tp: TopicPartition, span: Span, head: Head) -> None:
        start, reached = span.start, head.span.until
        if start < reached:
            self.breaches.add(Kind.BEHIND, tp, Span(start, reached))
        elif not self._accept:
            self.breaches.add(Kind.GAP, tp, Span(reached, start))
        else:
            self.moves[tp] = self._move(tp, span, None, head, Span(reached, start))
            self.continues = True

    def _move(
        self,
        tp: TopicPartition,
        span: Span,
        verdict: Verdict | None,
        found: Head | None,
        hole: Span | None = None,
    ) -> Move:
        topic_id = self._plan.topic_ids.get(tp.topic) or (found.topic_id if found else None)
        return Move(
            source=self._sources.get(tp, self._only),
            span=span,
            topic_id=topic_id,
            verdict=verdict,
            found=found,
            hole=hole,
        )


def _by_partition(plan: Plan) -> dict[TopicPartition, int]:
    """The source of each partition; empty where there is one source for all."""
    if len(plan.sources) == 1:
        return {}
    return {tp: index for index, spans in plan.sources.items() for tp in spans}


def _refuse_what_cannot_be_judged(plan: Plan, name: str) -> None:
    if plan.others:
        named = ", ".join(map(str, plan.others))
        raise SettingsError(
            f"query {name!r} reads something that is not Kafka (source {named})",
            cause="only of Kafka's offsets can be proved that each was applied once",
            fix="Read that source in a query of its own, or as a static DataFrame",
        )
    if not plan.sources:
        raise SettingsError(
            f"query {name!r} reads no Kafka source",
            cause="exactly_once judges a batch by its Kafka offsets, and there are none",
            fix='Read the stream with spark.readStream.format("kafka")',
        )
