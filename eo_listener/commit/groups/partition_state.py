"""One partition of one group: its position, its target, and its obstacles.

Pure. `GroupState` holds one for each partition, and turns what they return into events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache

from eo_listener.commit.groups.policy import OnRewind, Policy
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.kafka_errors import ErrorMeaning
from eo_listener.offsets import Position

_STARTS_KEPT = 20  # moves of a log's start: some minutes of them, where it moves at each snapshot


class Discrepancy(Enum):
    """A contradiction between a snapshot of one partition and what was committed."""

    VANISHED = auto()
    FOREIGN = auto()
    WITHHELD_BEFORE = auto()
    BEYOND_LOG_END = auto()
    BELOW_GROUP = auto()
    BY_SINK = auto()


@dataclass(slots=True)
class RetryState:
    """Failures in a row of one partition, and when it may be tried again.

    `unknown` is set when one of them may have been stored, or may still be. `since` is when the
    first of those failed that have the same `persistent` meaning as the last.
    """

    failures: int = 0
    refused: bool = False
    unknown: bool = False
    not_before: float = 0.0
    persistent: ErrorMeaning | None = None
    since: float = 0.0

    def record(self, meaning: ErrorMeaning, now: float) -> None:
        """Take in one more failure."""
        self.failures += 1
        self.refused = meaning.lasting
        self.unknown = self.unknown or meaning.outcome_unknown
        if self.persistent is not meaning.persistent:
            self.persistent, self.since = meaning.persistent, now


@dataclass(slots=True)
class PartitionState:
    """State of one partition.

    A position goes from `pending` to `confirmed`. `refused` is a position that must not be sent
    while the group (at `obstacle`) or the log's end stands in its way; while that is the log's end,
    a confirmed offset that the group has lost may be `pending` at the same time. `withheld`: the
    guard lets nothing newer through; `mark` is then the metadata with which to leave its mark at
    the group's position. `repeat` is when to send a confirmed position again, because an earlier
    request may still have been on its way and have arrived after it: a request of unknown outcome,
    or the last request of a killed driver. `snapshot_at` is when the group and the log were last
    read; `log_starts` are log starts and the times at which they were known, the newest last;
    `needs_snapshot` requests a snapshot although there is nothing to commit. `asked` is the
    greatest known offset when the outstanding snapshot was requested. `reported_foreign` is a
    foreign commit that was reported. `sink_run` is the run whose sink moves the group, in the
    transactions of its batches. While a sink moves the group, the group is read before every
    commit, and offsets that it already has are skipped, unless `renews` is set; an offer from
    another run resets this.
    """

    confirmed: Position | None = None
    pending: Position | None = None
    refused: Position | None = None
    obstacle: int | None = None
    withheld: bool = False
    mark: str | None = None
    repeat: float | None = None
    snapshot_at: float | None = None
    needs_snapshot: bool = False
    asked: int | None = None
    log_starts: tuple[tuple[int, float], ...] = ()
    reported_foreign: Position | None = None
    retry_state: RetryState | None = None
    sink_run: str | None = None
    renews: bool = False

    @property
    def wanted(self) -> Position | None:
        """Return the position to commit, allowed or not; of two the newer, unless withheld."""
        if self.pending is not None and self.refused is not None and not self.withheld:
            return max(self.pending, self.refused, key=lambda one: one.offset)
        return self.pending or self.refused

    @property
    def is_busy(self) -> bool:
        """True if anything but a repetition is to be done."""
        marking = self.mark is not None or self.needs_snapshot
        return marking or self.pending is not None or self.refused is not None

    @property
    def is_refused(self) -> bool:
        """True if Kafka refused the last request, which lasts until somebody changes something."""
        return self.retry_state is not None and self.retry_state.refused

    @property
    def not_before(self) -> float:
        """When the next request may be made, as far as failures say."""
        return self.retry_state.not_before if self.retry_state else 0.0

    def snapshot_due(self, policy: Policy) -> float:
        """When a new snapshot is needed before anything more is sent."""
        due = 0.0 if self.snapshot_at is None else self.snapshot_at + policy.snapshot_max_age
        return max(due, self.not_before)

    def next_try(self, policy: Policy) -> float | None:
        """When there is something to do; None for nothing."""
        time = None
        if self.pending is not None or self.mark is not None:
            time = self.not_before
        if self.repeat is not None:
            time = _sooner(time, max(self.repeat, self.not_before))
        if self.refused is not None or self.needs_snapshot:
            time = _sooner(time, self.snapshot_due(policy))
        return time

    def sendable(self, now: float) -> Position | None:
        """Return the position that may be sent now, given a fresh snapshot."""
        if self.not_before > now:
            return None
        repeated = self.repeat is not None and self.repeat <= now
        return self.pending or (self.confirmed if repeated else None)

    def offer(
        self, position: Position, policy: Policy, *, recommit: bool, rivals: bool = False
    ) -> int | None:
        """Take a position in, or return the offset that it is below.

        With `rivals` another live run may have committed what it is below: no rewind is allowed.
        """
        below = self._offer(position, policy, recommit=recommit, rivals=rivals)
        if self.sink_run is not None and self.wanted is not None:
            self.renews = self.renews or recommit
            self.snapshot_at = None
            if _run(self.wanted) != self.sink_run:
                self.sink_run = None
        return below

    def _offer(
        self, position: Position, policy: Policy, *, recommit: bool, rivals: bool
    ) -> int | None:
        if self.withheld:
            if recommit and self.pending is None:
                self.pending = self.confirmed
            return None
        if self.refused is not None:
            self.refused = position
            if self.obstacle is None or position.offset <= self.obstacle:
                return None if self.obstacle in (None, position.offset) else self.obstacle
            self.admit()
        held = self.pending or self.confirmed
        if held is None or position.offset > held.offset:
            self.pending = _declared(position, self.pending)
        elif position.offset == held.offset:
            if recommit:
                self.pending = _declared(position, self.pending)
        elif policy.on_rewind is OnRewind.ALLOW and not (rivals and _differ(held, position)):
            self.pending = _rewinding(position, (self.confirmed or held).offset)
            self.snapshot_at = None
        else:
            return held.offset
        return None

    def withhold(self, metadata: str) -> None:
        """Let nothing newer through, and leave the guard's mark; what came before still goes."""
        if self.withheld:
            return
        self.withheld = True
        last = self.pending or self.confirmed
        if last is None:
            self.mark, self.snapshot_at = metadata, None  # the snapshot shows where to leave it
        else:
            self.pending = _marking(last.offset, last.metadata)

    def admit(self) -> None:
        """Let what was refused be sent after all."""
        self.pending = self.wanted
        self.refused = self.obstacle = None

    def confirm(self, position: Position, now: float, repeat_after: float) -> None:
        """Record that Kafka confirmed a position."""
        first = self.confirmed is None and self.sink_run is None
        if first or (self.retry_state is not None and self.retry_state.unknown):
            self.repeat = now + repeat_after
        elif self.repeat is not None and self.repeat <= now:
            self.repeat = None
        self.confirmed = position if self.sink_run is None else None
        self.retry_state, self.renews = None, False
        if self.pending == position:
            self.pending = None

    def ask_snapshot(self) -> None:
        """Record that a snapshot is asked for now; one that is needed from now on is another."""
        known = (one.offset for one in (self.wanted, self.confirmed) if one is not None)
        self.asked = max(known, default=0)
        self.needs_snapshot = False

    def partition_missing(self) -> bool:
        """Take in that the partition does not exist; say whether something was to be done."""
        self.repeat, self.needs_snapshot = None, False
        return self.wanted is not None or self.mark is not None

    def compare(self, found: Position | None, end: int, policy: Policy) -> Iterator[Discrepancy]:
        """Take in what the group holds and where the log ends; return the discrepancies."""
        waiting = self.wanted
        asked, self.asked = self.asked, None
        if self._is_moved_by_sink(found):
            if waiting is not None:
                yield Discrepancy.BY_SINK
            return
        yield from self._compare(found)
        yield from self._check_mark(found, policy)
        yield from self._compare_wanted(found, end, asked, policy)
        if self.retry_state is not None and self.pending is None and self.mark is None:
            self.retry_state.persistent = None  # Kafka has answered, and nothing is to be sent

    def _is_moved_by_sink(self, found: Position | None) -> bool:
        """Return True if a sink has moved the group to the wanted offset, or beyond."""
        metadata = _parse(found) if found else None
        if found is None or metadata is None or not metadata.by_sink or self.withheld:
            return False
        ours = self.wanted or self.confirmed
        if ours is not None and (found.offset < ours.offset or _differ(found, ours)):
            return False
        self.sink_run = metadata.run_id
        self.confirmed = self.refused = self.obstacle = self.repeat = self.retry_state = None
        self.pending = found if self.renews else None
        return True

    def _compare_wanted(
        self, found: Position | None, end: int, asked: int | None, policy: Policy
    ) -> Iterator[Discrepancy]:
        """Decide about the wanted position; the log's end says nothing about a position that came
        later.
        """
        wanted = self.wanted
        if wanted is None:
            yield from self._compare_confirmed(found, end)
            return
        if self.withheld or asked is None:  # nothing came later
            asked = wanted.offset
        if min(wanted.offset, asked) > end:
            yield from self._refuse(wanted, None, Discrepancy.BEYOND_LOG_END)
            self.pending = self._lost(found, end)
        elif found is None or found.offset <= wanted.offset:
            self.admit()
        elif self._may_rewind(policy):
            self.admit()
            self.pending = _rewinding(wanted, found.offset)
        else:
            yield from self._refuse(wanted, found.offset, Discrepancy.BELOW_GROUP)

    def _lost(self, found: Position | None, end: int) -> Position | None:
        """Return the confirmed position if the group holds less and the log still reaches it."""
        last = self.confirmed
        if last is None or last.offset > end:
            return None
        return last if found is None or found.offset < last.offset else None

    def record_log_start(self, start: int, now: float) -> None:
        """Take in where the log begins; a batch that lasts long is judged by earlier ones."""
        if not self.log_starts or self.log_starts[-1][0] != start:
            self.log_starts = (*self.log_starts[-_STARTS_KEPT:], (start, now))

    def log_start(self, by: float) -> int | None:
        """Return the log start known at that time; None if it was unknown."""
        return next((start for start, known in reversed(self.log_starts) if known <= by), None)

    def _compare_confirmed(self, found: Position | None, end: int) -> Iterator[Discrepancy]:
        """With nothing to send: do not repeat what the group, or the log's end, has overtaken.

        A log that ends below what was confirmed was truncated, before that commit or after it.
        """
        if self.confirmed is None:
            return
        if found is not None and found.offset > self.confirmed.offset:
            self.repeat = self.snapshot_at = None
        elif self.confirmed.offset > end:
            yield from self._refuse(self.confirmed, None, Discrepancy.BEYOND_LOG_END)

    def _compare(self, found: Position | None) -> Iterator[Discrepancy]:
        """Have confirmed offsets sent again that the group has lost; report another writer."""
        if self.confirmed is None or found == self.confirmed:
            return
        if found is None:
            self.pending = self.pending or self.confirmed
            yield Discrepancy.VANISHED
            return
        if found.offset < self.confirmed.offset:
            self.pending = self.pending or self.confirmed
        # A request of our own may arrive late: its answer was lost, or it was held up on the way.
        mine, theirs = _parse(self.confirmed), _parse(found)
        if found != self.reported_foreign and (mine is None or not mine.same_writer(theirs)):
            self.reported_foreign = found
            yield Discrepancy.FOREIGN

    def _check_mark(self, found: Position | None, policy: Policy) -> Iterator[Discrepancy]:
        metadata = _parse(found) if found else None
        marked = metadata is not None and metadata.withheld
        if self.mark is not None:
            if found is not None and not marked:
                self.pending = _marking(found.offset, self.mark)
            self.mark = None
        elif marked and not policy.accept_marks and self._goes_beyond(found):
            self.withheld = True
            self.confirmed = found
            self.pending = self.refused = self.obstacle = None
            yield Discrepancy.WITHHELD_BEFORE

    def _goes_beyond(self, found: Position | None) -> bool:
        """Return True if something waits that a mark found in the group forbids."""
        wanted = self.wanted
        if wanted is None or found is None:
            return False
        return wanted.offset > found.offset if self.withheld else True

    def _may_rewind(self, policy: Policy) -> bool:
        newest = self.pending if self.pending is self.wanted else None
        metadata = _parse(newest) if newest else None
        declared = metadata is not None and metadata.rewound_from is not None
        first = self.confirmed is None
        return policy.on_rewind is OnRewind.ALLOW and (first or declared)

    def _refuse(
        self, wanted: Position, obstacle: int | None, why: Discrepancy
    ) -> Iterator[Discrepancy]:
        if self.refused is None:
            yield why
        self.pending = self.repeat = None
        self.refused, self.obstacle = wanted, obstacle


def _sooner(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


def _parse(position: Position) -> CommitMetadata | None:
    return _read(position.metadata)


@lru_cache(256)  # the partitions of one commit all have the same
def _read(text: str) -> CommitMetadata | None:
    return CommitMetadata.parse(text)


def _run(position: Position) -> str | None:
    metadata = _parse(position)
    return metadata.run_id if metadata else None


def _differ(one: Position, other: Position) -> bool:
    """Return True if they may be of two queries."""
    first, second = _parse(one), _parse(other)
    return first is None or second is None or first.query_id != second.query_id


def _rewinding(position: Position, held: int) -> Position:
    metadata = _parse(position)
    text = metadata.rewinding(held).text() if metadata else position.metadata
    return replace(position, metadata=text)


def _declared(position: Position, waiting: Position | None) -> Position:
    """A position that replaces an unsent rewind is a rewind itself, if it is as low."""
    metadata = _parse(waiting) if waiting else None
    held = metadata.rewound_from if metadata else None
    return position if held is None or position.offset >= held else _rewinding(position, held)


def _marking(offset: int, text: str) -> Position:
    metadata = CommitMetadata.parse(text)
    return Position(offset=offset, metadata=metadata.withholding().text() if metadata else text)
