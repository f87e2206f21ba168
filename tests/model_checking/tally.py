"""Long histories by chance, one kind after the other, each from a seed of its own."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.model_checking.ledger import Broken
from tests.model_checking.world import Step


class Named(Protocol):
    """A scope, of whichever model."""

    @property
    def name(self) -> str: ...


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


def simulate(
    kinds: Sequence[Named],
    begin: Callable[[Any], Any],
    seed: int,
    batches: int,
    *,
    length: int,
    weight: Callable[[Step], float],
    rest: Callable[[Any], None],
) -> Tally:
    """Take histories by turns, until so many batches are done or a rule is broken."""
    done, began = Tally(), time.process_time()
    while done.steps["finish"] < batches and done.broken is None:
        number = f"{seed}/{done.histories}"
        scope, chance = kinds[done.histories % len(kinds)], random.Random(number)
        taken: list[Step] = []
        try:
            world = begin(scope)
            while len(taken) < length and (steps := world.steps()):
                step = chance.choices(steps, [weight(one) for one in steps])[0]
                taken.append(step)
                world.take(step)
            taken.append(("rest",))
            rest(world)
        except Broken as broken:
            shown = "\n".join(f"    {' '.join(step)}" for step in taken[-60:])
            done.broken = f"{scope.name}, seed {number!r}, step {len(taken)}: {broken}\n{shown}"
        done.histories += 1
        done.steps.update(step[0] for step in taken)
        done.seconds = time.process_time() - began
    return done


def require_unbroken(tally: Tally, tell: Callable[[str], None], **least: int) -> None:
    """Add it to the table; fail if a rule is broken, or some steps were taken too seldom."""
    tell(f"simulation: {tally}")
    assert tally.broken is None, str(tally)
    for step, count in least.items():
        assert tally.steps[step] > count, step
