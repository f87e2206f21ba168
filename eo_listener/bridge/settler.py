"""Tells the JVM of runs that need no more care: it keeps what they told, for another bridge."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_PATIENCE: Final = 5.0
_PAUSE: Final = 0.2


class Settler:
    """Waits until what ended runs have reached is committed, and then says that it is.

    A bridge that dies before leaves its successor all it needs to commit it.
    """

    def __init__(self, confirmed: Callable[[float], bool], settled: Callable[[str], None]) -> None:
        self._confirmed = confirmed
        self._settled = settled
        self._runs: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="eo-listener-settler", daemon=True).start()

    def add(self, run_id: str) -> None:
        """A run has ended, and all it has reached was offered. Returns at once."""
        with self._changed:
            self._runs.append(run_id)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._runs:
                    self._changed.wait()
                runs, self._runs = self._runs, []
            while not self._confirmed(time.monotonic() + _PATIENCE):
                time.sleep(_PAUSE)
            for run_id in runs:
                self._settled(run_id)
