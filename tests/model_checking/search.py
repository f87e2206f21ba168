"""Every history within a scope: depth first, each state once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.model_checking import rest as end
from tests.model_checking.bugs import Bug, planted
from tests.model_checking.ledger import Broken
from tests.model_checking.world import Step, World

PART = float(os.environ.get("EO_TEST_SEARCH", "1"))  # of the time that the long searches have
_LOOK = 32  # states between two looks at the clock, which takes a while itself


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found; `broken` is the rule, `history` the steps that break it."""

    scope: str
    states: int
    moves: int
    ends: int
    seconds: float
    complete: bool
    broken: str | None = None
    history: tuple[Step, ...] = ()

    def __str__(self) -> str:
        end = "all" if self.complete else "a part"
        line = (
            f"{self.scope:<12} {end}: {self.states:>8,} states, {self.moves:>9,} steps, "
            f"{self.ends:>7,} ends, {self.seconds:6.1f} s"
        )
        if self.broken is None:
            return line
        return "\n".join([line, f"  {self.broken}", *(f"    {' '.join(s)}" for s in self.history)])


def search(
    scope: Any,
    *,
    states: int = 10**9,
    seconds: float = 10**9,
    begin: Callable[[Any], Any] = World,
    over: Callable[[Any], bool] = end.over,
    rest: Callable[[Any], None] = end.rest,
) -> Outcome:
    """Search from `begin` until a rule is broken, all is seen, or a bound is reached."""
    began = time.process_time()
    first = begin(scope)
    seen = {hash(first.key())}
    stack: list[tuple[Any, tuple[Step, ...]]] = [(first, ())]
    moves = ends = visits = 0

    def outcome(
        complete: bool, broken: str | None = None, history: tuple[Step, ...] = ()
    ) -> Outcome:
        spent = time.process_time() - began
        return Outcome(scope.name, len(seen), moves, ends, spent, complete, broken, history)

    while stack:
        visits += 1
        late = visits % _LOOK == 0 and time.process_time() - began > seconds
        if late or len(seen) >= states:
            return outcome(False)
        world, history = stack.pop()
        step: Step = ("rest",)
        try:
            if over(world):
                ends += 1
                rest(world.copy())
            steps = world.steps()
            for left in reversed(range(len(steps))):
                moves += 1
                step = steps[left]
                after = world.copy() if left else world  # the last one needs no copy
                after.take(step)
                key = hash(after.key())
                if key not in seen:
                    seen.add(key)
                    stack.append((after, (*history, step)))
        except Broken as broken:
            return outcome(False, str(broken), (*history, step))
    return outcome(True)


def unbroken(outcome: Outcome, tell: Callable[[str], None]) -> Outcome:
    """Add `outcome` to the table; fail with the history that breaks a rule, if there is one."""
    tell(str(outcome))
    assert outcome.broken is None, str(outcome)
    return outcome


def require_found(bug: Bug, scope: Any, tell: Callable[[str], None], **how: Any) -> None:
    """Plant a bug, and fail unless a search of the scope finds it."""
    with planted(bug):
        outcome = search(scope, **how)
    spent = f"{outcome.moves:>7,} steps, {outcome.seconds:4.1f} s"
    tell(f"{bug.name:<36} {bug.scope:<18} {spent}: {(outcome.broken or 'not found')[:110]}")
    assert outcome.broken is not None
