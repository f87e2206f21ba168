"""The state of one partition of a group: the group's position, the wanted position, and obstacles.

`PartitionState` does no input or output. `GroupState` holds a `PartitionState` for each partition,
and turns their findings into events.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from eo_listener.commit.groups.group_offsets import Beginning
from eo_listener.commit.groups.policy import OnRewind, Policy
from eo_listener.events import GuardViolation, Refusal, Violation, ViolationKind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.kafka_errors import ErrorMeaning
from eo_listener.offsets import Position, TopicPartition

_STARTS_KEPT = 20  # changes of a log's start: those of a few minutes, if each snapshot shows one


class Discrepancy(Enum):
    """A change of the group's offset that this committer did not make."""

    VANISHED = auto()
    FOREIGN = auto()
    BY_SINK = auto()


Finding = Discrepancy | Refusal
"""A contradiction between a snapshot and a partition's wanted or confirmed position."""


@dataclass(slots=True)
class RetryState:
    """The failures in a row of one partition, and the time from which the partition may be retried.

    `unknown` is set if one of the failed commits may have been stored, or may be stored later.
    `since` is the time at which `persistent` last changed.
    """

    failures: int = 0
    refused: bool = False
    unknown: bool = False
    not_before: float = 0.0
    persistent: ErrorMeaning | None = None
    since: float = 0.0

    def record(self, meaning: ErrorMeaning, now: float) -> None:
        """Record one more failure."""
        self.failures += 1
        self.refused = meaning.lasting
        self.unknown = self.unknown or meaning.outcome_unknown
        if self.persistent is not meaning.persistent:
            self.persistent, self.since = meaning.persistent, now


@dataclass(slots=True)
class PartitionState:
    """The state of one partition. A position goes from `pending` to `confirmed`."""

    confirmed: Position | None = None
    #: While a position is refused because of the log's end, a confirmed offset that the group has
    #: lost.
    pending: Position | None = None
    #: A position that must not be sent while it is below the group or beyond the log's end.
    refused: Position | None = None
    #: The group's offset above a refused position, or None if that position is beyond the log's
    #: end.
    obstacle: int | None = None
    #: True if the guard withholds newer positions.
    withheld: bool = False
    #: The metadata with which to write the guard's mark at the group's position.
    mark: str | None = None
    #: The time at which to send a confirmed position again, because an earlier request may have
    #: arrived after it: a request of unknown outcome, or the last request of a killed driver.
    repeat: float | None = None
    #: The time at which the group and the log were last read.
    snapshot_at: float | None = None
    #: True if a snapshot is requested although there is nothing to commit.
    needs_snapshot: bool = False
    #: The greatest known offset at the time when the outstanding snapshot was requested.
    offset_at_request: int | None = None
    #: Log starts, each with the time at which it was known, the newest last.
    log_starts: tuple[tuple[int, float], ...] = ()
    #: A foreign commit that was reported.
    reported_foreign: Position | None = None
    retry_state: RetryState | None = None
    #: The run whose sink moves the group, in the transactions of the sink's batches. As long as
    #: this is set, the group is read before every commit, and offsets that the group already has
    #: are skipped. An offer from another run resets it.
    sink_run: str | None = None
    #: True if an offset is committed again although the group already has it.
    renews: bool = False
    #: True if a run has ended whose position was refused, and no later run has offered a position.
    given_up: bool = False
    #: The owner of offsets that has ended last; see `GroupOffsets.owner`.
    ended_owner: str | None = None
    #: True if a snapshot was read before that end; `seen` is the group's position in the newest.
    is_read: bool = False
    seen: Position | None = None
    #: The beginnings of checkpoints, by short query id, until a snapshot is compared with them.
    beginnings: dict[str | None, Beginning] = field(default_factory=dict)
    #: True if other live runs feed this partition too.
    shared: bool = False

    @property
    def wanted(self) -> Position | None:
        """The position that the group should reach, pending or refused.

        If both a pending and a refused position wait, this is the greater of the two, unless the
        partition is withheld.
        """
        if self.pending is not None and self.refused is not None and not self.withheld:
            return max(self.pending, self.refused, key=lambda position: position.offset)
        return self.pending or self.refused

    @property
    def is_refused(self) -> bool:
        """True if Kafka rejected the last request with an error that somebody must fix."""
        return self.retry_state is not None and self.retry_state.refused

    @property
    def not_before(self) -> float:
        """The time until which earlier failures delay the next request."""
        return self.retry_state.not_before if self.retry_state else 0.0

    def snapshot_due(self, policy: Policy) -> float:
        """Return the time from which a new snapshot is needed before anything else is sent."""
        due = 0.0 if self.snapshot_at is None else self.snapshot_at + policy.snapshot_max_age
        return max(due, self.not_before)

    def next_try(self, policy: Policy) -> float | None:
        """Return when the partition's next request is due, or None if no request is planned."""
        times = []
        if self.pending is not None or self.mark is not None:
            times.append(self.not_before)
        if self.repeat is not None:
            times.append(max(self.repeat, self.not_before))
        if self.refused is not None or self.needs_snapshot:
            times.append(self.snapshot_due(policy))
        return min(times, default=None)

    def sendable(self, now: float) -> Position | None:
        """Return the position to send now, or None. The caller must have a fresh snapshot."""
        if self.not_before > now:
            return None
        repeated = self.repeat is not None and self.repeat <= now
        return self.pending or (self.confirmed if repeated else None)

    def offer(
        self, position: Position, policy: Policy, *, recommit: bool, rivals: bool = False
    ) -> None:
        """Accept a position, or keep it until the group no longer has a higher offset.

        If `rivals` is True, other live runs feed this partition too, so a query may rewind only an
        offset of its own, and a lower position does not replace a position that waits.
        """
        self.given_up = False
        if self.ended_owner is not None and not self._has_ended(position):
            self.is_read = False  # what the group held before this run is no obstacle
        self._offer(position, policy, recommit=recommit, rivals=rivals)
        if self.confirmed is None or not _are_of_two_queries(self.confirmed, position):
            self.ended_owner = None  # the query runs again, or its run has not ended after all
        self.shared = rivals
        if not rivals and _query_of(position) in self.beginnings:
            self.snapshot_at = None
        if self.sink_run is not None and self.wanted is not None:
            self.renews = self.renews or recommit
            self.snapshot_at = None
            metadata = _parse(self.wanted)
            if metadata is None or metadata.run_id != self.sink_run:
                self.sink_run = None

    def _offer(self, position: Position, policy: Policy, *, recommit: bool, rivals: bool) -> None:
        if self.withheld:
            if recommit and self.pending is None:
                self.pending = self.confirmed
            return
        if self.refused is not None:
            self.refused = position
            if self.obstacle is None or position.offset < self.obstacle:
                return
            self.admit()
        if not rivals and self._gives_way(position):
            # A request may have brought it to the group nevertheless, so the group is read again.
            self.pending = self.snapshot_at = None
        newest = self.pending or self.confirmed
        if newest is None or position.offset >= newest.offset + (not recommit):
            self.pending = _declared(position, self.pending)
        elif position.offset < newest.offset:
            self._go_back(position, newest, policy, rivals=rivals)

    def _go_back(
        self, position: Position, newest: Position, policy: Policy, *, rivals: bool
    ) -> None:
        """Accept an offer below the newest position; the next snapshot decides whether to send it.

        If no position waits, the method accepts the offer even if a rewind is not allowed: the
        group may have lost the confirmed offset, because the topic was recreated, or because
        somebody moved the group back.
        """
        if policy.on_rewind is OnRewind.ALLOW and not (rivals and _differ(newest, position)):
            position = _rewinding(position, (self.confirmed or newest).offset)
        elif self.pending is not None:
            return
        self.pending, self.snapshot_at = position, None

    def _gives_way(self, position: Position) -> bool:
        """Return True if the waiting position is of a run that no longer runs."""
        is_later = self._has_ended(self.pending) and not self._has_ended(position)
        return is_later or _are_of_two_queries(self.pending, position)

    def end_run(self, owner: str, *, replaced: bool = False) -> None:
        """Record that a run has ended, and no longer feeds the group.

        A waiting position is still sent, unless another query has `replaced` this query. Any offer
        of a later run replaces the waiting position. A position below the group's offset is
        dropped. If another program has committed later, nothing is sent over that commit.
        """
        if any(is_of(position, {owner}) for position in (self.wanted, self.confirmed)):
            self.ended_owner = owner
        if replaced and not self.withheld and is_of(self.pending, {owner}):
            self.pending = None
        if (replaced or self.obstacle is not None) and is_of(self.refused, {owner}):
            self._give_up()

    def _has_ended(self, position: Position | None) -> bool:
        return self.ended_owner is not None and is_of(position, {self.ended_owner})

    def withhold(self, metadata: str) -> None:
        """Withhold newer positions, and write the guard's mark; still send earlier positions."""
        if self.withheld:
            return
        self.withheld = True
        last = self.pending or self.confirmed
        if last is None:
            self.mark, self.snapshot_at = metadata, None  # the snapshot shows at which offset
        else:
            self.pending = _marking(last.offset, last.metadata)

    def admit(self) -> None:
        """Allow a refused position to be sent after all."""
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
        elif self.pending is not None and self.pending.offset < position.offset:
            # A later run offered it while the request was under way.
            self.pending = _rewinding(self.pending, position.offset)

    def ask_snapshot(self) -> None:
        """Record that a snapshot is requested now. A later need requires another snapshot."""
        positions = filter(None, (self.wanted, self.confirmed))
        self.offset_at_request = max((position.offset for position in positions), default=0)
        self.needs_snapshot = False

    def partition_missing(self) -> bool:
        """Record that the partition does not exist; return True if a commit to it was waiting."""
        self.repeat, self.needs_snapshot = None, False
        return self.wanted is not None or self.mark is not None

    def add_beginning(self, position: Position, beginning: Beginning) -> None:
        """Have a snapshot compared with `beginning` before a position of its query is sent."""
        self.beginnings[_query_of(position)] = beginning

    def judge_beginning(
        self, tp: TopicPartition, committed: Position | None, policy: Policy
    ) -> Iterator[GuardViolation]:
        """Yield the event about records that nothing has read, although a commit would pass them.

        Unless the policy accepts that, withhold the partition at the first of these records. If
        the query itself committed the group's offset, nothing is known about earlier records. The
        same holds if the checkpoint is older than this run, and no other query committed it. As
        long as other runs feed the partition, their offsets show what was read. If Kafka has
        deleted all records before a new checkpoint's beginning, they are only reported.
        """
        wanted, query = self.wanted, _query_of(self.wanted)
        if wanted is None or self.shared or self.withheld or query not in self.beginnings:
            return
        recorded, event = self.beginnings.pop(query)
        begin = recorded
        writer, log_start = _query_of(committed), self.log_starts[-1][0]
        due = 0 if committed is None else committed.offset
        if begin is None:
            begin = min(log_start, wanted.offset)
        elif committed is None or not (writer or event.batch_id <= 0):
            return
        if writer == query:
            return
        deleted = min(max(due, log_start), begin)
        ranges = ((ViolationKind.LOST, due, deleted), (ViolationKind.NEVER_READ, deleted, begin))
        violations = tuple(
            Violation(kind=kind, partition=tp, start=start, until=until)
            for kind, start, until in ranges
            if start < until
        )
        is_gone = recorded is not None and deleted == begin  # nothing to wait for
        if violations and not is_gone and not policy.accept_marks:
            self.withheld = True
            self.refused = self.obstacle = None
            self.pending = _marking(due, wanted.metadata)
        if violations:
            yield replace(event, violations=violations, withheld=self.withheld)

    def compare(self, committed: Position | None, end: int, policy: Policy) -> Iterator[Finding]:
        """Compare this state with the group's position and the log's end; yield the findings."""
        waiting = self.wanted
        requested, self.offset_at_request = self.offset_at_request, None
        if self._is_moved_by_sink(committed):
            if waiting is not None:
                yield Discrepancy.BY_SINK
            return
        yield from self._compare(committed)
        yield from self._check_mark(committed, policy)
        yield from self._compare_wanted(committed, end, requested, policy)
        if self.ended_owner is None:
            self.is_read, self.seen = True, committed
        if self.retry_state is not None and self.pending is None and self.mark is None:
            self.retry_state.persistent = None  # Kafka has answered, and there is nothing to send

    def _is_moved_by_sink(self, committed: Position | None) -> bool:
        """Return True if a sink has moved the group to the wanted offset, or beyond."""
        metadata = _parse(committed)
        if committed is None or metadata is None or not metadata.by_sink or self.withheld:
            return False
        own = self.wanted or self.confirmed
        if own is not None and (committed.offset < own.offset or _differ(committed, own)):
            return False
        if _is_of_later_batches(metadata, own):
            return False
        self.sink_run = metadata.run_id
        self.confirmed = self.refused = self.obstacle = self.repeat = self.retry_state = None
        self.pending = committed if self.renews else None
        return True

    def _compare_wanted(
        self, committed: Position | None, end: int, requested: int | None, policy: Policy
    ) -> Iterator[Finding]:
        """Decide whether the wanted position may be sent; yield the findings that forbid it.

        The log's end proves nothing about an offset that was offered after the snapshot was
        requested.
        """
        wanted = self.wanted
        if wanted is None:
            yield from self._compare_confirmed(committed, end)
            return
        if self._has_ended(wanted) and not self.withheld and self._is_taken(committed, wanted):
            self.pending = self.repeat = None
            self._give_up()
            yield Refusal.AFTER_END
            return
        if self.withheld or requested is None:  # nothing came later
            requested = wanted.offset
        if min(wanted.offset, requested) > end:
            yield from self._refuse(wanted, None, Refusal.BEYOND_LOG_END)
            self.pending = self._lost(committed, end)
        elif committed is None or committed.offset <= wanted.offset:
            self.admit()
        elif self._may_rewind(policy):
            self.admit()
            self.pending = _rewinding(wanted, committed.offset)
        else:
            yield from self._refuse(wanted, committed.offset, Refusal.BELOW_GROUP)

    def _is_taken(self, committed: Position | None, wanted: Position) -> bool:
        """Return True if somebody else may have committed since the run of `wanted` ended.

        If the run ended before the first snapshot was read, `committed` counts as older than the
        run, unless a request has failed meanwhile, which may have taken any time.
        """
        if committed is None or not _is_of_others(committed, wanted):
            return False
        return committed != self.seen if self.is_read else self.retry_state is not None

    def _lost(self, committed: Position | None, end: int) -> Position | None:
        """Return the confirmed position if the group lost it and the log still reaches it."""
        last = self.confirmed
        if last is None or last.offset > end:
            return None
        return last if committed is None or committed.offset < last.offset else None

    def record_log_start(self, start: int, now: float) -> None:
        """Record the log's start at the time `now`; keep earlier starts to judge long batches."""
        if not self.log_starts or self.log_starts[-1][0] != start:
            self.log_starts = (*self.log_starts[-_STARTS_KEPT:], (start, now))

    def log_start(self, by: float) -> int | None:
        """Return the log start that was known at the time `by`, or None if it was unknown."""
        return next((start for start, time in reversed(self.log_starts) if time <= by), None)

    def _compare_confirmed(self, committed: Position | None, end: int) -> Iterator[Finding]:
        """Cancel a repeated commit below the group's offset, or beyond the log's end.

        `compare` calls this method if there is no position to send. A log that ends below a
        confirmed offset was truncated, before that commit or after it.
        """
        if self.confirmed is None:
            return
        if committed is not None and committed.offset > self.confirmed.offset:
            self.repeat = self.snapshot_at = None
        elif self.confirmed.offset > end:
            yield from self._refuse(self.confirmed, None, Refusal.BEYOND_LOG_END)

    def _compare(self, committed: Position | None) -> Iterator[Finding]:
        """Plan to send a confirmed position again if the group lost it; report other writers."""
        if self.confirmed is None or committed == self.confirmed:
            return
        if self._has_ended(self.confirmed) and (
            committed is None or _is_of_others(committed, self.confirmed)
        ):
            self.repeat = None
            return
        if committed is None:
            self.pending = self.pending or self.confirmed
            yield Discrepancy.VANISHED
            return
        if committed.offset < self.confirmed.offset:
            self.pending = self.pending or self.confirmed
        # One of this committer's own requests may arrive late: its answer was lost, or the network
        # delayed it.
        own, writer = _parse(self.confirmed), _parse(committed)
        if committed != self.reported_foreign and (own is None or not own.same_writer(writer)):
            self.reported_foreign = committed
            yield Discrepancy.FOREIGN

    def _check_mark(self, committed: Position | None, policy: Policy) -> Iterator[Finding]:
        metadata = _parse(committed)
        marked = metadata is not None and metadata.withheld
        if self.mark is not None:
            if committed is not None and not marked:
                self.pending = _marking(committed.offset, self.mark)
            self.mark = None
        elif marked and not policy.accept_marks and self._goes_beyond(committed):
            self.withheld = True
            self.confirmed = committed
            self.pending = self.refused = self.obstacle = None
            yield Refusal.WITHHELD_BEFORE

    def _goes_beyond(self, committed: Position | None) -> bool:
        """Return True if a waiting position is newer than the group's marked position."""
        wanted = self.wanted
        if wanted is None or committed is None:
            return False
        return wanted.offset > committed.offset if self.withheld else True

    def _may_rewind(self, policy: Policy) -> bool:
        metadata = _parse(self.pending if self.pending is self.wanted else None)
        declared = metadata is not None and metadata.rewound_from is not None
        first = self.confirmed is None
        return policy.on_rewind is OnRewind.ALLOW and (first or declared)

    def _refuse(
        self, wanted: Position, obstacle: int | None, refusal: Refusal
    ) -> Iterator[Finding]:
        if self.refused is None or not self._has_ended(wanted):
            yield refusal
        self.pending = self.repeat = None
        self.refused, self.obstacle = wanted, obstacle
        if obstacle is not None and not self.withheld and self._has_ended(wanted):
            self._give_up()

    def _give_up(self) -> None:
        """Forget the refused position and the offset that is the reason for the refusal.

        A new snapshot shows the next run that offset.
        """
        self.refused = self.obstacle = self.snapshot_at = None
        self.given_up = True


def is_of(position: Position | None, owners: AbstractSet[str]) -> bool:
    """Return True if the metadata of a position names one of `owners`."""
    metadata = _parse(position)
    return metadata is not None and not owners.isdisjoint((metadata.query_id, metadata.run_id))


def _parse(position: Position | None) -> CommitMetadata | None:
    return None if position is None else CommitMetadata.parse(position.metadata)


def _query_of(position: Position | None) -> str | None:
    """Return the query in a position's metadata, or None if the metadata has no query."""
    metadata = _parse(position)
    return None if metadata is None else metadata.query_id


def _differ(position: Position, newer: Position) -> bool:
    """Return True if the two positions may be from different queries."""
    query = _query_of(position)
    return query is None or query != _query_of(newer)


def _is_of_others(committed: Position, own: Position) -> bool:
    """Return True if a command, another query or another program may have committed `committed`."""
    writer = _parse(committed)
    return writer is None or bool(writer.command) or _differ(committed, own)


def _is_of_later_batches(metadata: CommitMetadata, own: Position | None) -> bool:
    """Return True if `metadata` is of another run, and of a batch that cannot be in doubt.

    `metadata` is the mark of a sink. The batch after the position `own` may be in doubt: the sink
    has it, and this run repeats it. A restored position may have a batch number that is too low by
    one. If the mark is of a later batch, this run has an older copy of the checkpoint.
    """
    mine = _parse(own)
    if mine is None or metadata.run_id == mine.run_id:
        return False
    return metadata.batch_id > mine.batch_id + 2


def _are_of_two_queries(position: Position | None, newer: Position) -> bool:
    """Return True if the metadata of the two positions name two different queries."""
    query = _query_of(position)
    return query is not None and _query_of(newer) not in (None, query)


def _rewinding(position: Position, group_offset: int) -> Position:
    metadata = _parse(position)
    text = metadata.rewinding(group_offset).text() if metadata else position.metadata
    return replace(position, metadata=text)


def _declared(position: Position, waiting: Position | None) -> Position:
    """Return `position`, marked as a rewind if it replaces the unsent rewind `waiting`.

    If `position` is not below the offset from which that rewind starts, the function returns
    `position` unchanged.
    """
    metadata = _parse(waiting)
    start = metadata.rewound_from if metadata else None
    return position if start is None or position.offset >= start else _rewinding(position, start)


def _marking(offset: int, text: str) -> Position:
    metadata = CommitMetadata.parse(text)
    marked = replace(metadata, withheld=True).text() if metadata else text
    return Position(offset=offset, metadata=marked)
