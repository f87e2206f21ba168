"""One consumer group: what it has still to be told, and what it must not be told.

Pure: time comes in as an argument, requests go out as values, answers come back.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from itertools import islice, takewhile

from eo_listener.commit.groups.group_events import GroupEvents, Positions, as_offsets
from eo_listener.commit.groups.partition_state import Discrepancy, PartitionState, RetryState
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.groups.request_size import PartSize, fitting
from eo_listener.commit.groups.requests import CommitRequest, SnapshotRequest
from eo_listener.model.events import CommitAbandoned, CommitFailed, CommitRefused, Event, Refusal
from eo_listener.model.kafka_errors import explain
from eo_listener.model.offsets import Offsets, Position, TopicPartition
from eo_listener.model.protocols import GroupSnapshot

MISSING = "_MISSING_ANSWER"
NO_PARTITION = "UNKNOWN_TOPIC_OR_PART"

LOOKED_AT = 2000  # partitions in one look, which must be over in seconds


class GroupState:
    """One group of one cluster. Not thread-safe: the worker holds a lock around it."""

    def __init__(
        self, cluster: str, group: str, retry: Backoff, policy: Policy, randomness: random.Random
    ) -> None:
        self._group = group
        self._tell = GroupEvents(cluster, group)
        self._retry, self._policy, self._random = retry, policy, randomness
        self._slots: dict[TopicPartition, PartitionState] = {}
        # When something is to be done for each, or may be; what waits longest stands first.
        self._due: dict[TopicPartition, float] = {}
        self._failing: dict[TopicPartition, int] = {}  # failures in a row of those
        self._asleep: dict[TopicPartition, float] = {}  # until they are repeated, soonest first
        self._topic_ids: dict[str, str] = {}
        self._recreated: set[str] = set()
        self._size = PartSize()
        self._fenced = False
        self._hurried = False
        self.in_flight = False

    def offer(
        self,
        positions: Positions,
        *,
        renew: bool = False,
        lossy: bool = False,
        rivals: Collection[TopicPartition] = (),
    ) -> CommitRefused | None:
        """Take positions in; per partition the greatest offset offered so far stays.

        `renew` sends what is confirmed already once more, so that it does not expire, after a look
        at the group: it would hide that the group was deleted. `lossy` asks for a look at the log,
        before this very commit and where there is nothing to commit.
        `rivals` are those that other live runs feed too.
        """
        lower: dict[TopicPartition, int] = {}
        by_group = False
        for tp, slot in self._open(positions):
            if lossy:
                slot.on_snapshot, slot.watched = None, True
            elif renew and slot.pending is None:
                slot.on_snapshot = None
            below = slot.offer(positions[tp], self._policy, renew=renew, rivals=tp in rivals)
            if below is not None:
                lower[tp] = below
                by_group = by_group or slot.refused is not None
            self._plan(tp)
        if not lower:
            return None
        refusal = Refusal.BELOW_GROUP if by_group else Refusal.BELOW_COMMITTED
        return self._tell.refused(refusal, {tp: positions[tp] for tp in lower}, lower)

    def withhold(self, positions: Positions) -> None:
        """Commit these and newer ones no more; leave the guard's mark where the group stands."""
        for tp, slot in self._open(positions):
            slot.withhold(positions[tp].metadata)
            self._plan(tp)

    def _open(self, positions: Positions) -> Iterable[tuple[TopicPartition, PartitionState]]:
        for tp in positions:
            if not self._fenced and tp.topic not in self._recreated:
                yield tp, self._slots.setdefault(tp, PartitionState())

    def next(self, now: float) -> CommitRequest | SnapshotRequest | None:
        """Take out the request to send now; it must come back through an answer."""
        if self.in_flight or self._fenced:
            return None
        self._wake(now)
        stale, ready = self._first(now)
        if stale:
            self.in_flight = True
            return SnapshotRequest(
                group=self._group, partitions=self._seen_with(stale, now), started=now
            )
        if ready:
            self.in_flight = True
            return CommitRequest(
                group=self._group, positions=fitting(self._group, ready), started=now
            )
        return None

    def _first(self, now: float) -> tuple[set[TopicPartition], Positions]:
        """Those that have waited longest: what must be looked at first, and what may be sent.

        No more than one request takes: each of many parts would walk over all that wait.
        """
        stale: set[TopicPartition] = set()
        ready: dict[TopicPartition, Position] = {}
        for tp, time in self._due.items():
            if time > now:
                continue
            slot = self._slots[tp]
            position = slot.sendable(now)
            marking = slot.mark is not None and slot.not_before <= now
            curious = slot.refused is not None or slot.watched
            waiting = position is not None or marking or curious
            if waiting and slot.look_due(self._policy) <= now:
                stale.add(tp)
            elif position is not None:
                ready[tp] = position
            if len(ready) == self._size.partitions or len(stale) == LOOKED_AT:
                break
        return stale, ready

    def _seen_with(self, stale: set[TopicPartition], now: float) -> tuple[TopicPartition, ...]:
        """What to look at in one go: what waits for it, and others that will need it anyhow."""
        others = (
            tp
            for tp, slot in self._slots.items()
            if tp not in stale and slot.look_due(self._policy) <= now
        )
        # Those that wait go first: one that is gone is never looked at, and needs it forever.
        return (*sorted(stale), *sorted(islice(others, LOOKED_AT - len(stale))))

    def next_try(self) -> float | None:
        """When the next request is due; None when nothing waits for its time."""
        if self.in_flight or self._fenced:
            return None
        soonest = min(self._due.values(), default=None)
        woken = next(iter(self._asleep.values()), None)
        return min((time for time in (soonest, woken) if time is not None), default=None)

    def failures(self) -> int:
        """The most failures in a row of any partition that waits."""
        return max(self._failing.values(), default=0)

    def _plan(self, tp: TopicPartition) -> None:
        """Note when a partition is due, after each change of it; one that waits keeps its place."""
        slot = self._slots[tp]
        time = slot.next_try(self._policy)
        if time is None:
            self._drop(tp)
            return
        self._due[tp] = time
        if slot.trouble is not None:
            self._failing[tp] = slot.trouble.failures
        elif self._failing:
            self._failing.pop(tp, None)

    def _drop(self, tp: TopicPartition) -> None:
        self._due.pop(tp, None)
        self._failing.pop(tp, None)

    def _requeue(self, tp: TopicPartition) -> None:
        """It has had its turn: all others that wait go before it."""
        self._drop(tp)
        self._plan(tp)

    def _wake(self, now: float) -> None:
        """Take up those whose time to be repeated has come."""
        woken = [tp for tp, _ in takewhile(lambda one: one[1] <= now, self._asleep.items())]
        for tp in woken:
            del self._asleep[tp]
            if tp in self._slots:
                self._plan(tp)

    def _lull(self, tp: TopicPartition, slot: PartitionState) -> None:
        """Lay down what has nothing to do, or nothing but to be repeated: that may be many."""
        if slot.repeat is not None and self._asleep.get(tp) != slot.repeat:
            self._asleep.pop(tp, None)  # to the end: no other is to be repeated later
            self._asleep[tp] = slot.repeat
        self._drop(tp)
        if slot.is_busy:
            self._plan(tp)  # behind all others

    def on_snapshot(
        self, inspection: SnapshotRequest, snapshot: GroupSnapshot, now: float
    ) -> tuple[Event, ...]:
        """Record what Kafka holds, and decide what may be committed over it."""
        self.in_flight = False
        events = [*self._recreations(inspection, snapshot)]
        missing: dict[str, dict[TopicPartition, str]] = {}  # by the error
        sights: dict[Discrepancy, list[TopicPartition]] = {}
        wanted: dict[TopicPartition, Position] = {}
        ours: dict[TopicPartition, Position] = {}
        for tp in inspection.partitions:
            slot = self._slots.get(tp)
            if slot is None or tp not in snapshot.ends:
                code = self._unshown(tp, snapshot.errors.get(tp.topic))
                if code is not None:
                    missing.setdefault(code, {})[tp] = code
                continue
            slot.on_snapshot = inspection.started
            slot.see_start(snapshot.starts.get(tp, 0), now)
            before, confirmed = slot.wanted, slot.confirmed
            for sight in slot.compare(snapshot.held.get(tp), snapshot.ends[tp], self._policy):
                sights.setdefault(sight, []).append(tp)
            position = before or slot.wanted or confirmed  # a look may bring a wish of its own
            if position is not None:
                wanted[tp] = position
            if confirmed is not None:
                ours[tp] = confirmed
            if slot.sendable(now) is not None:
                self._plan(tp)
            elif slot.is_busy or tp in self._due:
                self._requeue(tp)
        for sight, partitions in sights.items():
            events += self._tell.seen(sight, partitions, snapshot, wanted, ours)
        events += (self._failed(errors, now, None) for errors in missing.values())
        self._hurried = False
        return tuple(events)

    def on_snapshot_failed(
        self, inspection: SnapshotRequest, code: str, now: float, detail: str | None = None
    ) -> tuple[Event, ...]:
        """Record that a look failed: nothing is committed without one."""
        self.in_flight = False
        if explain(code).fatal:
            return self._fence(code)
        wanted = {tp: code for tp in inspection.partitions if self._on_snapshot_failed(tp)}
        events = (self._failed(wanted, now, detail),) if wanted else ()
        self._hurried = False
        return events

    def _on_snapshot_failed(self, tp: TopicPartition) -> bool:
        """Record that a look has not shown a partition; say whether anything waits for it."""
        slot = self._slots.get(tp)
        if slot is None:
            return False
        slot.watched = False  # asked for again soon; no commit waits for it
        if tp in self._due:
            self._plan(tp)
        return tp in self._due

    def _unshown(self, tp: TopicPartition, code: str | None) -> str | None:
        """Record that a look left a partition out; return the error, if anything waits for it."""
        if code is not None:
            return code if self._on_snapshot_failed(tp) else None
        slot = self._slots.get(tp)
        missed = slot is not None and slot.partition_missing()
        if tp in self._due:
            self._plan(tp)
        return NO_PARTITION if missed else None

    def _recreations(self, inspection: SnapshotRequest, snapshot: GroupSnapshot) -> Iterable[Event]:
        for topic in sorted({tp.topic for tp in inspection.partitions}):
            now = snapshot.topic_ids.get(topic)
            was = self._topic_ids.setdefault(topic, now) if now is not None else None
            if was is None or now is None or was == now or topic in self._recreated:
                continue
            self._recreated.add(topic)
            waiting = self._forget(tp for tp in tuple(self._slots) if tp.topic == topic)
            yield self._tell.recreated(topic, was, now, waiting)

    def _forget(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Give partitions up; return what was waiting to be committed."""
        forgotten = {tp: self._slots.pop(tp) for tp in partitions}
        for tp in forgotten:
            self._drop(tp)
        return as_offsets({tp: slot.pending for tp, slot in forgotten.items() if slot.pending})

    def on_commit_answer(
        self,
        attempt: CommitRequest,
        answer: Mapping[TopicPartition, str | None],
        now: float,
        detail: str | None = None,
    ) -> tuple[Event, ...]:
        """Record the answer to a commit; a partition it leaves out was not confirmed."""
        self.in_flight = False
        errors: dict[TopicPartition, str] = {}
        landed: dict[TopicPartition, Position] = {}
        for tp, position in attempt.positions.items():
            error = answer.get(tp, MISSING)
            if error is not None:
                errors[tp] = error
            else:
                landed[tp] = position
                self._slots[tp].confirm(position, now, self._retry.doubt)
                self._lull(tp, self._slots[tp])
        events: list[Event] = []
        self._size.learn(attempt.positions.keys(), errors)
        if landed:
            events.append(self._tell.committed(landed, now - attempt.started))
        fatal = next((code for code in errors.values() if explain(code).fatal), None)
        if fatal is not None:
            events += self._fence(fatal)
        elif errors:
            for tp in errors:
                slot = self._slots[tp]
                slot.on_snapshot = None  # much may have happened by the time of the next try
                slot.pending = slot.pending or attempt.positions[tp]
            events.append(self._failed(errors, now, detail))
        self._hurried = False
        return tuple(events)

    def _failed(
        self, errors: Mapping[TopicPartition, str], now: float, detail: str | None
    ) -> CommitFailed:
        spread = self._random.random()  # one for all, so that they are tried in one request again
        troubles: dict[TopicPartition, RetryState] = {}
        for tp, error in errors.items():
            reason, slot = explain(error), self._slots[tp]
            trouble = troubles[tp] = slot.trouble = slot.trouble or RetryState()
            trouble.failures += 1
            trouble.refused = reason.lasting
            trouble.unknown = trouble.unknown or reason.outcome_unknown
            wait = self._retry.wait(trouble.failures, refused=reason.lasting, spread=spread)
            trouble.not_before = now if self._hurried else now + wait
            self._requeue(tp)
        return self._tell.failed(errors, troubles, now, detail)

    def _fence(self, code: str) -> tuple[Event, ...]:
        self._fenced = True
        return (self._tell.fenced(code, self._forget(tuple(self._slots))),)

    def log_starts(self, by: float) -> Mapping[TopicPartition, int]:
        """The first offset of each log, as it was known by then."""
        starts = {tp: slot.log_start(by) for tp, slot in self._slots.items()}
        return {tp: start for tp, start in starts.items() if start is not None}

    def invalidate_snapshots(self) -> None:
        """Forget what was seen: look again before anything is committed."""
        for slot in self._slots.values():
            slot.on_snapshot = None
        for tp in tuple(self._due):
            self._plan(tp)

    def retry_now(self) -> None:
        """Forget all waits; what is in flight and fails is tried at once again."""
        self._hurried = self.in_flight
        for tp in tuple(self._failing):
            trouble = self._slots[tp].trouble
            if trouble is not None:
                trouble.not_before = 0.0
            self._plan(tp)

    def waiting(self) -> Offsets:
        """What Kafka has neither confirmed nor refused; what may not be sent is not among it."""
        slots = {tp: self._slots[tp] for tp in self._due}
        waiting = {tp: s.pending for tp, s in slots.items() if s.pending and not s.is_refused}
        return as_offsets(waiting)

    def idle(self) -> bool:
        """True when everything that may be committed has been confirmed."""
        return all(self._slots[tp].pending is None for tp in self._due)

    def complete(self) -> bool:
        """True when the group stands where the queries do: nothing waits, nothing is held back."""
        held_back = any(slot.refused or slot.withheld for slot in self._slots.values())
        return self.idle() and not (held_back or self._recreated or self._fenced)

    def stuck(self, now: float) -> bool:
        """True when all that is pending was refused: waiting a little will not help."""
        pending = [slot for tp in self._due if (slot := self._slots[tp]).pending is not None]
        refused = (slot.is_refused for slot in pending)
        return not self.in_flight and all(refused) and all(s.not_before > now for s in pending)

    def abandon(self) -> CommitAbandoned | None:
        """Give up what is still pending, and say what that is."""
        slots = {tp: slot for tp in self._due if (slot := self._slots[tp]).pending is not None}
        given_up = as_offsets({tp: slot.pending for tp, slot in slots.items() if slot.pending})
        for tp, slot in slots.items():
            slot.pending = None
            self._plan(tp)
        return self._tell.abandoned(given_up) if given_up else None
