"""How long ago everything that had been in Kafka by then was processed: lag as a time. Pure.

An event says where the logs ended when its batch was planned. Once a later batch has ended beyond
that, all that was written until then is processed, and what is not yet was written afterwards. So
the lag in seconds is an upper bound for the age of the oldest record that is still to be processed,
by the driver's clock, and as fine as the batches.
"""

from __future__ import annotations

from collections import deque

from eo_listener.model.offsets import Offsets

_KEPT = 64  # looks at the logs that are not reached yet; of more, every other is forgotten


class TimeLag:
    """One source of one run. `since` is None until it has reached what was there at first."""

    def __init__(self) -> None:
        self._ahead: deque[tuple[float, Offsets]] = deque()
        self._newest: Offsets | None = None
        self.since: float | None = None

    def progressed(self, started: float, ends: Offsets, log_ends: Offsets) -> None:
        """Take in a batch: when its trigger began, where it ended, and where its logs did."""
        # The same ends once more are no later look: Trigger.AvailableNow looks once, at its start.
        if log_ends != self._newest:
            self._ahead.append((started, log_ends))
            self._newest = log_ends
        while self._ahead and _covers(ends, self._ahead[0][1]):
            self.since = self._ahead.popleft()[0]
        if len(self._ahead) > _KEPT:
            # What is forgotten makes the bound coarser, never wrong.
            self._ahead = deque(list(self._ahead)[::2])

    def lag(self, now: float) -> float | None:
        """Seconds; 0 when the newest batch took all there was, None when nothing is known."""
        if not self._ahead:
            return None if self.since is None else 0.0
        return None if self.since is None else max(0.0, now - self.since)


def _covers(ends: Offsets, log_ends: Offsets) -> bool:
    return ends is log_ends or all(ends.get(tp, 0) >= end for tp, end in log_ends.items())
