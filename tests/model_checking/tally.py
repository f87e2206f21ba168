"""Long histories by chance, one kind after the other, each from a seed of its own."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tests.model_checking.ledger import Broken
from tests.model_checking.world import Step


class Named(Protocol):
    """A scope, of whichever model."""

    @property
    def name(self) -> str: ...


_Scope = TypeVar("_Scope", bound=Named)
# Takes steps in a scope by chance, and adds each to the list before it is taken. Raises Broken.
History = Callable[[_Scope, random.Random, list[Step]], None]


@dataclass(slots=True)
class Tally:
    """What a simulation has done, and the first rule that was broken."""

    histories: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    broken: str | None = None

    def __str__(self) -> str:
        steps = self.steps
        line = (
            f"{self.histories:,} histories, {steps.total():,} steps, {steps['finish']:,} batches, "
            f"{steps['crash']:,} crashes, {steps['resume']:,} zombies, {self.seconds:.0f} s"
        )
        return line if self.broken is None else f"{line}\n{self.broken}"


def tally(kinds: Sequence[_Scope], history: History[_Scope], seed: int, batches: int) -> Tally:
    """Take histories, of each kind by turns, until so many batches are done or a rule is broken."""
    done, began = Tally(), time.process_time()
    while done.steps["finish"] < batches and done.broken is None:
        number = f"{seed}/{done.histories}"
        scope = kinds[done.histories % len(kinds)]
        taken: list[Step] = []
        try:
            history(scope, random.Random(number), taken)
        except Broken as broken:
            shown = "\n".join(f"    {' '.join(step)}" for step in taken[-60:])
            done.broken = f"{scope.name}, seed {number!r}, step {len(taken)}: {broken}\n{shown}"
        done.histories += 1
        done.steps.update(step[0] for step in taken)
        done.seconds = time.process_time() - began
    return done


def take_by_chance(
    world: Any,
    taken: list[Step],
    chance: random.Random,
    *,
    length: int,
    weight: Callable[[Step], float],
    rest: Callable[[Any], None],
) -> None:
    """Take at most `length` steps, each noted in `taken` before, and then let all come to rest."""
    for _ in range(length):
        steps = world.steps()
        if not steps:
            break
        step = chance.choices(steps, [weight(one) for one in steps])[0]
        taken.append(step)
        world.take(step)
    taken.append(("rest",))
    rest(world)
