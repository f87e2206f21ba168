"""Judges whether a planned batch is the next one for a sink, or whether the sink already has it.

The module itself reads no store.

The guard judges by the ranges of offsets, partition by partition, and not by the batch's number: a
new checkpoint counts from 0 again. There are two exceptions. For a batch without any new offsets,
whose rows come from Spark's state alone, only the batch's number shows whether the batch was
applied. And for sources other than Kafka, the guard knows only the number of the batch
(`next_move`).

A range counts as a replay only for the query that applied it, known by its query id, because under
a different id the same range may have different rows. A query's id lives as long as the query's
checkpoint, and is in every copy of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from eo_listener.batch_guard.error_kinds import BatchErrorKind
from eo_listener.batch_guard.errors import BatchErrors, SinkLedger
from eo_listener.errors import SettingsError
from eo_listener.model.ledger import BatchVerdict, Entry, Head, LedgerKey, Move
from eo_listener.model.planned_batch import BATCHES, CountedSources, PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The guard's answer about a batch for one sink.

    `verdict` is the verdict on the whole batch: REPLAY if the sink has all of the batch, FIRST if
    the ledger had none of its partitions. `entry` has no moves if nothing is to be written: after
    REPLAY, and for a batch without any partition. `replayed` has the ranges that the sink already
    has.
    """

    verdict: BatchVerdict
    entry: Entry
    replayed: Mapping[TopicPartition, OffsetRange]

    @property
    def gaps(self) -> dict[TopicPartition, OffsetRange]:
        """The lost offsets that the user accepts (`on_gap`)."""
        return self._gaps(late=False)

    @property
    def skipped(self) -> dict[TopicPartition, OffsetRange]:
        """The offsets before the start of a ledger that may begin in mid-stream (`on_first`)."""
        return self._gaps(late=True)

    def _gaps(self, *, late: bool) -> dict[TopicPartition, OffsetRange]:
        return {
            tp: move.gap
            for tp, move in self.entry.moves.items()
            if move.gap is not None
            and late is (move.expected is None and move.gap.start < move.range.start)
        }


OnGap = Literal["fail", "accept"]
"""How to treat a gap."""

OnFirst = Literal["fail", "accept"]
"""How to treat a later batch of a query if the ledger lacks heads for its partitions."""

OnRecreated = Literal["fail", "restart"]
"""How to treat a topic that was deleted and recreated."""


def judge_batch(
    plan: PlannedBatch,
    applied: Mapping[TopicPartition, Head],
    *,
    name: str,
    sink: str,
    on_gap: OnGap = "fail",
    on_first: OnFirst = "fail",
    on_recreated: OnRecreated = "fail",
    new_checkpoint: str | None = None,
    per_partition: bool = False,
    other_heads: OtherHeads | None = None,
    ledger: SinkLedger | None = None,
) -> Judgement:
    """Judge `plan` by the heads that a sink's ledger holds under `name`.

    `sink` is the sink's label, and `ledger` the place of its heads, for the texts of errors.
    `other_heads` is needed if `is_unknown` returns True, and in the first batch of a run: without
    it each partition without a head counts as FIRST. With `on_recreated="restart"` a partition of a
    recreated topic counts as never applied, and must be read from its log's start. If
    `topic_was_recreated` returns True, the caller must query Kafka for the plan after it has read
    `applied`. `new_checkpoint` is the consent that NewCheckpointError shows.

    Raises SettingsError for a plan that cannot be judged. Otherwise raises the gravest GuardError
    that applies, with all its partitions: TopicRecreatedError, NewCheckpointError,
    PartitionVanishedError, RegressionError, OverlapError, NotInLedgerError, GapError,
    PartialReplayError.
    """
    ranges = plan.ranges()
    check = _BatchCheck(
        plan,
        applied,
        other_heads,
        accepts_gaps=on_gap == "accept",
        accepts_first=on_first == "accept",
        restarts=on_recreated == "restart",
    )
    check.find_vanished(ranges)
    check.judge(ranges, new_checkpoint)
    if other_heads is not None:
        for tp, move in check.moves.items():
            check.find_doubled(tp, move.range, other_heads)
    per_partition = per_partition and plan.counted is None
    if not per_partition and check.continues:
        for tp, offset_range in check.replayed.items():
            check.errors.add(BatchErrorKind.MIXED, tp, offset_range)
    check.errors.raise_gravest(plan, name=name, sink=sink, ledger=ledger)
    # With `per_partition`, empty ranges get their heads in a transaction after all the others.
    is_due = check.continues or per_partition or not check.replayed
    moves = check.moves if is_due else {}
    entry = Entry(
        query=name, query_id=plan.query_id, run_id=plan.run_id, batch_id=plan.batch_id, moves=moves
    )
    return Judgement(verdict=check.verdict(moves), entry=entry, replayed=check.replayed)


def topic_was_recreated(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Return True if a topic that the plan reads has a different id in the ledger.

    Ids have no order, so the function cannot tell which id is newer. The plan's id is newer if
    Kafka was queried for it after the ledger was read.
    """
    return any(
        _ids(plan, tp, applied.get(tp)) is not None
        for offset_ranges in plan.sources.values()
        for tp in offset_ranges
    )


@dataclass(slots=True)
class _BatchCheck:
    """Collects, partition by partition, the moves, replays and errors of one batch."""

    plan: PlannedBatch
    applied: Mapping[TopicPartition, Head]
    other_heads: OtherHeads | None
    accepts_gaps: bool
    accepts_first: bool
    restarts: bool
    errors: BatchErrors = field(default_factory=BatchErrors)
    moves: dict[TopicPartition, Move] = field(default_factory=dict)
    replayed: dict[TopicPartition, OffsetRange] = field(default_factory=dict)
    #: True if a range is FIRST or NEXT; False if there are only new heads at empty ranges.
    continues: bool = False
    #: The source of each partition; empty if there is one source for all.
    sources: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        sources = self.plan.sources.items() if len(self.plan.sources) > 1 else ()
        self.sources = {tp: index for index, offset_ranges in sources for tp in offset_ranges}

    def verdict(self, moves: Mapping[TopicPartition, Move]) -> BatchVerdict:
        """Return the verdict on the whole batch; `moves` are the moves that are to be written."""
        if self.replayed and not moves:
            return BatchVerdict.REPLAY
        continues_head = any(
            move.expected is not None and move.verdict is not BatchVerdict.FIRST
            for move in moves.values()
        )
        return BatchVerdict.NEXT if continues_head or self.replayed else BatchVerdict.FIRST

    def judge(
        self, ranges: Mapping[TopicPartition, OffsetRange], new_checkpoint: str | None
    ) -> None:
        """Judge the batch by its new offsets and counted sources; without these, by its number."""
        if self.plan.counted is not None:
            self.judge_count(self.plan.counted, new_checkpoint)
            self.judge_ranges(ranges)
        elif self.plan.stateful and not ranges:
            self.find_unmarkable()
        elif any(start != until for start, until in ranges.values()):
            self.judge_ranges(ranges)
        else:
            self.judge_number(ranges)

    def find_vanished(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Add an error for each partition in the ledger that the batch does not read.

        The method skips topics that the batch does not read at all.
        """
        gone = self.applied.keys() - ranges.keys()
        if not gone:
            return
        ids = self.plan.topic_ids
        read = {tp.topic for tp in ranges}
        # The ledger already has heads of these recreated topics, so their heads that the batch does
        # not read belong to the deleted topics.
        recreated = {
            tp.topic for tp, head in self.applied.items() if head.topic_id == ids.get(tp[0])
        }
        for tp in sorted(gone):
            head = self.applied[tp]
            is_replaced = _ids(self.plan, tp, head) and (self.restarts or tp.topic in recreated)
            if tp.topic in read and not is_replaced:
                self.errors.add(
                    BatchErrorKind.VANISHED, tp, OffsetRange(head.range.until, head.range.until)
                )

    def find_unmarkable(self) -> None:
        """Add errors for a stateful batch without partitions, because no head could record it."""
        for tp, head in self.applied.items():
            self.errors.add(
                BatchErrorKind.NOTHING_LEFT, tp, OffsetRange(head.range.until, head.range.until)
            )
        if not self.applied:
            raise SettingsError(
                f"batch {self.plan.batch_id} of a stateful query reads no partition",
                cause="no topic matches the source's subscription; rows from the query's state "
                "could not be recorded as applied",
                fix="Create the topic before the query starts",
            )

    def judge_count(self, counted: CountedSources, new_checkpoint: str | None) -> None:
        """Judge the sources other than Kafka, by the number of the batch."""
        head = self.applied.get(BATCHES)
        if is_applied(self.plan, counted, head):
            self.replayed[BATCHES] = self.plan.count
            return
        move = self.next_move(counted, head, new_checkpoint)
        if move is not None:
            self.moves[BATCHES] = move

    def judge_ranges(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Judge each range by its offsets; an empty range only creates a missing head.

        Nearly every range begins where its head ends; such a range needs no further calls.
        """
        applied, moves, plan = self.applied.get, self.moves, self.plan
        starts, ends, ids = plan.log_starts.get, plan.log_ends.get, plan.topic_ids.get
        sources, only, following = self.sources, next(iter(plan.sources), 0), BatchVerdict.NEXT
        has_ends = plan.has_log_bounds
        for tp, offset_range in ranges.items():
            start, until = offset_range
            head, topic_id = applied(tp), ids(tp[0])
            if (
                head is not None
                and start == head.range[1]
                and topic_id == head.topic_id
                and start < until <= ends(tp, -1 if has_ends else until)
                and starts(tp, 0) <= start
            ):
                source = sources[tp] if sources else only
                moves[tp] = Move(source, offset_range, topic_id, following, head)
            elif self._is_recreated(tp, head):
                self._begin_recreated(tp, offset_range, head)
            elif start != until:
                self._judge_range(tp, offset_range, head)
            elif head is None:
                self._begin(tp, offset_range)
        self.continues = any(move.verdict is not None for move in moves.values())

    def _is_recreated(self, tp: TopicPartition, head: Head | None) -> bool:
        return _ids(self.plan, tp, head) is not None

    def _begin_recreated(
        self, tp: TopicPartition, offset_range: OffsetRange, head: Head | None
    ) -> None:
        """Begin a recreated topic's partition at its log's start, or add an error."""
        ids = _ids(self.plan, tp, head)
        if ids is not None and not self.restarts:
            self.errors.add(
                BatchErrorKind.RECREATED,
                tp,
                offset_range,
                f"its id was {ids[0]} and is now {ids[1]}",
            )
            return
        begins = min(offset_range.start, self.plan.log_starts.get(tp, 0))
        if offset_range.until < offset_range.start:
            self.errors.add(
                BatchErrorKind.BACKWARD, tp, OffsetRange(offset_range.until, offset_range.start)
            )
        elif self._is_there(tp, offset_range):
            self._continue(tp, offset_range, head, begins, BatchVerdict.FIRST)

    def _judge_range(
        self, tp: TopicPartition, offset_range: OffsetRange, head: Head | None
    ) -> None:
        start, until = offset_range
        reached = start if head is None else head.range.until
        if until < start:
            self.errors.add(BatchErrorKind.BACKWARD, tp, OffsetRange(until, start))
        elif head is not None and offset_range == head.range:
            if head.query_id == self.plan.query_id:
                self.replayed[tp] = offset_range
            else:
                note = f"by query id {head.query_id}; this query has id {self.plan.query_id}"
                self.errors.add(BatchErrorKind.APPLIED, tp, offset_range, note)
        elif start < reached:
            kind = BatchErrorKind.BEHIND if until < reached else BatchErrorKind.OVERLAP
            self.errors.add(kind, tp, OffsetRange(start, reached))
        elif self._is_there(tp, offset_range):
            if head is None:
                self._begin(tp, offset_range)
            else:
                self._continue(tp, offset_range, head, reached, BatchVerdict.NEXT)

    def _begin(self, tp: TopicPartition, offset_range: OffsetRange) -> None:
        """Add the move that creates a partition's missing head, if nothing contradicts it."""
        if self.is_doubted(tp, offset_range):
            return
        if offset_range.start != offset_range.until:
            self._continue(tp, offset_range, None, offset_range.start, BatchVerdict.FIRST)
        else:
            self.moves[tp] = self._move(tp, offset_range, None, None)
        move = self.moves.get(tp)
        if (
            move is not None
            and self.other_heads is not None
            and is_late(self.plan, tp, offset_range)
        ):
            skipped = OffsetRange(0, offset_range.start if move.gap is None else move.gap.until)
            self.moves[tp] = move._replace(gap=skipped)

    def _is_there(self, tp: TopicPartition, offset_range: OffsetRange) -> bool:
        """Return True if the log was not read, or reaches the range's end; else add an error."""
        end = self.plan.log_ends.get(tp)
        if end is None and self.plan.has_log_bounds:
            self.errors.add(BatchErrorKind.GONE, tp, offset_range)
        elif end is not None and end < offset_range.until:
            self.errors.add(BatchErrorKind.CUT_BACK, tp, OffsetRange(end, offset_range.until))
        else:
            return True
        return False

    def _continue(
        self,
        tp: TopicPartition,
        offset_range: OffsetRange,
        head: Head | None,
        reached: int,
        verdict: BatchVerdict,
    ) -> None:
        """Add the move of a range that starts at `reached` or beyond, or add a gap error."""
        start, until = offset_range
        readable_from = max(start, min(self.plan.log_starts.get(tp, 0), until))
        gap = OffsetRange(reached, readable_from) if readable_from > reached else None
        if gap is not None and not self.accepts_gaps:
            self.errors.add(BatchErrorKind.GAP if start > reached else BatchErrorKind.LOST, tp, gap)
            return
        moved = None if start == until else verdict
        self.moves[tp] = self._move(tp, offset_range, moved, head, gap)

    def judge_number(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Judge a batch without new offsets by its number.

        If the batch is accepted, its moves store this number in the heads.
        """
        plan, strays = self.plan, {}
        for tp, offset_range in ranges.items():
            head = self.applied.get(tp)
            if self._is_recreated(tp, head):
                self._begin_recreated(tp, offset_range, head)
                self.continues |= tp in self.moves
            elif head is None:
                self._begin(tp, offset_range)
            elif head.range.until != offset_range.start:
                strays[tp] = (offset_range, head)  # its next range with offsets will be judged
            elif head.query_id != plan.query_id or head.batch_id < plan.batch_id:
                self.moves[tp] = self._move(tp, offset_range, None, head)
                self.continues = True
            elif head.batch_id == plan.batch_id:
                self.replayed[tp] = offset_range
            else:
                self.errors.add(
                    BatchErrorKind.OLDER, tp, offset_range, f"the sink has batch {head.batch_id}"
                )
        if not self.moves and not self.replayed:
            # Nothing would identify a repetition of this batch, so its rows must not be written.
            for tp, (offset_range, head) in strays.items():
                self._judge_stray(tp, offset_range, head)

    def _judge_stray(self, tp: TopicPartition, offset_range: OffsetRange, head: Head) -> None:
        start, reached = offset_range.start, head.range.until
        if start < reached:
            self.errors.add(BatchErrorKind.BEHIND, tp, OffsetRange(start, reached))
        elif not self.accepts_gaps:
            self.errors.add(BatchErrorKind.GAP, tp, OffsetRange(reached, start))
        else:
            self.moves[tp] = self._move(tp, offset_range, None, head, OffsetRange(reached, start))
            self.continues = True

    def _move(
        self,
        tp: TopicPartition,
        offset_range: OffsetRange,
        verdict: BatchVerdict | None,
        head: Head | None,
        gap: OffsetRange | None = None,
    ) -> Move:
        topic_id = self.plan.topic_ids.get(tp.topic) or (head.topic_id if head else None)
        return Move(
            source=self.sources.get(tp, next(iter(self.plan.sources), 0)),
            range=offset_range,
            topic_id=topic_id,
            verdict=verdict,
            expected=head,
            gap=gap,
        )

    def is_doubted(self, tp: TopicPartition, offset_range: OffsetRange) -> bool:
        """Return True, and add an error, if the partition `tp` must not begin at `offset_range`.

        `tp` has no head. Such a partition may begin in the query's first batch, or as a new
        partition. With `on_first="accept"` it may begin anywhere, except with rows that the store
        has under another name or table.
        """
        former = self.other_heads
        if former is None:
            return False
        if self.find_doubled(tp, offset_range, former):
            return True
        for key, head in former.all_of(tp):
            if key.sink != former.sink and _has_it(self.plan, offset_range, head):
                # that table may be this one under its old name
                self.errors.name_old(BatchErrorKind.IN_OLD_TABLE, tp, key, head, former.sink)
                return True
        if self.accepts_first or not is_late(self.plan, tp, offset_range):
            return False
        furthest = former.furthest(tp)
        if furthest is not None:
            self.errors.name_old(BatchErrorKind.RENAMED, tp, *furthest, former.sink)
        else:
            kind = BatchErrorKind.UNCOUNTED if tp == BATCHES else BatchErrorKind.UNKNOWN
            self.errors.add(kind, tp, OffsetRange(0, offset_range.start))
        return True

    def find_doubled(
        self, tp: TopicPartition, offset_range: OffsetRange, former: OtherHeads
    ) -> bool:
        """Return True, and add an error, if the sink has the rows of a range under another name.

        This check also applies if the current name has a head: a query may be renamed, and renamed
        back.
        """
        furthest = former.furthest(tp)
        if furthest is None or furthest[0].sink != former.sink:
            return False
        if not _has_it(self.plan, offset_range, furthest[1]):
            return False
        self.errors.name_old(BatchErrorKind.UNDER_OLD_NAME, tp, *furthest, former.sink)
        return True

    def next_move(
        self, counted: CountedSources, head: Head | None, new_checkpoint: str | None
    ) -> Move | None:
        """Return the move of BATCHES; add an error and return None if the guard refuses the batch.

        The method compares the batch's number with the head of BATCHES, which each batch of a
        checkpoint moves by one. A number has a meaning only in its own checkpoint, and there only
        for one plan of the batch. So the head names the checkpoint and the plan: it holds the
        checkpoint's query id and, in place of a topic id, the plan id. The guard accepts a head of
        another checkpoint only if the user has named this head and the new checkpoint. With a
        general consent, a query whose checkpoint was deleted would read a whole source a second
        time. Moreover, the records that the new checkpoint must read depend on the records that the
        sink has. `new_checkpoint` names the head and the new checkpoint, in the form of `_consent`.
        """
        plan, start, accepts_gaps = self.plan, self.plan.count.start, self.accepts_gaps
        if head is None:
            if self.is_doubted(BATCHES, plan.count):
                return None
            is_first = self.other_heads is None or not is_late(plan, BATCHES, plan.count)
            reached, verdict = start if is_first else 0, BatchVerdict.FIRST
            accepts_gaps = True  # `on_first` has accepted them
        elif head.query_id != plan.query_id:
            consent = _consent(plan, head)
            if new_checkpoint != consent:
                self.errors.name_checkpoint(plan, head, consent)
                return None
            reached, verdict = 0 if BATCHES in plan.continued else start, BatchVerdict.FIRST
        else:
            reached, verdict = head.range.until, BatchVerdict.NEXT
            if plan.count == head.range or (start == reached and counted.before != head.topic_id):
                self.errors.add(BatchErrorKind.REPLANNED, BATCHES, head.range)
                return None
            if start < reached:
                behind = OffsetRange(start, reached)
                self.errors.add(BatchErrorKind.BATCH_BEHIND, BATCHES, behind)
                return None
        gap = OffsetRange(reached, start) if reached < start else None
        if gap is not None and not accepts_gaps:
            self.errors.add(BatchErrorKind.BATCH_GAP, BATCHES, gap)
            return None
        return Move(counted.indices[0], plan.count, counted.plan_id, verdict, head, gap)


def _ids(plan: PlannedBatch, tp: TopicPartition, head: Head | None) -> tuple[str, str] | None:
    """Return the ids of the topic of `tp`, in `head` and in `plan`, or None unless they differ."""
    was, now = head.topic_id if head else None, plan.topic_ids.get(tp.topic)
    return None if was == now or was is None or now is None else (was, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHeads:
    """The heads that the plan's query id has moved in the ledger of a sink, under other names.

    `sink` is the sink's own key. `heads` excludes names that this run itself uses.
    """

    sink: str
    heads: Mapping[LedgerKey, Mapping[TopicPartition, Head]]

    def furthest(self, tp: TopicPartition) -> tuple[LedgerKey, Head] | None:
        """Return the head of `tp` with the highest offset; prefer a head of the same sink."""
        return max(
            self.all_of(tp),
            key=lambda keyed_head: (keyed_head[0].sink == self.sink, keyed_head[1].range.until),
            default=None,
        )

    def all_of(self, tp: TopicPartition) -> list[tuple[LedgerKey, Head]]:
        """Return all heads of a partition, with their keys."""
        return [(key, heads[tp]) for key, heads in self.heads.items() if tp in heads]


def is_unknown(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Return True if the ledger is empty or lacks a partition that the plan reads."""
    return not applied or not plan.partitions <= applied.keys()


def is_doubtful(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Return True if earlier batches may have read a Kafka partition that has no head."""
    return any(
        tp not in applied and is_late(plan, tp, offset_range)
        for offset_ranges in plan.sources.values()
        for tp, offset_range in offset_ranges.items()
    )


def _has_it(plan: PlannedBatch, offset_range: OffsetRange, head: Head) -> bool:
    """Return True if `head` shows that part of the range was applied.

    Call this only for a head that the plan's query id has moved.
    """
    return head.batch_id >= plan.batch_id or head.range.until > offset_range.start


def is_late(plan: PlannedBatch, tp: TopicPartition, offset_range: OffsetRange) -> bool:
    """Return True if an earlier batch of the checkpoint has read offsets before the range."""
    return offset_range.start > 0 and tp in plan.continued


def is_applied(plan: PlannedBatch, counted: CountedSources, head: Head | None) -> bool:
    """Return True if this very batch, in an earlier attempt, has moved BATCHES to `head`."""
    return (
        head is not None
        and head.range == plan.count
        and head.query_id == plan.query_id
        and head.topic_id == counted.plan_id
    )


def _consent(plan: PlannedBatch, head: Head) -> str:
    """Return the text by which a user lets the plan's checkpoint follow the batch of `head`."""
    return f"{plan.query_id} after {head.topic_id}"
