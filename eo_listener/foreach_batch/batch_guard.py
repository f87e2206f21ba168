"""Whether a planned batch is the next one for a sink, or one that the sink has already. Pure.

Decided by the ranges of offsets, partition by partition, and never by the batch's number: a new
checkpoint counts from 0 again. There are two exceptions. Of a batch without any new offsets, whose
rows come from Spark's state alone, only its number shows whether it was applied. And of sources
that are not Kafka only the number of the batch is known (`counted_guard`).

A range that was applied is repeated by its own query only, whose id lives as long as its checkpoint
and is in every copy of it. Under another id the same range may have other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from eo_listener.foreach_batch.batch_error_kinds import BatchErrorKind
from eo_listener.foreach_batch.batch_errors import BatchErrors, SinkLedger
from eo_listener.foreach_batch.counted_guard import is_applied, next_move
from eo_listener.foreach_batch.first_batch import OtherHeads, doubt, has_doubled, is_late
from eo_listener.foreach_batch.judgement import Judgement
from eo_listener.model.counted_sources import BATCHES, CountedSources
from eo_listener.model.errors import SettingsError
from eo_listener.model.ledger import BatchVerdict, Entry, Head, Move
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch

OnGap = Literal["fail", "accept"]
"""What happens at a gap."""

OnFirst = Literal["fail", "accept"]
"""What happens at a query's later batch for whose partitions the ledger has no head."""

OnRecreated = Literal["fail", "restart"]
"""What happens when a topic was deleted and recreated."""


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

    `sink` is its label, and `ledger` where its heads are, for the texts of errors. `other_heads` is
    needed where `is_unknown`, and in the first batch of a run: without it each partition that has
    no head counts as a first one, as in a sink without a ledger. With `on_recreated="restart"` a
    partition of a topic that was recreated counts as never applied, and must be read from its log's
    start; where `is_of_another_topic`, Kafka is then asked for the plan after `applied` was read.
    `new_checkpoint` is what its NewCheckpointError said: by which checkpoint counted sources go on,
    and after which batch; with such sources `per_partition` does not count.

    Raises SettingsError for a plan that cannot be judged. Otherwise raises the gravest GuardError
    of those that apply, with all its partitions: TopicRecreatedError, NewCheckpointError,
    PartitionVanishedError, RegressionError, OverlapError, NotInLedgerError, GapError,
    PartialReplayError.
    """
    ranges = plan.ranges()
    check = _BatchCheck(
        plan,
        applied,
        other_heads,
        accept=on_gap == "accept",
        adopt=on_first == "accept",
        restart=on_recreated == "restart",
    )
    check.find_vanished(ranges)
    check.judge(ranges, new_checkpoint)
    check.find_doubled()
    per_partition = per_partition and plan.counted is None
    if not per_partition and check.continues:
        for tp, offset_range in check.replayed.items():
            check.errors.add(BatchErrorKind.MIXED, tp, offset_range)
    check.errors.raise_gravest(plan, name=name, sink=sink, ledger=ledger)
    # Alone, a partition without offsets gets its head in a transaction after those of the others.
    wanted = check.continues or per_partition or not check.replayed
    moves = check.moves if wanted else {}
    entry = Entry(
        query=name,
        query_id=plan.query_id,
        run_id=plan.run_id,
        batch_id=plan.batch_id,
        moves=moves,
    )
    return Judgement(verdict=check.verdict(moves), entry=entry, replayed=check.replayed)


def is_of_another_topic(plan: PlannedBatch, applied: Mapping[TopicPartition, Head]) -> bool:
    """Whether a topic that the plan reads has another id than the ledger knows.

    Ids have no order, so this does not show which is the newer: that of the plan is, if Kafka was
    asked for it after the ledger was read.
    """
    return any(
        _ids(plan, tp, applied.get(tp)) is not None
        for offset_ranges in plan.sources.values()
        for tp in offset_ranges
    )


class _BatchCheck:
    """Collects the moves, replays and errors of one batch, partition by partition."""

    def __init__(
        self,
        plan: PlannedBatch,
        applied: Mapping[TopicPartition, Head],
        other_heads: OtherHeads | None,
        *,
        accept: bool,
        adopt: bool,
        restart: bool,
    ) -> None:
        self._plan = plan
        self._applied = applied
        self._other_heads = other_heads
        self._accept = accept
        self._adopt = adopt
        self._restart = restart
        self._sources = _by_partition(plan)
        self._only = next(iter(plan.sources), 0)
        self.errors = BatchErrors()
        self.moves: dict[TopicPartition, Move] = {}
        self.replayed: dict[TopicPartition, OffsetRange] = {}
        self.continues = False  # FIRST or NEXT somewhere, not only new heads at empty ranges

    def verdict(self, moves: Mapping[TopicPartition, Move]) -> BatchVerdict:
        """The verdict of the whole batch, of which `moves` are to be written."""
        if self.replayed and not moves:
            return BatchVerdict.REPLAY
        known = any(
            move.found is not None and move.verdict is not BatchVerdict.FIRST
            for move in moves.values()
        )
        return BatchVerdict.NEXT if known or self.replayed else BatchVerdict.FIRST

    def judge(
        self, ranges: Mapping[TopicPartition, OffsetRange], new_checkpoint: str | None
    ) -> None:
        """Judge the batch by what it has."""
        if self._plan.counted is not None:
            self.judge_count(self._plan.counted, new_checkpoint)
            self.judge_ranges(ranges)
        elif self._plan.stateful and not ranges:
            self.find_unmarkable()
        elif any(start != until for start, until in ranges.values()):
            self.judge_ranges(ranges)
        else:
            self.judge_number(ranges)

    def find_vanished(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Find partitions of the ledger that are not read, of topics that are."""
        gone = self._applied.keys() - ranges.keys()
        if not gone:
            return
        ids = self._plan.topic_ids
        read = {tp.topic for tp in ranges}
        # The ledger has heads of the new topic already: those not read are of the older one.
        recreated = {
            tp.topic for tp, head in self._applied.items() if head.topic_id == ids.get(tp[0])
        }
        for tp in sorted(gone):
            head = self._applied[tp]
            is_replaced = _ids(self._plan, tp, head) and (self._restart or tp.topic in recreated)
            if tp.topic in read and not is_replaced:
                self.errors.add(
                    BatchErrorKind.VANISHED, tp, OffsetRange(head.range.until, head.range.until)
                )

    def find_doubled(self) -> None:
        """Add errors for ranges that the sink has already, under another name."""
        if self._other_heads is not None:
            for tp, move in self.moves.items():
                has_doubled(self._plan, tp, move.range, self._other_heads, self.errors)

    def find_unmarkable(self) -> None:
        """Add errors for a stateful batch without partitions, which no head could record."""
        for tp, head in self._applied.items():
            self.errors.add(
                BatchErrorKind.NOTHING_LEFT, tp, OffsetRange(head.range.until, head.range.until)
            )
        if not self._applied:
            raise SettingsError(
                f"batch {self._plan.batch_id} of a stateful query reads no partition at all",
                cause="no topic matches what the source subscribes to; rows from the query's state "
                "could not be recorded as applied",
                fix="Create the topic before the query starts",
            )

    def judge_count(self, counted: CountedSources, new_checkpoint: str | None) -> None:
        """Judge what is not Kafka, by the number of the batch."""
        head = self._applied.get(BATCHES)
        if is_applied(self._plan, counted, head):
            self.replayed[BATCHES] = self._plan.count
            return
        move = next_move(
            self._plan,
            counted,
            head,
            self._other_heads,
            self.errors,
            accept=self._accept,
            adopt=self._adopt,
            new_checkpoint=new_checkpoint,
        )
        if move is not None:
            self.moves[BATCHES] = move

    def judge_ranges(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Judge each range by its offsets; an empty one only makes a missing head.

        A range that simply comes next, as nearly all do, is taken here, without further calls.
        """
        applied, moves, plan = self._applied.get, self.moves, self._plan
        starts, ends, ids = plan.log_starts.get, plan.log_ends.get, plan.topic_ids.get
        sources, only, following = self._sources, self._only, BatchVerdict.NEXT
        asked = plan.asked
        for tp, offset_range in ranges.items():
            start, until = offset_range
            head, topic_id = applied(tp), ids(tp[0])
            if (
                head is not None
                and start == head.range[1]
                and topic_id == head.topic_id
                and start < until <= ends(tp, -1 if asked else until)
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
        return _ids(self._plan, tp, head) is not None

    def _begin_recreated(
        self, tp: TopicPartition, offset_range: OffsetRange, head: Head | None
    ) -> None:
        """Take a topic that was recreated from its log's start, where that is wanted."""
        ids = _ids(self._plan, tp, head)
        if ids is not None and not self._restart:
            self.errors.add(
                BatchErrorKind.RECREATED, tp, offset_range, f"its id was {ids[0]}, is {ids[1]}"
            )
            return
        begins = min(offset_range.start, self._plan.log_starts.get(tp, 0))
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
            if head.query_id == self._plan.query_id:
                self.replayed[tp] = offset_range
            else:
                note = f"by query id {head.query_id}, this one has id {self._plan.query_id}"
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
        """Make the head of a partition that has none, where nothing speaks against it."""
        plan, other_heads = self._plan, self._other_heads
        if other_heads is not None and doubt(
            plan, tp, offset_range, other_heads, self.errors, accept=self._adopt
        ):
            return
        if offset_range.start != offset_range.until:
            self._continue(tp, offset_range, None, offset_range.start, BatchVerdict.FIRST)
        else:
            self.moves[tp] = self._move(tp, offset_range, None, None)
        if other_heads is not None and is_late(plan, tp, offset_range) and tp in self.moves:
            move = self.moves[tp]
            skipped = OffsetRange(0, offset_range.start if move.gap is None else move.gap.until)
            self.moves[tp] = move._replace(gap=skipped)

    def _is_there(self, tp: TopicPartition, offset_range: OffsetRange) -> bool:
        """Whether the log reaches as far as the range, as far as Kafka was asked."""
        end = self._plan.log_ends.get(tp)
        if end is None and self._plan.asked:
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
        """Take a range that starts at what was reached, or beyond."""
        start, until = offset_range
        there = max(start, min(self._plan.log_starts.get(tp, 0), until))
        gap = OffsetRange(reached, there) if there > reached else None
        if gap is not None and not self._accept:
            self.errors.add(BatchErrorKind.GAP if start > reached else BatchErrorKind.LOST, tp, gap)
            return
        moved = None if start == until else verdict
        self.moves[tp] = self._move(tp, offset_range, moved, head, gap)

    def judge_number(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Judge a batch without new offsets, whose heads get its batch id, by that id."""
        plan, strays = self._plan, {}
        for tp, offset_range in ranges.items():
            head = self._applied.get(tp)
            if self._is_recreated(tp, head):
                self._begin_recreated(tp, offset_range, head)
                self.continues |= tp in self.moves
            elif head is None:
                self._begin(tp, offset_range)
            elif head.range.until != offset_range.start:
                strays[tp] = (offset_range, head)  # it is judged by its next offsets
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
            # Nothing would identify a repetition of this batch, so its rows may not be written.
            for tp, (offset_range, head) in strays.items():
                self._judge_stray(tp, offset_range, head)

    def _judge_stray(self, tp: TopicPartition, offset_range: OffsetRange, head: Head) -> None:
        start, reached = offset_range.start, head.range.until
        if start < reached:
            self.errors.add(BatchErrorKind.BEHIND, tp, OffsetRange(start, reached))
        elif not self._accept:
            self.errors.add(BatchErrorKind.GAP, tp, OffsetRange(reached, start))
        else:
            self.moves[tp] = self._move(tp, offset_range, None, head, OffsetRange(reached, start))
            self.continues = True

    def _move(
        self,
        tp: TopicPartition,
        offset_range: OffsetRange,
        verdict: BatchVerdict | None,
        found: Head | None,
        gap: OffsetRange | None = None,
    ) -> Move:
        topic_id = self._plan.topic_ids.get(tp.topic) or (found.topic_id if found else None)
        return Move(
            source=self._sources.get(tp, self._only),
            range=offset_range,
            topic_id=topic_id,
            verdict=verdict,
            found=found,
            gap=gap,
        )


def _ids(plan: PlannedBatch, tp: TopicPartition, head: Head | None) -> tuple[str, str] | None:
    """The topic's id in the ledger and the one that it has now, where they differ."""
    was, now = head.topic_id if head else None, plan.topic_ids.get(tp.topic)
    return None if was == now or was is None or now is None else (was, now)


def _by_partition(plan: PlannedBatch) -> dict[TopicPartition, int]:
    """The source of each partition; empty where there is one source for all."""
    if len(plan.sources) == 1:
        return {}
    return {tp: index for index, offset_ranges in plan.sources.items() for tp in offset_ranges}
