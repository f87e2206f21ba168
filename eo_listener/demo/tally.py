"""The query's result in this driver's memory: departures by airport and hour."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

REMEMBERED: Final = 12  # batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Departures of one airport in one scheduled hour of the day.

    `minutes` is the average delay of those that left, None when none did.
    """

    origin: str
    hour: int
    flights: int
    cancelled: int
    minutes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that Spark has ended; `seconds` is what all of it took."""

    number: int
    rows: int
    seconds: float


class Tally:
    """What the batches have written so far; for several threads.

    A batch brings the new values of the keys it changed, not differences: writing one twice
    changes nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._delays: dict[tuple[str, int], Delay] = {}
        self._batches: deque[Batch] = deque(maxlen=REMEMBERED)
        self._counted = 0
        self._numbers: set[int] = set()

    def write(self, number: int, changed: Iterable[Delay], seconds: float) -> None:
        """Take the result of batch `number`, which took `seconds` to compute."""
        with self._lock:
            for delay in changed:
                self._delays[delay.origin, delay.hour] = delay
            before, self._counted = self._counted, sum(d.flights for d in self._delays.values())
            batch = Batch(number=number, rows=self._counted - before, seconds=seconds)
            self._batches.append(batch)
            self._numbers.add(number)

    @property
    def counted(self) -> int:
        """All flights in the result."""
        return self._counted

    @property
    def batch_count(self) -> int:
        """How many batches there were; one that came twice counts once."""
        return len(self._numbers)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The last batches, oldest first."""
        with self._lock:
            return tuple(self._batches)

    @property
    def delays(self) -> tuple[Delay, ...]:
        """The whole result."""
        with self._lock:
            return tuple(self._delays.values())
