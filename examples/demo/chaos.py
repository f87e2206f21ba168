"""When the driver is killed: so many times, evenly spread, always in the middle of a batch."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

_LONGEST: Final = 0.6  # seconds into a batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A driver was killed while it wrote this batch.

    `caught` says that the batch was planned and not done when it died, by the checkpoint.
    """

    batch: int
    caught: bool


class Chaos:
    """Says when; it kills nobody. `wanted` is how many rows there will be in all."""

    def __init__(self, kills: int, wanted: int, rng: random.Random | None = None) -> None:
        self._kills = kills
        self._wanted = wanted
        self._rng = rng or random.Random()  # noqa: S311  # chance, not secrecy
        self._delay = self._rng.uniform(0, _LONGEST)
        self._last_batch: int | None = None
        self.done: list[Kill] = []

    @property
    def wanted(self) -> int:
        """How often it wants to kill in all."""
        return self._kills

    def due(self, *, written: int, batch: int | None, since: float) -> bool:
        """Whether to kill now: `written` rows are in the table, `batch` is begun `since` seconds.

        A batch that ended before its moment came makes the next moment come sooner.
        """
        if len(self.done) == self._kills or batch is None:
            return False
        if written < self._wanted * (len(self.done) + 1) // (self._kills + 1):
            return False
        if self._last_batch is not None and batch != self._last_batch:
            self._delay /= 2
        self._last_batch = batch
        return since >= self._delay

    def killed(self, kill: Kill) -> None:
        """Note it, and choose the moment of the next one."""
        self.done.append(kill)
        self._last_batch = None
        self._delay = self._rng.uniform(0, _LONGEST)
