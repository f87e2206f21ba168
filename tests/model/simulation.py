"""Long histories by chance, each from a seed that is named when a rule is broken."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from eo_listener.committer.policy import OnRewind
from eo_listener.guard import Guard
from tests.model.ledger import Broken
from tests.model.moves import choose, endless
from tests.model.rest import rest
from tests.model.scope import Scope
from tests.model.world import Step, World

_ANSWERS = ("lost", "unanswered", "delayed", "missing", "partial", "look")
_PROCESS = ("crash", "zombie", "restart", "pause", "drop")

# One of these by turns.
KINDS = (
    endless(Scope("one driver", {}), "crash", "restart", "drop", "pause", *_ANSWERS),
    endless(Scope("zombies", {}), *_PROCESS, *_ANSWERS),
    endless(Scope("fenced", {}, fencing=True), *_PROCESS, *_ANSWERS),
    endless(Scope("rewinds", {}), "rewind", "fresh", *_PROCESS, *_ANSWERS),
    endless(
        Scope("rewinds allowed", {}, on_rewind=OnRewind.ALLOW),
        "rewind",
        "fresh",
        "crash",
        "restart",
    ),
    endless(Scope("administrators", {}), "expire", "reset", "members", "crash", *_ANSWERS),
    endless(Scope("topics", {}), "recreate", "truncate", "delete", "crash", *_ANSWERS),
    endless(Scope("guard", {}), "glitch", "drop", "crash", "restart"),
    endless(Scope("guard warns", {}, guard=Guard.WARN), "glitch", "drop", *_PROCESS, *_ANSWERS),
    endless(Scope("two queries", {}, queries=("q1", "q2")), "crash", "drop", "pause", *_ANSWERS),
)


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


def simulate(seed: int, batches: int, *, length: int = 600, seconds: float = 1e9) -> Tally:
    """Take histories of so many steps each until so many batches are done."""
    tally, began = Tally(), time.process_time()
    while tally.steps["finish"] < batches and time.process_time() - began < seconds:
        number = f"{seed}/{tally.histories}"
        scope = KINDS[tally.histories % len(KINDS)]
        taken: list[Step] = []
        try:
            _history(scope, random.Random(number), length, taken)
        except Broken as broken:
            shown = "\n".join(f"    {' '.join(step)}" for step in taken[-60:])
            tally.broken = f"{scope.name}, seed {number!r}, step {len(taken)}: {broken}\n{shown}"
        tally.histories += 1
        tally.steps.update(step[0] for step in taken)
        tally.seconds = time.process_time() - began
        if tally.broken:
            break
    return tally


def _history(scope: Scope, chance: random.Random, length: int, taken: list[Step]) -> None:
    world = World(scope)
    for _ in range(length):
        step = choose(world, chance)
        taken.append(step)
        world.take(step)
    taken.append(("rest",))
    rest(world)
