"""Holds all groups of one cluster, and chooses the group whose request is sent next.

`ClusterState` does no input or output: it gets the time as an argument, and returns requests as
values. The thread that drives this class is in `worker.py`; a model can drive the class without a
thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from eo_listener.commit.groups.group_offsets import Waiting
from eo_listener.commit.groups.group_state import CommitRequest, GroupState, SnapshotRequest
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.events import CommitAbandoned
from eo_listener.offsets import TopicPartition


class DueTimes:
    """The next due time of each item, computed again only for items that are marked as changed."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        # In order: if two items are due, the first one goes first.
        self._changed_names: dict[str, None] = {}

    def mark_changed(self, name: str) -> None:
        """Mark an item, so that the next call of `times` computes its due time again."""
        self._changed_names[name] = None

    def postpone(self, name: str) -> None:
        """Move an item to the end of the queue, after its turn, and mark it as changed."""
        self._times.pop(name, None)
        self._changed_names.pop(name, None)
        self._changed_names[name] = None

    def times(self, ask: Callable[[str], float | None]) -> Mapping[str, float]:
        """Return the due time of each item; the items postponed most recently come last.

        For each changed item, the method calls `ask`, which returns the item's due time, or None if
        the item is never due.
        """
        for name in self._changed_names:
            time = ask(name)
            if time is None:
                self._times.pop(name, None)
            else:
                self._times[name] = time
        self._changed_names.clear()
        return self._times


# The worker calls `next` at least every 5 s, or when a request of at most 8 s ends. After a longer
# pause the process was suspended, and another driver may be running: no earlier snapshot counts.
STANDSTILL = 15.0

OUT_OF_TURN = 10  # requests in a row that may go before the group that has waited longest


class ClusterState:
    """The groups of one cluster. Not thread-safe: the worker holds a lock around each call."""

    def __init__(
        self,
        cluster: str,
        retry: Backoff | None = None,
        randomness: random.Random | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._cluster = cluster
        self._retry = retry or Backoff()
        self._policy = policy or Policy()
        self._random = randomness or random.Random()  # noqa: S311  # spreads retries, no secret
        self._groups: dict[str, GroupState] = {}
        self._active: dict[str, GroupState] = {}  # with a thousand groups, most have nothing to do
        self._due_times = DueTimes()
        self._last_next: float | None = None
        self._out_of_turn = 0

    def group(self, name: str) -> GroupState:
        """Return the state of a group; create it for a new group, and mark the group as changed."""
        state = self._groups.get(name)
        if state is None:
            state = GroupState(self._cluster, name, self._retry, self._policy, self._random)
            self._groups[name] = state
        self._active[name] = state
        self._due_times.mark_changed(name)
        return state

    def _next_try(self, group: str) -> float | None:
        """Return when a group's next request is due; deactivate a group that has nothing to do."""
        time = self._groups[group].next_try()
        if time is None and not self._groups[group].in_flight:
            self._active.pop(group, None)
        return time

    def next(self, now: float) -> CommitRequest | SnapshotRequest | None:
        """Return the request to send now, or None.

        The caller must pass the answer to the state of the request's group.

        The group with the fewest failures goes first, so that groups without answers delay the
        others least. Among groups with equally many failures, the group that has waited longest
        goes first. If `OUT_OF_TURN` requests in a row have passed over the group that has waited
        longest, that group goes first, so that no group waits forever.
        """
        if self._last_next is not None and now - self._last_next > STANDSTILL:
            self.invalidate_snapshots()
        self._last_next = now
        times = self._due_times.times(self._next_try).items()
        due = [group for group, time in times if time <= now]
        best = due
        if self._out_of_turn < OUT_OF_TURN:
            best = sorted(due, key=lambda group: self._groups[group].failures())
        for group in best:
            self._due_times.postpone(group)
            request = self._groups[group].next(now)
            if request is not None:
                self._out_of_turn = 0 if group == due[0] else self._out_of_turn + 1
                return request
        return None

    def end_run(self, owner: str, *, replaced: bool = False) -> None:
        """Record that a run has ended; see `PartitionState.end_run`."""
        for name, group in self._groups.items():
            group.end_run(owner, replaced=replaced)
            self._due_times.mark_changed(name)

    def invalidate_snapshots(self) -> None:
        """Forget the snapshots of all groups, because this process or its machine was suspended."""
        for group, state in self._groups.items():
            state.invalidate_snapshots()
            self._due_times.mark_changed(group)

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next request is due, or None if no request is planned."""
        soonest = min(self._due_times.times(self._next_try).values(), default=None)
        return None if soonest is None else max(0.0, soonest - now)

    def retry_now(self, groups: Iterable[str] | None = None) -> None:
        """Retry at once in `groups` (None: in all groups); see `GroupState.retry_now`."""
        for group in tuple(self._active if groups is None else groups):
            if group in self._active:
                self._active[group].retry_now()
                self._due_times.mark_changed(group)

    def waiting(self, groups: Iterable[str]) -> frozenset[Waiting]:
        """Return the offsets of `groups` that Kafka has neither confirmed nor finally rejected."""
        states = {group: self._groups[group] for group in groups if group in self._groups}
        return frozenset(
            Waiting(self._cluster, group, tp, offset)
            for group, state in states.items()
            for tp, offset in state.waiting().items()
        )

    def idle(self) -> bool:
        """Return True if Kafka has confirmed every offset that may be committed."""
        return all(state.idle() for state in self._active.values())

    def complete(self) -> bool:
        """Return True if every group holds its queries' offsets; see `GroupState.complete`."""
        return all(state.complete() for state in self._groups.values())

    def stuck(self, now: float) -> bool:
        """Return True if Kafka rejected all pending offsets: a short wait will not help."""
        return all(state.stuck(now) for state in self._active.values() if not state.idle())

    def log_starts(self, group: str, by: float) -> Mapping[TopicPartition, int]:
        """Return the log starts of a group's partitions that were known at the time `by`."""
        state = self._groups.get(group)
        return {} if state is None else state.log_starts(by)

    def abandon(self) -> tuple[CommitAbandoned, ...]:
        """Drop all pending offsets; return an event for each group that had pending offsets."""
        abandoned = (state.abandon() for state in self._groups.values())
        return tuple(event for event in abandoned if event is not None)
