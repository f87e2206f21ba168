"""All groups of one cluster: which of them is to be served next.

Pure: time comes in as an argument, requests go out as values. The thread around it is in
`worker.py`; a model can drive this class alone.
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
    """When each item is next due; only items marked as changed are computed again."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        # In order: of two that are due the first goes first.
        self._changed_names: dict[str, None] = {}

    def mark_changed(self, name: str) -> None:
        """Compute the due time of this item again at the next call of `times`."""
        self._changed_names[name] = None

    def postpone(self, name: str) -> None:
        """Put an item that was served behind all others, and compute its due time again."""
        self._times.pop(name, None)
        self._changed_names.pop(name, None)
        self._changed_names[name] = None

    def times(self, ask: Callable[[str], float | None]) -> Mapping[str, float]:
        """All times, of those served last at the end.

        `ask` is called for the changed ones, and returns None for one that is not due at any time.
        """
        for name in self._changed_names:
            time = ask(name)
            if time is None:
                self._times.pop(name, None)
            else:
                self._times[name] = time
        self._changed_names.clear()
        return self._times


# The worker calls this at least every 5 s, or when a request of at most 8 s ends. If it did not,
# the process was suspended, and a successor may be working: no earlier snapshot counts.
STANDSTILL = 15.0

OUT_OF_TURN = 10  # requests in a row that may go before the group that has waited longest


class ClusterState:
    """The groups of one cluster. Not thread-safe: the worker holds a lock around it."""

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
        self._random = randomness or random.Random()  # noqa: S311  # spreads retries, guards no secret
        self._groups: dict[str, GroupState] = {}
        self._active: dict[str, GroupState] = {}  # with a thousand groups, most have nothing to do
        self._due_times = DueTimes()
        self._last_next: float | None = None
        self._out_of_turn = 0

    def group(self, name: str) -> GroupState:
        """Return the state of a group for what is offered or answered; its due time changes."""
        state = self._groups.get(name)
        if state is None:
            state = GroupState(self._cluster, name, self._retry, self._policy, self._random)
            self._groups[name] = state
        self._active[name] = state
        self._due_times.mark_changed(name)
        return state

    def _next_try(self, group: str) -> float | None:
        """When the next request of a group is due; one with nothing to do becomes inactive."""
        time = self._groups[group].next_try()
        if time is None and not self._groups[group].in_flight:
            self._active.pop(group, None)
        return time

    def next(self, now: float) -> CommitRequest | SnapshotRequest | None:
        """Take out the request to send now; it must come back through an answer.

        Of several groups the one with the fewest failures goes first, so that those that do not
        answer hold up the others least; of as many failures, and in any case after some requests,
        the one that has waited longest, so that none waits forever.
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

    def invalidate_snapshots(self) -> None:
        """Forget all snapshots: this process, or its machine, stood still."""
        for group, state in self._groups.items():
            state.invalidate_snapshots()
            self._due_times.mark_changed(group)

    def wait(self, now: float) -> float | None:
        """Seconds until the next request is due; None when nothing waits for its time."""
        soonest = min(self._due_times.times(self._next_try).values(), default=None)
        return None if soonest is None else max(0.0, soonest - now)

    def retry_now(self, groups: Iterable[str] | None = None) -> None:
        """Forget all waits, or those of some groups; what is in flight and fails is tried again."""
        for group in tuple(self._active if groups is None else groups):
            if group in self._active:
                self._active[group].retry_now()
                self._due_times.mark_changed(group)

    def waiting(self, groups: Iterable[str]) -> frozenset[Waiting]:
        """Return offsets of these groups that Kafka has neither confirmed nor refused."""
        states = {group: self._groups[group] for group in groups if group in self._groups}
        return frozenset(
            Waiting(self._cluster, group, tp, offset)
            for group, state in states.items()
            for tp, offset in state.waiting().items()
        )

    def idle(self) -> bool:
        """True when everything that may be committed has been confirmed."""
        return all(state.idle() for state in self._active.values())

    def complete(self) -> bool:
        """True when every group stands where its queries do; see `GroupState.complete`."""
        return all(state.complete() for state in self._groups.values())

    def stuck(self, now: float) -> bool:
        """True when all that is pending was refused: waiting a little will not help."""
        return all(state.stuck(now) for state in self._active.values() if not state.idle())

    def log_starts(self, group: str, by: float) -> Mapping[TopicPartition, int]:
        """The first offset of each log, as it was known by then."""
        state = self._groups.get(group)
        return {} if state is None else state.log_starts(by)

    def abandon(self) -> tuple[CommitAbandoned, ...]:
        """Give up what is still pending, and say what that is."""
        abandoned = (state.abandon() for state in self._groups.values())
        return tuple(event for event in abandoned if event is not None)
