"""What has come out of the query so far: departures by airport and hour, and the batches."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 12  # batches


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
class BatchResult:
    """One micro-batch that Spark has ended; `seconds` is what all of it took."""

    number: int
    rows: int
    seconds: float


class Results:
    """The whole result as it is now, and the last batches, oldest first; for several threads."""

    def __init__(self) -> None:
        self.delays: tuple[Delay, ...] = ()
        self.batches: tuple[BatchResult, ...] = ()
        self._numbers: set[int] = set()
        self._lock = threading.Lock()

    @property
    def counted(self) -> int:
        """All flights in the result."""
        return sum(delay.flights for delay in self.delays)

    @property
    def batch_count(self) -> int:
        """How many batches there were; one that came twice counts once."""
        return len(self._numbers)

    def add(self, batch: BatchResult) -> None:
        """Take a batch that has ended."""
        with self._lock:
            self.batches = (*self.batches, batch)[-_REMEMBERED:]
            self._numbers.add(batch.number)


class MemoryResults(Results):
    """What the batches have written so far.

    A batch brings the new values of the keys it changed, not differences: writing one twice
    changes nothing.
    """

    def write(self, number: int, changed: Iterable[Delay], seconds: float) -> None:
        """Take the result of batch `number`, which took `seconds` to compute."""
        before = self.counted
        whole = {(delay.origin, delay.hour): delay for delay in (*self.delays, *changed)}
        self.delays = tuple(whole.values())
        self.add(BatchResult(number=number, rows=self.counted - before, seconds=seconds))
