"""How old an open transaction is, and whether the broker may have ended it for that. No I/O."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TransactionAge:
    """The age of a transaction that begins when this is made; `timeout` in seconds.

    Both clocks are asked: the monotonic one stands still while the machine sleeps.
    """

    timeout: float
    _monotonic: float = field(default_factory=time.monotonic)
    _wall: float = field(default_factory=time.time)

    @property
    def outlived(self) -> bool:
        """Whether the broker may have aborted it at its time-out, a tenth of that beforehand.

        The broker's answer is then the same as if another producer had fenced this one.
        """
        age = max(time.monotonic() - self._monotonic, time.time() - self._wall)
        return age > self.timeout * 0.9

    @property
    def left(self) -> float:
        """Seconds until its time-out."""
        return max(0.0, self._monotonic + self.timeout - time.monotonic())
