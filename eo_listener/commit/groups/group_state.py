"""The state of one consumer group: the offsets to commit, and offsets that it must not get.

`GroupState` does no input or output: it gets the time as an argument, returns requests as values,
and gets their answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from eo_listener.commit.groups.group_offsets import Beginnings, GroupOffsets
from eo_listener.commit.groups.partition_state import (
    Discrepancy,
    Finding,
    PartitionState,
    RetryState,
    is_of,
)
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.events import (
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    GuardViolation,
    Refusal,
    TopicRecreated,
    Violation,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.kafka_errors import PERHAPS_TOO_LARGE, TOO_LARGE, explain
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Offsets, Position, TopicPartition

Positions = Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """A commit request to send now."""

    group: str
    positions: Positions
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A snapshot of a group to read now, before anything is committed to the group.

    If `takes_over` is True, the group store must first take over the group from another committer.
    """

    group: str
    partitions: tuple[TopicPartition, ...]
    started: float
    takes_over: bool = False


@dataclass(slots=True)
class KnownTopic:
    """A topic's id, and the runs that fed the group when a snapshot last showed this id.

    Until a second snapshot has shown the id, it is not `certain`: a broker that lags behind may
    still have the id of a topic that was deleted before.
    """

    id: str
    runs: frozenset[str]
    certain: bool = False


MISSING = "_MISSING_ANSWER"
NO_PARTITION = "UNKNOWN_TOPIC_OR_PART"

SNAPSHOT_PARTITIONS = 2000  # partitions in one snapshot, which must not take longer than seconds


class GroupState:
    """One group of one cluster. Not thread-safe: the worker holds a lock around each call."""

    def __init__(
        self, cluster: str, group: str, retry: Backoff, policy: Policy, randomness: random.Random
    ) -> None:
        self._group = group
        self._events = GroupEvents(cluster, group)
        self._retry, self._policy, self._random = retry, policy, randomness
        self._partitions: dict[TopicPartition, PartitionState] = {}
        # The time at which each partition has, or may have, something to do; those that wait
        # longest come first.
        self._due: dict[TopicPartition, float] = {}
        self._failing: dict[TopicPartition, int] = {}  # their failures in a row
        self._topics: dict[str, KnownTopic] = {}
        # By recreated topic: the runs whose offsets may be of the old topic.
        self._recreated: dict[str, frozenset[str]] = {}
        self._runs: set[str] = set()  # those that feed the group
        # The runs that fed the group when another committer took it over.
        self._fenced: frozenset[str] | None = None
        self._is_new = False  # since a run began to feed the group, no commit was confirmed
        self._takes_over = False
        self._size = PartSize()
        self._retry_at_once = False
        self.in_flight = False

    def offer(self, commit: GroupOffsets, *, recommit: bool = False) -> None:
        """Accept positions; of the offsets offered for a partition, the greatest counts.

        With `recommit`, confirmed offsets are committed again, so that they do not expire. First, a
        snapshot of the group is read, since the new commit would hide that the group was deleted.
        If `commit` is lossy, a snapshot of the log is read, even if there is nothing to commit. If
        another committer has taken over the group, the first offer of a later run takes the group
        back.
        """
        self._begin(commit.owner)
        for tp, position, state in self._open(commit):
            if commit.lossy:
                state.snapshot_at, state.needs_snapshot = None, True
            elif recommit and state.pending is None:
                state.snapshot_at = None
            state.offer(position, self._policy, recommit=recommit, rivals=tp in commit.rivals)
            self._plan(tp)

    def add_beginnings(self, commit: GroupOffsets, beginnings: Beginnings) -> None:
        """Have the next snapshot compared with the `beginnings` of the partitions of `commit`."""
        self._begin(commit.owner)
        for tp, position, state in self._open(commit):
            if tp in beginnings:
                state.add_beginning(position, beginnings[tp])

    def _begin(self, owner: str) -> None:
        """Record that a run feeds the group."""
        if owner in self._runs:
            return
        self._runs.add(owner)
        if self._fenced is None:
            self._is_new = bool(self._topics)
        elif owner not in self._fenced:
            self._fenced, self._takes_over = None, True

    def end_run(self, owner: str, *, replaced: bool = False) -> None:
        """Record that a run has ended; see `PartitionState.end_run`."""
        self._runs.discard(owner)
        for tp, state in self._partitions.items():
            state.end_run(owner, replaced=replaced)
            if tp in self._due:
                self._plan(tp)

    def withhold(self, commit: GroupOffsets) -> None:
        """Stop committing these and newer positions; write the guard's mark to the group."""
        self._begin(commit.owner)
        for tp, position, state in self._open(commit):
            state.withhold(position.metadata)
            self._plan(tp)

    def _open(
        self, commit: GroupOffsets
    ) -> Iterable[tuple[TopicPartition, Position, PartitionState]]:
        for tp, position in commit.positions.items():
            if self._fenced is None and not self._is_of_old_topic(tp, position):
                yield tp, position, self._partitions.setdefault(tp, PartitionState())

    def _is_of_old_topic(self, tp: TopicPartition, position: Position | None) -> bool:
        return tp.topic in self._recreated and is_of(position, self._recreated[tp.topic])

    def next(self, now: float) -> CommitRequest | SnapshotRequest | None:
        """Return the request to send now, or None.

        The caller must pass the answer to this object.
        """
        if self.in_flight or self._fenced is not None:
            return None
        stale, ready = self._first(now)
        if stale:
            self.in_flight = True
            partitions = self._snapshot_partitions(stale, now)
            for tp in partitions:
                self._partitions[tp].ask_snapshot()
            # Only once: if the snapshot fails, the group may have been taken over nevertheless.
            takes_over, self._takes_over = self._takes_over, False
            return SnapshotRequest(
                group=self._group, partitions=partitions, started=now, takes_over=takes_over
            )
        if ready:
            self.in_flight = True
            return CommitRequest(
                group=self._group, positions=fitting(self._group, ready), started=now
            )
        return None

    def _first(self, now: float) -> tuple[set[TopicPartition], Positions]:
        """Return the partitions that need a snapshot, and the positions to send.

        Partitions that have waited longest come first. The result has at most as many partitions as
        fit into one request: otherwise each of many requests would walk over all waiting
        partitions.
        """
        stale: set[TopicPartition] = set()
        ready: dict[TopicPartition, Position] = {}
        for tp, time in self._due.items():
            if time > now:
                continue
            state = self._partitions[tp]
            position = state.sendable(now)
            marking = state.mark is not None and state.not_before <= now
            to_recheck = state.refused is not None or state.needs_snapshot
            waiting = position is not None or marking or to_recheck
            if waiting and state.snapshot_due(self._policy) <= now:
                stale.add(tp)
            elif position is not None:
                ready[tp] = position
            if len(ready) == self._size.partitions or len(stale) == SNAPSHOT_PARTITIONS:
                break
        return stale, ready

    def _snapshot_partitions(
        self, stale: set[TopicPartition], now: float
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions for a snapshot.

        They are `stale`, which wait for the snapshot, and other partitions whose next snapshot is
        due.
        """
        due_soon = (
            tp
            for tp, state in self._partitions.items()
            if tp not in stale and state.snapshot_due(self._policy) <= now
        )
        # Partitions that wait go first: a deleted partition is in no snapshot, so it would need one
        # forever.
        return (*sorted(stale), *sorted(islice(due_soon, SNAPSHOT_PARTITIONS - len(stale))))

    def next_try(self) -> float | None:
        """Return when the next request is due, or None if no request is planned."""
        if self.in_flight or self._fenced is not None:
            return None
        return min(self._due.values(), default=None)

    def failures(self) -> int:
        """Return the greatest number of consecutive failures of any waiting partition."""
        return max(self._failing.values(), default=0)

    def _plan(self, tp: TopicPartition) -> None:
        """Record when a changed partition is due. A partition in the queue keeps its place."""
        state = self._partitions[tp]
        time = state.next_try(self._policy)
        if time is None:
            self._drop(tp)
            return
        self._due[tp] = time
        if state.retry_state is not None:
            self._failing[tp] = state.retry_state.failures
        elif self._failing:
            self._failing.pop(tp, None)

    def _drop(self, tp: TopicPartition) -> None:
        self._due.pop(tp, None)
        self._failing.pop(tp, None)

    def _requeue(self, tp: TopicPartition) -> None:
        """Move a partition to the end of the queue, after its turn."""
        self._drop(tp)
        self._plan(tp)

    def on_snapshot(
        self, request: SnapshotRequest, snapshot: GroupSnapshot, now: float
    ) -> tuple[Event, ...]:
        """Process a snapshot, decide which positions may be sent, and return the events."""
        self.in_flight = False
        events = [*self._recreations(request, snapshot)]
        missing: dict[str, dict[TopicPartition, str]] = {}  # by error
        findings: dict[Finding, list[TopicPartition]] = {}
        wanted: dict[TopicPartition, Position] = {}
        own: dict[TopicPartition, Position] = {}
        unread: list[GuardViolation] = []
        for tp in request.partitions:
            state = self._partitions.get(tp)
            if state is None or tp not in snapshot.ends:
                code = self._on_partition_left_out(tp, snapshot.errors.get(tp.topic), now)
                if code is not None:
                    missing.setdefault(code, {})[tp] = code
                continue
            state.snapshot_at = None if state.needs_snapshot else request.started
            state.record_log_start(snapshot.starts.get(tp, 0), now)
            before, confirmed = state.wanted, state.confirmed
            committed, end = snapshot.positions.get(tp), snapshot.ends[tp]
            unread += state.judge_beginning(tp, committed, self._policy)
            for finding in state.compare(committed, end, self._policy):
                findings.setdefault(finding, []).append(tp)
            position = before or state.wanted or confirmed  # the snapshot may have added one
            if position is not None:
                wanted[tp] = position
            if confirmed is not None:
                own[tp] = confirmed
            if state.sendable(now) is not None:
                self._plan(tp)
            else:
                self._requeue(tp)
        for finding, partitions in findings.items():
            events += self._events.finding(finding, partitions, snapshot, wanted, own)
        events += (self._failed(errors, now, None) for errors in missing.values())
        events += _combined(unread)
        self._retry_at_once = False
        return tuple(events)

    def on_snapshot_failed(
        self, request: SnapshotRequest, code: str, now: float, detail: str | None = None
    ) -> tuple[Event, ...]:
        """Record that a snapshot failed, and return the events.

        No commit is sent without a snapshot.
        """
        self.in_flight = False
        if explain(code).fatal:
            return self._fence(code)
        wanted = {tp: code for tp in request.partitions if self._on_snapshot_failed(tp, now)}
        events = (self._failed(wanted, now, detail),) if wanted else ()
        self._retry_at_once = False
        return events

    def _on_snapshot_failed(self, tp: TopicPartition, now: float) -> bool:
        """Record that a partition was not in a snapshot; return True if an offset waits for it."""
        state = self._partitions.get(tp)
        if state is None:
            return False
        state.needs_snapshot = False  # requested again soon; no commit waits for the snapshot
        if tp in self._due:
            self._plan(tp)
        return self._due.get(tp, inf) <= now

    def _on_partition_left_out(
        self, tp: TopicPartition, code: str | None, now: float
    ) -> str | None:
        """Record that a snapshot lacks a partition; return an error if an offset waits for it."""
        if code is not None:
            return code if self._on_snapshot_failed(tp, now) else None
        state = self._partitions.get(tp)
        not_found = state is not None and state.partition_missing()
        if tp in self._due:
            self._plan(tp)
        return NO_PARTITION if not_found else None

    def _recreations(self, request: SnapshotRequest, snapshot: GroupSnapshot) -> Iterable[Event]:
        for topic in sorted({tp.topic for tp in request.partitions} & snapshot.topic_ids.keys()):
            was, now = self._topics.get(topic), snapshot.topic_ids[topic]
            certain = was is not None and was.id == now
            self._topics[topic] = KnownTopic(now, frozenset(self._runs), certain)
            if was is None or certain or self._was_stale(topic, was, snapshot):
                continue
            waits = any(
                tp.topic == topic and is_of(state.wanted, was.runs)
                for tp, state in self._partitions.items()
            )
            stopped = waits or not was.runs.isdisjoint(self._runs)
            if stopped:
                self._recreated[topic] = was.runs
            waiting = self._forget(tp for tp in tuple(self._partitions) if tp.topic == topic)
            if stopped:
                yield TopicRecreated(
                    cluster=self._events.cluster,
                    group=self._group,
                    topic=topic,
                    was=was.id,
                    now=now,
                    offsets=waiting,
                )

    def _was_stale(self, topic: str, was: KnownTopic, snapshot: GroupSnapshot) -> bool:
        """Return True if the broker that showed the id `was` lagged behind.

        Kafka deletes a group's offsets together with their topic. So if the group still has an
        offset that was committed after that broker's answer, the topic has not been recreated since
        then.
        """
        return not was.certain and any(
            state.confirmed is not None and state.confirmed == snapshot.positions.get(tp)
            for tp, state in self._partitions.items()
            if tp.topic == topic
        )

    def _forget(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Drop partitions, but keep positions of a new topic; return the offsets that waited."""
        waiting: dict[TopicPartition, Position] = {}
        for tp in partitions:
            state = self._partitions.pop(tp)
            self._drop(tp)
            ends = self._fenced is not None or self._is_of_old_topic(tp, state.wanted)
            if ends and state.pending is not None:
                waiting[tp] = state.pending
            elif not ends and state.wanted is not None:
                self._partitions[tp] = PartitionState(pending=state.wanted)
                self._plan(tp)
        return as_offsets(waiting)

    def on_commit_answer(
        self,
        request: CommitRequest,
        answer: Mapping[TopicPartition, str | None],
        now: float,
        detail: str | None = None,
    ) -> tuple[Event, ...]:
        """Record the answer to a commit, and return the events.

        A partition that the answer leaves out counts as not confirmed.
        """
        self.in_flight = False
        errors: dict[TopicPartition, str] = {}
        confirmed: dict[TopicPartition, Position] = {}
        for tp, position in request.positions.items():
            error = answer.get(tp, MISSING)
            if error is not None:
                errors[tp] = error
            else:
                confirmed[tp] = position
                self._partitions[tp].confirm(position, now, self._retry.repeat_after)
                self._requeue(tp)
        events: list[Event] = []
        self._size.learn(request.positions.keys(), errors)
        for topic, tp in {tp.topic: tp for tp in confirmed}.items():
            if topic in self._topics and not self._topics[topic].certain:
                self._partitions[tp].snapshot_at = None  # it is still held when the id shows again
        if confirmed:
            self._is_new = False
            events.append(self._events.committed(confirmed, now - request.started))
        fatal = next((code for code in errors.values() if explain(code).fatal), None)
        if fatal is not None:
            events += self._fence(fatal)
        elif errors:
            for tp in errors:
                state = self._partitions[tp]
                state.snapshot_at = None  # the next try needs a new snapshot
                if state.confirmed == request.positions[tp]:
                    state.pending = state.pending or state.confirmed
            events.append(self._failed(errors, now, detail))
        self._retry_at_once = False
        return tuple(events)

    def _failed(
        self, errors: Mapping[TopicPartition, str], now: float, detail: str | None
    ) -> CommitFailed:
        spread = self._random.random()  # one for all partitions, so that one request retries all
        retry_states: dict[TopicPartition, RetryState] = {}
        for tp, error in errors.items():
            reason, state = explain(error), self._partitions[tp]
            retry_state = retry_states[tp] = state.retry_state = state.retry_state or RetryState()
            retry_state.record(reason, now)
            wait = self._retry.wait(retry_state.failures, refused=reason.lasting, spread=spread)
            retry_state.not_before = now if self._retry_at_once else now + wait
            self._requeue(tp)
        return self._events.failed(
            errors, retry_states, now, detail, persistent_after=self._retry.persistent_after
        )

    def _fence(self, code: str) -> tuple[Event, ...]:
        """Stop committing; but if a run has begun since the last commit, take over once."""
        if self._is_new:
            self._is_new, self._takes_over = False, True
            self.invalidate_snapshots()
            return ()
        self._fenced = frozenset(self._runs)
        reason, abandoned = explain(code), self._forget(tuple(self._partitions))
        return (
            CommitterFenced(
                cluster=self._events.cluster,
                group=self._group,
                code=code,
                cause=reason.cause,
                fix=reason.fix,
                offsets=abandoned,
            ),
        )

    def log_starts(self, by: float) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition's log that was known at the time `by`."""
        starts = {tp: state.log_start(by) for tp, state in self._partitions.items()}
        return {tp: start for tp, start in starts.items() if start is not None}

    def invalidate_snapshots(self) -> None:
        """Forget the snapshots, so that each partition needs a new one before its next commit."""
        for state in self._partitions.values():
            state.snapshot_at = None
        for tp in tuple(self._due):
            self._plan(tp)

    def retry_now(self) -> None:
        """Retry failed partitions at once, and also the request in flight, if it fails."""
        self._retry_at_once = self.in_flight
        for tp in tuple(self._failing):
            retry_state = self._partitions[tp].retry_state
            if retry_state is not None:
                retry_state.not_before = 0.0
            self._plan(tp)

    def waiting(self) -> Offsets:
        """Return the offsets that wait for Kafka.

        These offsets may be sent, and Kafka has neither confirmed nor finally rejected them.
        """
        states = {tp: self._partitions[tp] for tp in self._due}
        waiting = {tp: s.pending for tp, s in states.items() if s.pending and not s.is_refused}
        return as_offsets(waiting)

    def idle(self) -> bool:
        """Return True if Kafka has confirmed every offset that may be committed."""
        return all(self._partitions[tp].pending is None for tp in self._due)

    def complete(self) -> bool:
        """Return True if the group holds its queries' offsets: no offset waits or is held back.

        The group also lacks offsets that an ended run could not commit, until a later run feeds
        their partition.
        """
        states, fed = self._partitions.values(), {tp.topic for tp in self._partitions}
        held_back = any(state.refused or state.withheld or state.given_up for state in states)
        of_old_topics = any(
            topic not in fed or not runs.isdisjoint(self._runs)
            for topic, runs in self._recreated.items()
        )
        return self.idle() and not (held_back or of_old_topics or self._fenced is not None)

    def stuck(self, now: float) -> bool:
        """Return True if Kafka rejected all pending offsets: a short wait will not help."""
        pending = [state for tp in self._due if (state := self._partitions[tp]).pending is not None]
        refused = (state.is_refused for state in pending)
        return not self.in_flight and all(refused) and all(s.not_before > now for s in pending)

    def abandon(self) -> CommitAbandoned | None:
        """Drop all pending offsets; return them as an event, or None if there are none."""
        states = {
            tp: state for tp in self._due if (state := self._partitions[tp]).pending is not None
        }
        abandoned = as_offsets({tp: state.pending for tp, state in states.items() if state.pending})
        for tp, state in states.items():
            state.pending = None
            self._plan(tp)
        if not abandoned:
            return None
        events = self._events
        return CommitAbandoned(cluster=events.cluster, group=events.group, offsets=abandoned)


MAX_PART = 1000  # partitions of one request
MIN_PART = 50
GROW_AFTER = 16  # full parts that are accepted before a larger part is tried
_GROW_AT_LATEST = 1 << 14  # if every larger part was refused

_MAX_BYTES = 500_000
_RECORD_OVERHEAD = 80  # bytes of a record without its texts


def fitting(group: str, ready: Positions) -> Positions:
    """Return the first positions of `ready` that fit into one request, but at least one."""
    part: dict[TopicPartition, Position] = {}
    bytes_left, each = _MAX_BYTES, _RECORD_OVERHEAD + len(group.encode())
    for tp, position in ready.items():
        bytes_left -= each + len(tp.topic.encode()) + len(position.metadata.encode())
        if part and bytes_left < 0:
            break
        part[tp] = position
    return part


@dataclass(slots=True)
class PartSize:
    """The number of partitions in one request; it is halved if too large, and raised again later.

    `full` counts the full parts that the broker accepted since the last change of the size. After
    `grow_after` full parts, a larger part is tried. If the broker refuses the larger part,
    `grow_after` is doubled: the broker's limit is a setting, and each attempt costs a failure.
    `suspects` are partitions that failed once with an error that may mean that their part was too
    large.
    """

    partitions: int = MAX_PART
    full: int = 0
    grow_after: int = GROW_AFTER
    grown: bool = False
    suspects: frozenset[TopicPartition] = frozenset()

    def learn(
        self, part: AbstractSet[TopicPartition], errors: Mapping[TopicPartition, str]
    ) -> None:
        """Adapt the size to the broker's answer for a part."""
        self.suspects -= part - errors.keys()
        if not errors:
            self._on_success(len(part))
            return
        doubtful = {tp for tp, code in errors.items() if code in PERHAPS_TOO_LARGE}
        again = not self.suspects.isdisjoint(doubtful)
        if again or not TOO_LARGE.isdisjoint(errors.values()):
            self._refused(len(part))
        else:
            self.suspects |= doubtful

    def _on_success(self, size: int) -> None:
        if size < self.partitions:
            return
        self.grown = False
        if self.partitions == MAX_PART:
            self.grow_after = GROW_AFTER
            return
        self.full += 1
        if self.full >= self.grow_after:
            self.partitions, self.full = min(MAX_PART, 2 * self.partitions), 0
            self.grown = True

    def _refused(self, size: int) -> None:
        self.suspects, self.full = frozenset(), 0
        if self.grown:
            self.grow_after, self.grown = min(_GROW_AT_LATEST, 2 * self.grow_after), False
        self.partitions = min(self.partitions, max(MIN_PART, size // 2))


@dataclass(frozen=True, slots=True)
class GroupEvents:
    """Builds the events of one group of one cluster."""

    cluster: str
    group: str

    def committed(self, confirmed: Positions, seconds: float) -> Committed:
        """Return the event for positions that Kafka confirmed."""
        return Committed(
            cluster=self.cluster, group=self.group, offsets=as_offsets(confirmed), seconds=seconds
        )

    def failed(
        self,
        errors: Mapping[TopicPartition, str],
        retry_states: Mapping[TopicPartition, RetryState],
        now: float,
        detail: str | None,
        *,
        persistent_after: float,
    ) -> CommitFailed:
        """Return the event for a failed request, each of whose partitions is retried."""
        soonest = min(errors, key=lambda tp: retry_states[tp].not_before)
        retry_state = retry_states[soonest]
        reason = explain(errors[soonest])
        if retry_state.persistent is not None and now - retry_state.since >= persistent_after:
            reason = retry_state.persistent
        return CommitFailed(
            cluster=self.cluster,
            group=self.group,
            errors=errors,
            code=errors[soonest],
            cause=reason.cause,
            fix=reason.fix,
            detail=detail,
            refused=reason.lasting,
            unknown=any(explain(error).outcome_unknown for error in errors.values()),
            failures=retry_state.failures,
            retry_in=retry_state.not_before - now,
        )

    def finding(
        self,
        finding: Finding,
        partitions: list[TopicPartition],
        snapshot: GroupSnapshot,
        wanted: Positions,
        confirmed: Positions,
    ) -> Iterable[Event]:
        """Yield the events for `finding`, which a snapshot has shown for `partitions`.

        `wanted` has the positions to commit, `confirmed` the positions that Kafka confirmed before.
        """
        positions = snapshot.positions
        if finding is Discrepancy.VANISHED:
            lost = Offsets({tp: confirmed[tp].offset for tp in partitions})
            yield GroupOffsetsMissing(cluster=self.cluster, group=self.group, offsets=lost)
        elif finding is Discrepancy.BY_SINK:
            yield self.committed({tp: wanted[tp] for tp in partitions}, 0.0)
        elif finding is Discrepancy.FOREIGN:
            yield from self._foreign_commits(partitions, positions, confirmed)
        else:
            beyond = finding is Refusal.BEYOND_LOG_END
            obstacles = snapshot.ends if beyond else as_offsets(positions)
            first = None if beyond else positions.get(min(partitions))
            yield CommitRefused(
                cluster=self.cluster,
                group=self.group,
                refusal=finding,
                offsets=as_offsets({tp: wanted[tp] for tp in partitions}),
                obstacles=Offsets({tp: obstacles[tp] for tp in partitions}),
                writer=CommitMetadata.parse(first.metadata) if first else None,
            )

    def _foreign_commits(
        self, partitions: list[TopicPartition], positions: Positions, confirmed: Positions
    ) -> Iterable[Event]:
        by_writer: dict[tuple[str, str] | None, list[TopicPartition]] = {}
        for tp in partitions:
            writer = CommitMetadata.parse(positions[tp].metadata)
            key = (writer.query_id, writer.run_id) if writer else None
            by_writer.setdefault(key, []).append(tp)
        for written in by_writer.values():
            writer = CommitMetadata.parse(positions[written[0]].metadata)
            own = CommitMetadata.parse(confirmed[written[0]].metadata)
            yield ForeignCommit(
                cluster=self.cluster,
                group=self.group,
                group_offsets=as_offsets({tp: positions[tp] for tp in written}),
                own_offsets=as_offsets({tp: confirmed[tp] for tp in written}),
                writer=writer,
                zombie=writer is not None and own is not None and writer.query_id == own.query_id,
            )


def _combined(events: Iterable[GuardViolation]) -> Iterable[GuardViolation]:
    """Return one event for each source; `events` has one for each partition."""
    by_source: dict[GuardViolation, list[Violation]] = {}
    for event in events:
        by_source.setdefault(replace(event, violations=()), []).extend(event.violations)
    return (replace(event, violations=tuple(each)) for event, each in by_source.items())


def as_offsets(positions: Positions) -> Offsets:
    """Return the offsets of positions, without metadata."""
    return Offsets({tp: position.offset for tp, position in positions.items()})
