"""Checks that a query's progress events follow one another, monotonically and without a gap.

Spark plans batch N+1 to start where batch N ended, in every source and partition. Offsets that
break that rule were read either twice or never. This module does no input or output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from eo_listener.events import Violation, ViolationKind
from eo_listener.model.progress import Progress
from eo_listener.offsets import Offsets, TopicPartition

_NO_STARTS: Mapping[TopicPartition, int] = MappingProxyType({})


class GuardMode(Enum):
    """The listener's reaction to a violation."""

    WITHHOLD = "withhold"
    WARN = "warn"


def judge(
    last: Offsets | None,
    start: Offsets | None,
    end: Offsets,
    log_starts: Mapping[TopicPartition, int] = _NO_STARTS,
) -> tuple[Violation, ...]:
    """Return the violations of a batch from `start` to `end` of one source.

    `last` has the offsets at which the previous batch ended, or is None if they are unknown.
    `start` is None for a query's very first batch, and leaves out new partitions. `log_starts` are
    the first offsets that Kafka still had *before* any task of the batch could read.
    """
    violations = (
        violation
        for tp in sorted({*(last or ()), *(start or ()), *end})
        for violation in _of(tp, last or Offsets(), start, end, log_starts.get(tp, 0))
    )
    return tuple(violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceVerdict:
    """The problems of one event: violations by the index of the source.

    If events are missing before this event, `missed_after` is the last known batch, and the batches
    between the two cannot be judged; otherwise it is None. `repeated` is True if the event was
    judged before.
    """

    violations: Mapping[int, tuple[Violation, ...]]
    missed_after: int | None = None
    repeated: bool = False


class SequenceGuard:
    """Judges each progress event of one run by the previous event."""

    def __init__(self) -> None:
        self._batch: int | None = None
        self._ranges: tuple[tuple[int, Offsets | None, Offsets | None], ...] = ()
        self._ends: dict[int, Offsets] = {}

    def follow(self, progress: Progress) -> SequenceVerdict:
        """Judge the next event of the run.

        A listener that was added twice gets each event twice: an event with the batch id and the
        offsets of the last event is the same event. An event with a lower batch id is late, since
        Spark counts up.
        """
        last, batch = self._batch, progress.batch_id
        ranges = tuple((source.index, source.start, source.end) for source in progress.sources)
        if last is not None and (batch < last or (batch, ranges) == (last, self._ranges)):
            return SequenceVerdict(violations={}, repeated=True)
        self._ranges = ranges
        jumped = last is not None and batch > last + 1
        violations: dict[int, tuple[Violation, ...]] = {}
        skipped = False
        for source in progress.sources:
            if source.end is None:
                continue
            problems = judge(self._ends.get(source.index), source.start, source.end)
            if jumped:
                # Batches without events are not a gap: Spark drops events when its bus is full.
                without_gaps = tuple(
                    each for each in problems if each.kind is not ViolationKind.GAP
                )
                skipped = skipped or len(without_gaps) < len(problems)
                problems = without_gaps
            if problems:
                violations[source.index] = problems
            self._ends[source.index] = source.end
        self._batch = batch
        return SequenceVerdict(violations=violations, missed_after=last if skipped else None)


def _of(
    tp: TopicPartition, last: Offsets, start: Offsets | None, end: Offsets, log_start: int
) -> list[Violation]:
    ended, begins, ends = last.get(tp), start.get(tp) if start is not None else None, end.get(tp)
    reached = ended if ended is not None else begins
    if reached is None or ends is None or (begins is None and start is not None):
        # A new partition has no earlier offsets to continue from; one that was read before has.
        return [] if reached is None else [_violation(ViolationKind.VANISHED, tp, reached, reached)]
    begins = reached if begins is None else begins
    violations = []
    if begins > reached:
        violations.append(_violation(ViolationKind.GAP, tp, reached, begins))
    if begins < reached:
        violations.append(_violation(ViolationKind.REPEAT, tp, begins, reached))
    if ends < begins:
        violations.append(_violation(ViolationKind.BACKWARD, tp, begins, ends))
    if ends > begins and log_start > begins:
        violations.append(_violation(ViolationKind.LOST, tp, begins, min(log_start, ends)))
    return violations


def _violation(kind: ViolationKind, tp: TopicPartition, start: int, until: int) -> Violation:
    return Violation(kind=kind, partition=tp, start=start, until=until)
