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
    """How long to wait after a failed commit, in seconds.

    After a passing fault the group waits, twice as long each time, from `first` to `longest`.
    A refusal lasts until somebody changes something: only the refused partitions wait, for
    `refused`. Each wait is spread over its upper half, so that many drivers do not come back
    at once. There is no last try: newer offsets take the place of older ones, so what waits
    stays small, and a group must not stay behind for good because the query had nothing new
    to say after an outage.
    """

    first: float = 0.1
    longest: float = 15.0
    refused: float = 60.0

    def wait(self, failures: int, *, refused: bool, spread: float) -> float:
        """Return the wait after that many failures in a row; `spread` is from 0 to 1."""
        doublings = min(failures - 1, 32)
        bound = self.refused if refused else min(self.longest, self.first * 2.0**doublings)
        return bound * (0.5 + spread / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One commit request that is to be sent now."""

    group: str
    positions: Mapping[TopicPartition, Position]
    started: float


@dataclass(slots=True)
class _Lane:
    """One group: what is confirmed, what is not, and when to try again."""

    confirmed: dict[TopicPartition, int] = field(default_factory=dict)
    pending: dict[TopicPartition, Position] = field(default_factory=dict)
    refused_until: dict[TopicPartition, float] = field(default_factory=dict)
    in_flight: bool = False
    failures: int = 0
    not_before: float = 0.0

    def reached(self, tp: TopicPartition) -> int:
        held = self.pending.get(tp)
        return held.offset if held else self.confirmed.get(tp, -1)

    def ready(self, now: float) -> dict[TopicPartition, Position]:
        if self.in_flight or self.not_before > now:
            return {}
        return {
            tp: position
            for tp, position in self.pending.items()
            if self.refused_until.get(tp, 0.0) <= now
        }

    def next_try(self) -> float | None:
        if self.in_flight or not self.pending:
            return None
        soonest = min(self.refused_until.get(tp, 0.0) for tp in self.pending)
        return max(self.not_before, soonest)


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

    def due(self, now: float) -> tuple[Attempt, ...]:
        """Take out the requests to send now; each must come back through `settle`."""
        attempts = []
        for group, lane in self._lanes.items():
            positions = lane.ready(now)
            if positions:
                lane.in_flight = True
                attempts.append(Attempt(group=group, positions=positions, started=now))
        return tuple(attempts)

    def wait(self, now: float) -> float | None:
        """Seconds until the next request is due; None when nothing waits for its time."""
        tries = (lane.next_try() for lane in self._lanes.values())
        times = [time for time in tries if time is not None]
        return max(0.0, min(times) - now) if times else None

    def settle(
        self, attempt: Attempt, answer: Mapping[TopicPartition, str | None], now: float
    ) -> tuple[Event, ...]:
        """Record the answer to a request; a partition it leaves out was not confirmed."""
        lane = self._lanes[attempt.group]
        lane.in_flight = False
        errors: dict[TopicPartition, str] = {}
        landed: dict[TopicPartition, int] = {}
        for tp, position in attempt.positions.items():
            error = answer.get(tp, MISSING)
            if error is not None:
                errors[tp] = error
                continue
            landed[tp] = lane.confirmed[tp] = position.offset
            lane.refused_until.pop(tp, None)
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
            events.append(self._failed(attempt.group, lane, errors, now))
        else:
            lane.failures = 0
        return tuple(events)

    def hurry(self) -> None:
        """Forget all waits: the next `due` takes everything that is pending."""
        for lane in self._lanes.values():
            lane.not_before = 0.0
            lane.refused_until.clear()

    def idle(self) -> bool:
        """True when everything offered has been confirmed."""
        return not any(lane.pending for lane in self._lanes.values())

    def stuck(self, now: float) -> bool:
        """True when all that is pending was refused: waiting a little will not help."""
        pending = [lane for lane in self._lanes.values() if lane.pending]
        return all(
            not lane.in_flight and all(lane.refused_until.get(tp, 0.0) > now for tp in lane.pending)
            for lane in pending
        )

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
        self, group: str, lane: _Lane, errors: Mapping[TopicPartition, str], now: float
    ) -> CommitFailed:
        lane.failures += 1
        # A passing fault decides before a refusal: with it the next try comes soon.
        code = min(errors.values(), key=lambda error: (explain(error).refused, error))
        reason = explain(code)
        spread = self._random.random()
        wait = self._retry.wait(lane.failures, refused=reason.refused, spread=spread)
        if not reason.refused:
            lane.not_before = now + wait
        park = self._retry.wait(lane.failures, refused=True, spread=spread)
        for tp, error in errors.items():
            if explain(error).refused:
                lane.refused_until[tp] = now + park
        return CommitFailed(
            cluster=self._cluster,
            group=group,
            errors=errors,
            code=code,
            cause=reason.cause,
            fix=reason.fix,
            refused=reason.refused,
            unknown=any(explain(error).unknown for error in errors.values()),
            failures=lane.failures,
            retry_in=wait,
        )
