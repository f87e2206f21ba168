"""How often a write is tried, and how long between. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Bounds for the steps of one sink in one batch; times in seconds.

    `attempts` is how often the whole batch is written at most, `reads` how often the ledger is
    asked after an answer to COMMIT was lost: with the defaults for about 30 s, in which a store
    that was killed is up again.
    """

    attempts: int = 5
    reads: int = 12
    first: float = 0.1
    longest: float = 5.0

    def pauses(self, count: int) -> Iterator[float]:
        """The waits between `count` tries: one less than that, each twice the last."""
        return (min(self.first * 2**number, self.longest) for number in range(count - 1))
