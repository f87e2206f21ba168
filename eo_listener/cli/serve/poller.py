"""A thread that makes readings at an interval, independent of the number of clients."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_PAUSE: Final = 0.5  # seconds between two readings at least, even if a reading takes long
STUCK: Final = 180.0
"""Seconds after which a reading counts as stuck, unless it may take longer to read tables."""

logger = logging.getLogger("eo_listener")


class Poller:
    """Calls `read` every `every` seconds, and for the first time after `wait` seconds.

    If `read` raises an unexpected error, the poller passes a text about the error to `failed`, and
    continues. A reading that takes longer than `stuck` seconds is a `problem`.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], None],
        failed: Callable[[str], None],
        *,
        every: float,
        wait: float = 0.0,
        stuck: float = STUCK,
    ) -> None:
        self.name = name
        self._stuck = stuck
        self._read, self._failed = read, failed
        self._every, self._wait = every, wait
        self._stop = threading.Event()
        self._since: float | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"eo-listener-serve-{name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float, interrupt: Callable[[], None]) -> bool:
        """Stop reading; return True if a reading in progress has ended within `seconds`.

        The method calls `interrupt` to end the wait of a reading in progress.
        """
        self._stop.set()
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            interrupt()
            self._thread.join(0.2)
        return not self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """The reason why the readings have stopped, or None if they have not."""
        since = self._since
        if not self._thread.is_alive() and not self._stop.is_set():
            return f"the thread that reads the {self.name} has ended"
        if since is not None and (waited := time.monotonic() - since) > self._stuck:
            return f"a reading of the {self.name} has taken {waited:.0f} s and has not ended"
        return None

    def _run(self) -> None:
        wait = self._wait
        while not self._stop.wait(wait):
            self._since = began = time.monotonic()
            try:
                self._read()
            except Exception as fault:
                if self._stop.is_set():  # the reading was interrupted
                    return
                logger.exception("a fault in eo-listener, in reading the %s", self.name)
                self._failed(f"a fault in eo-listener: {type(fault).__name__}")
            self._since = None
            wait = max(_PAUSE, began + self._every - time.monotonic())
