"""How long what fails for a while is repeated, and how long between. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """Bounds for a store that is away, busy or in conflict; times in seconds.

    `timeout` runs from the first failure, so that a batch which took an hour before it failed is
    repeated too. The waits grow from `first` to `longest`.
    """

    timeout: float = 60.0
    first: float = 0.1
    longest: float = 5.0

    def pauses(self, clock: Callable[[], float]) -> Iterator[float]:
        """The waits before each repetition; the time begins when the first one is asked for.

        The first is always given, unless `timeout` is 0. The last repetition is made when the
        time is up.
        """
        ends = clock() + self.timeout
        pause = self.first
        while (left := ends - clock()) > 0:
            yield min(pause, left)
            pause = min(2 * pause, self.longest)
