"""Judges a group's lag over several readings: Burrow's verdicts, and the time to drain. No I/O.

The rules are those of Burrow's evaluator (Lag Evaluation Rules), which need no threshold. Burrow
reads each commit with its time; this module infers a commit if offset or metadata differ between
two readings, and gives it the time of the second reading.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

COMMITS: Final = 10
"""The number of commits in a window, like Burrow's `intervals`."""

_READINGS: Final = 10  # without a commit, before a group counts as stopped
_FEW: Final = 3  # commits before a verdict that lag does not decrease


class LagVerdict(Enum):
    """The verdicts on a partition's commits, from the mildest to the gravest."""

    OK = "OK"
    WARN = "WARN"
    STALL = "STALL"
    STOP = "STOP"
    REWIND = "REWIND"

    @property
    def gravity(self) -> int:
        """The rank of the verdict: the greater, the graver."""
        return list(LagVerdict).index(self)


class SeenCommit(NamedTuple):
    """A commit: the time of the reading that found it (monotonic), its offset, metadata and lag."""

    at: float
    offset: int
    metadata: str
    lag: int


class LagWindow:
    """The last commits of one partition of a group."""

    def __init__(self) -> None:
        self._commits: deque[SeenCommit] = deque(maxlen=COMMITS)
        self._idle = 0  # readings since the last commit
        self._last: tuple[float, int] | None = None

    def add(self, at: float, offset: int, metadata: str, lag: int) -> None:
        """Add a reading; `at` is its time in monotonic seconds."""
        before = self._commits[-1] if self._commits else None
        if before is None or (before.offset, before.metadata) != (offset, metadata):
            self._commits.append(SeenCommit(at, offset, metadata, lag))
            self._idle = 0
        else:
            self._idle += 1
        self._last = at, lag

    @property
    def verdict(self) -> LagVerdict | None:
        """Burrow's verdict, or None if there were too few readings for a verdict."""
        if self._last is None:
            return None
        commits = list(self._commits)
        offsets = [commit.offset for commit in commits]
        if self._last[1] <= 0:
            return LagVerdict.OK
        if any(later < earlier for earlier, later in pairwise(offsets)):
            return LagVerdict.REWIND
        quiet = self._last[0] - commits[-1].at
        if self._idle >= _READINGS and quiet > commits[-1].at - commits[0].at:
            return LagVerdict.STOP
        if any(commit.lag <= 0 for commit in commits):
            return LagVerdict.OK
        if len(commits) < _FEW:
            return None
        if offsets[0] == offsets[-1]:
            return LagVerdict.STALL
        lags = [commit.lag for commit in commits]
        if all(later >= earlier for earlier, later in pairwise(lags)):
            return LagVerdict.WARN
        return LagVerdict.OK

    @property
    def quiet(self) -> float | None:
        """The seconds since the last commit, or None if no reading has found a new commit yet."""
        if self._last is None or len(self._commits) < 2:  # the first commit was already there
            return None
        return self._last[0] - self._commits[-1].at


def gravest(verdicts: list[LagVerdict | None]) -> LagVerdict | None:
    """Return the gravest of the partitions' `verdicts`, or None if it is not known yet."""
    ranked = {verdict for verdict in verdicts if verdict is not None}
    worst = max(ranked, key=lambda verdict: verdict.gravity, default=None)
    return None if worst is LagVerdict.OK and None in verdicts else worst


class LagTrend:
    """The total lag of a group over time."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque(maxlen=COMMITS + 1)

    def add(self, at: float, lag: int) -> None:
        """Add a reading; `at` is its time in monotonic seconds."""
        self._readings.append((at, lag))

    @property
    def drained_in(self) -> float | None:
        """The seconds until the lag is zero at the current rate; None if the lag does not fall."""
        if len(self._readings) < 2:
            return None
        (begun, first), (now, last) = self._readings[0], self._readings[-1]
        if last <= 0:
            return 0.0
        if now <= begun or last >= first:
            return None
        return last * (now - begun) / (first - last)
