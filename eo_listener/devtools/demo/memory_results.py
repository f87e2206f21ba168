"""The query's result in this driver's memory."""

from __future__ import annotations

from collections.abc import Iterable

from eo_listener.devtools.demo.results import BatchResult, Delay, Results


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
