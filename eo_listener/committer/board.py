"""What one cluster's groups still have to be told: merging, retrying, giving way.

Pure: time comes in as an argument, requests go out as values. The thread around it is in
`worker.py`; a model can drive this class alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from eo_listener.committer.reasons import explain
from eo_listener.events import CommitAbandoned, CommitFailed, CommitRefused, Committed, Event
from eo_listener.offsets import Offsets, Position, TopicPartition

MISSING = "_MISSING_ANSWER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How long a partition waits after a failed commit, in seconds.

    The wait doubles with each failure in a row: after a passing fault from `first` up to
    `longest`; after a refusal, which lasts until somebody changes something, from `refused_first`
    up to `refused_longest`. Each wait is spread over its upper half, so that many drivers do not
    come back at once. There is no last try: newer offsets take the place of older ones, so what
    waits stays small, and a group must not stay behind for good because the query had nothing
    new to say after an outage.
    """

    first: float = 0.1
    longest: float = 15.0
    refused_first: float = 1.0  # a broker that has just started may not know its topics yet
    refused_longest: float = 60.0
    doubt: float = 60.0

    def wait(self, failures: int, *, refused: bool, spread: float) -> float:
        """Return the wait after that many failures in a row; `spread` is from 0 to 1."""
        first, longest = (
            (self.refused_first, self.refused_longest) if refused else (self.first, self.longest)
        )
        doublings = min(failures - 1, 32)
        return min(longest, first * 2.0**doublings) * (0.5 + spread / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One commit request that is to be sent now."""

    group: str
    positions: Mapping[TopicPartition, Position]
    started: float


@dataclass(slots=True)
class _Trouble:
    """Failures in a row of one partition, and when it may be tried again.

    `unknown` is set when one of them may have landed, or may still land.
    """

    failures: int = 0
    refused: bool = False
    unknown: bool = False
    not_before: float = 0.0


@dataclass(slots=True)
class _Lane:
    """One group: what is confirmed, what is not, and what has to wait.

    `repeat` holds when a confirmed position is to be sent once more: an earlier request whose
    outcome was unknown may have been on its way still, and have landed after it.
    """

    confirmed: dict[TopicPartition, Position] = field(default_factory=dict)
    pending: dict[TopicPartition, Position] = field(default_factory=dict)
    troubles: dict[TopicPartition, _Trouble] = field(default_factory=dict)
    repeat: dict[TopicPartition, float] = field(default_factory=dict)
    in_flight: bool = False
    hurried: bool = False

    def reached(self, tp: TopicPartition) -> int:
        held = self.pending.get(tp) or self.confirmed.get(tp)
        return held.offset if held else -1

    def not_before(self, tp: TopicPartition) -> float:
        trouble = self.troubles.get(tp)
        return trouble.not_before if trouble else 0.0

    def ready(self, now: float) -> dict[TopicPartition, Position]:
        repeated = {tp: self.confirmed[tp] for tp, time in self.repeat.items() if time <= now}
        pending = {tp: held for tp, held in self.pending.items() if self.not_before(tp) <= now}
        return {**repeated, **pending}

    def next_try(self) -> float | None:
        times = [*(self.not_before(tp) for tp in self.pending), *self.repeat.values()]
        return min(times) if times and not self.in_flight else None

    def failures(self) -> int:
        return max((trouble.failures for trouble in self.troubles.values()), default=0)

    def stuck(self, now: float) -> bool:
        troubles = [self.troubles.get(tp) for tp in self.pending]
        return not self.in_flight and all(t and t.refused and t.not_before > now for t in troubles)


class Board:
    """All groups of one cluster. Not thread-safe: the worker holds a lock around it."""

    def __init__(
        self, cluster: str, retry: Retry | None = None, randomness: random.Random | None = None
    ) -> None:
        self._cluster = cluster
        self._retry = retry or Retry()
        self._random = randomness or random.Random()  # noqa: S311  # spreads retries, guards no secret
        self._lanes: dict[str, _Lane] = {}

    def offer(
        self, group: str, positions: Mapping[TopicPartition, Position]
    ) -> CommitRefused | None:
        """Take positions in; per partition the greatest offset offered so far stays."""
        lane = self._lanes.setdefault(group, _Lane())
        lower: dict[TopicPartition, int] = {}
        for tp, position in positions.items():
            reached = lane.reached(tp)
            if position.offset > reached:
                lane.pending[tp] = position
            elif position.offset < reached:
                lower[tp] = reached
        if not lower:
            return None
        return CommitRefused(
            cluster=self._cluster,
            group=group,
            offered=Offsets({tp: positions[tp].offset for tp in lower}),
            held=Offsets(lower),
        )

    def next(self, now: float) -> Attempt | None:
        """Take out the request to send now; it must come back through `settle`.

        Of several groups the one with the fewest failures goes first, so that those that do not
        answer hold up the others least.
        """
        ready = [
            (lane.failures(), group, positions)
            for group, lane in self._lanes.items()
            if not lane.in_flight and (positions := lane.ready(now))
        ]
        if not ready:
            return None
        _, group, positions = min(ready, key=lambda one: one[:2])
        self._lanes[group].in_flight = True
        return Attempt(group=group, positions=positions, started=now)

    def wait(self, now: float) -> float | None:
        """Seconds until the next request is due; None when nothing waits for its time."""
        tries = (lane.next_try() for lane in self._lanes.values())
        times = [time for time in tries if time is not None]
        return max(0.0, min(times) - now) if times else None

    def settle(
        self,
        attempt: Attempt,
        answer: Mapping[TopicPartition, str | None],
        now: float,
        detail: str | None = None,
    ) -> tuple[Event, ...]:
        """Record the answer to a request; a partition it leaves out was not confirmed.

        `detail` is what the connection complained of, if it did.
        """
        lane = self._lanes[attempt.group]
        lane.in_flight = False
        errors: dict[TopicPartition, str] = {}
        landed: dict[TopicPartition, int] = {}
        for tp, position in attempt.positions.items():
            error = answer.get(tp, MISSING)
            if error is not None:
                errors[tp] = error
                continue
            landed[tp] = position.offset
            lane.confirmed[tp] = position
            lane.repeat.pop(tp, None)
            trouble = lane.troubles.pop(tp, None)
            if trouble is not None and trouble.unknown:
                lane.repeat[tp] = now + self._retry.doubt
            held = lane.pending.get(tp)
            if held is not None and held.offset == position.offset:
                del lane.pending[tp]
        events: list[Event] = []
        if landed:
            events.append(
                Committed(
                    cluster=self._cluster,
                    group=attempt.group,
                    offsets=Offsets(landed),
                    seconds=now - attempt.started,
                )
            )
        if errors:
            events.append(self._failed(attempt, lane, errors, now, detail))
        lane.hurried = False
        return tuple(events)

    def hurry(self) -> None:
        """Forget all waits; what is in flight and fails is tried at once again."""
        for lane in self._lanes.values():
            lane.hurried = lane.in_flight
            for trouble in lane.troubles.values():
                trouble.not_before = 0.0

    def idle(self) -> bool:
        """True when everything offered has been confirmed."""
        return not any(lane.pending for lane in self._lanes.values())

    def stuck(self, now: float) -> bool:
        """True when all that is pending was refused: waiting a little will not help."""
        return all(lane.stuck(now) for lane in self._lanes.values() if lane.pending)

    def abandon(self) -> tuple[CommitAbandoned, ...]:
        """Give up what is still pending, and say what that is."""
        given_up = []
        for group, lane in self._lanes.items():
            if lane.pending:
                offsets = Offsets({tp: p.offset for tp, p in lane.pending.items()})
                given_up.append(
                    CommitAbandoned(cluster=self._cluster, group=group, offsets=offsets)
                )
                lane.pending.clear()
        return tuple(given_up)

    def _failed(
        self,
        attempt: Attempt,
        lane: _Lane,
        errors: Mapping[TopicPartition, str],
        now: float,
        detail: str | None,
    ) -> CommitFailed:
        spread = self._random.random()  # one for all, so that they are tried in one request again
        for tp, error in errors.items():
            reason = explain(error)
            trouble = lane.troubles.setdefault(tp, _Trouble())
            trouble.failures += 1
            trouble.refused = reason.refused
            trouble.unknown = trouble.unknown or reason.unknown
            wait = self._retry.wait(trouble.failures, refused=reason.refused, spread=spread)
            trouble.not_before = now if lane.hurried else now + wait
            lane.repeat.pop(tp, None)
            lane.pending.setdefault(tp, attempt.positions[tp])
        soonest = min(errors, key=lane.not_before)
        reason = explain(errors[soonest])
        return CommitFailed(
            cluster=self._cluster,
            group=attempt.group,
            errors=errors,
            code=errors[soonest],
            cause=reason.cause,
            fix=reason.fix,
            detail=detail,
            refused=reason.refused,
            unknown=any(explain(error).unknown for error in errors.values()),
            failures=lane.troubles[soonest].failures,
            retry_in=lane.not_before(soonest) - now,
        )
