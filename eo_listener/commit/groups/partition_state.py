"""One partition of one group: where it stands, where it should, and what is in the way.

Pure. `Lane` holds one for each partition, and turns what they say into events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache

from eo_listener.commit.groups.policy import OnRewind, Policy
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.offsets import Position

_STARTS_KEPT = 20  # moves of a log's start: some minutes of them, where it moves at each look


class Discrepancy(Enum):
    """What a look at the group brought to light for one partition."""

    VANISHED = auto()
    FOREIGN = auto()
    WITHHELD_BEFORE = auto()
    BEYOND_LOG_END = auto()
    BELOW_GROUP = auto()


@dataclass(slots=True)
class RetryState:
    """Failures in a row of one partition, and when it may be tried again.

    `unknown` is set when one of them may have landed, or may still land.
    """

    failures: int = 0
    refused: bool = False
    unknown: bool = False
    not_before: float = 0.0


@dataclass(slots=True)
class PartitionState:
    """State of one partition.

    A position goes from `pending` to `confirmed`. `refused` is one that must not be sent while
    the group (at `obstacle`) or the log's end stands in its way. `withheld`: the guard lets
    nothing newer through; `mark` is then the metadata to leave its mark with, where the group
    stands. `repeat` is when a confirmed position is to be sent once more, because an earlier
    request may have been on its way still, and have landed after it: one of unknown outcome, or
    the last one of a driver that was killed.
    `on_snapshot` is when the group and the log were last looked at, `log_starts` what the log began
    with and by when that was known, the newest last; `watched` asks for a look though
    there is nothing to commit. `stranger` is what somebody else left there and was told of.
    """

    confirmed: Position | None = None
    pending: Position | None = None
    refused: Position | None = None
    obstacle: int | None = None
    withheld: bool = False
    mark: str | None = None
    repeat: float | None = None
    on_snapshot: float | None = None
    watched: bool = False
    log_starts: tuple[tuple[int, float], ...] = ()
    stranger: Position | None = None
    trouble: RetryState | None = None

    @property
    def wanted(self) -> Position | None:
        """What is to be committed, whether it may or not."""
        return self.pending or self.refused

    @property
    def is_busy(self) -> bool:
        """Whether anything but a repetition is to be done."""
        marking = self.mark is not None or self.watched
        return marking or self.pending is not None or self.refused is not None

    @property
    def is_refused(self) -> bool:
        """Whether Kafka refused the last request, which lasts until somebody changes something."""
        return self.trouble is not None and self.trouble.refused

    @property
    def not_before(self) -> float:
        """When the next request may be made, as far as failures say."""
        return self.trouble.not_before if self.trouble else 0.0

    def look_due(self, policy: Policy) -> float:
        """When the group must be looked at before anything more is sent."""
        due = 0.0 if self.on_snapshot is None else self.on_snapshot + policy.look_every
        return max(due, self.not_before)

    def next_try(self, policy: Policy) -> float | None:
        """When there is something to do; None for nothing."""
        time = None
        if self.pending is not None or self.mark is not None:
            time = self.not_before
        if self.repeat is not None:
            time = _sooner(time, max(self.repeat, self.not_before))
        if self.refused is not None or self.watched:
            time = _sooner(time, self.look_due(policy))
        return time

    def sendable(self, now: float) -> Position | None:
        """What may be sent now, given a fresh look."""
        if self.not_before > now:
            return None
        repeated = self.repeat is not None and self.repeat <= now
        return self.pending or (self.confirmed if repeated else None)

    def offer(
        self, position: Position, policy: Policy, *, renew: bool, rivals: bool = False
    ) -> int | None:
        """Take a position in, or return the offset that it is below.

        With `rivals` another live run may have committed what it is below: no rewind is allowed.
        """
        if self.withheld:
            if renew and self.pending is None:
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
            if renew:
                self.pending = _declared(position, self.pending)
        elif policy.on_rewind is OnRewind.ALLOW and not (rivals and _differ(held, position)):
            self.pending = _rewinding(position, (self.confirmed or held).offset)
            self.on_snapshot = None
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
            self.mark, self.on_snapshot = metadata, None  # the look says where to leave it
        else:
            self.pending = _marking(last.offset, last.metadata)

    def admit(self) -> None:
        """Let what was refused be sent after all."""
        if self.pending is None:
            self.pending = self.refused
        self.refused = self.obstacle = None

    def confirm(self, position: Position, now: float, doubt: float) -> None:
        """Record that Kafka confirmed a position."""
        first = self.confirmed is None
        if first or (self.trouble is not None and self.trouble.unknown):
            self.repeat = now + doubt
        elif self.repeat is not None and self.repeat <= now:
            self.repeat = None
        self.confirmed = position
        self.trouble = None
        if self.pending == position:
            self.pending = None

    def partition_missing(self) -> bool:
        """Take in that the partition does not exist; say whether something was to be done."""
        self.repeat, self.watched = None, False
        return self.wanted is not None or self.mark is not None

    def compare(self, found: Position | None, end: int, policy: Policy) -> Iterator[Discrepancy]:
        """Take in what the group holds and where the log ends; say what is remarkable."""
        self.watched = False
        yield from self._compare(found)
        yield from self._see_mark(found, policy)
        wanted = self.wanted
        if wanted is None:
            self._keep_quiet(found, end)
            return
        if wanted.offset > end:
            yield from self._refuse(wanted, None, Discrepancy.BEYOND_LOG_END)
        elif found is None or found.offset <= wanted.offset:
            self.admit()
        elif self._may_rewind(policy):
            self.admit()
            self.pending = _rewinding(wanted, found.offset)
        else:
            yield from self._refuse(wanted, found.offset, Discrepancy.BELOW_GROUP)

    def see_start(self, start: int, now: float) -> None:
        """Take in where the log begins; a batch that lasts long is judged by earlier ones."""
        if not self.log_starts or self.log_starts[-1][0] != start:
            self.log_starts = (*self.log_starts[-_STARTS_KEPT:], (start, now))

    def log_start(self, by: float) -> int | None:
        """Where the log was known to begin by then; None where nobody had looked."""
        return next((start for start, known in reversed(self.log_starts) if known <= by), None)

    def _keep_quiet(self, found: Position | None, end: int) -> None:
        """Where the group or the log is not as it was left, send nothing before the next look."""
        if self.confirmed is None:
            return
        over = found is not None and found.offset > self.confirmed.offset
        if over or self.confirmed.offset > end:
            self.repeat = self.on_snapshot = None

    def _compare(self, found: Position | None) -> Iterator[Discrepancy]:
        """What was confirmed and is no longer there is sent again, whoever it was."""
        if self.confirmed is None or found == self.confirmed:
            return
        if found is None:
            self.pending = self.pending or self.confirmed
            yield Discrepancy.VANISHED
            return
        if found.offset < self.confirmed.offset:
            self.pending = self.pending or self.confirmed
        # A request of our own may land late: its answer was lost, or it was held up on the way.
        mine, theirs = _parse(self.confirmed), _parse(found)
        if found != self.stranger and (mine is None or not mine.same_writer(theirs)):
            self.stranger = found
            yield Discrepancy.FOREIGN

    def _see_mark(self, found: Position | None, policy: Policy) -> Iterator[Discrepancy]:
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
        """Whether something waits that a mark found in the group forbids."""
        wanted = self.wanted
        if wanted is None or found is None:
            return False
        return wanted.offset > found.offset if self.withheld else True

    def _may_rewind(self, policy: Policy) -> bool:
        metadata = _parse(self.pending) if self.pending else None
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


def _differ(one: Position, other: Position) -> bool:
    """Whether they may be of two queries."""
    first, second = _parse(one), _parse(other)
    return first is None or second is None or first.query_id != second.query_id


def _rewinding(position: Position, held: int) -> Position:
    metadata = _parse(position)
    text = metadata.rewinding(held).text() if metadata else position.metadata
    return replace(position, metadata=text)


def _declared(position: Position, waiting: Position | None) -> Position:
    """What takes the place of a rewind that was not sent yet is one itself, if it is as low."""
    metadata = _parse(waiting) if waiting else None
    held = metadata.rewound_from if metadata else None
    return position if held is None or position.offset >= held else _rewinding(position, held)


def _marking(offset: int, text: str) -> Position:
    metadata = CommitMetadata.parse(text)
    return Position(offset=offset, metadata=metadata.withholding().text() if metadata else text)
