"""The thread that reads one checkpoint, again and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from eo_listener.follow.checkpoint_tracker import CheckpointTracker, Step
from eo_listener.follow.reading import read_once
from eo_listener.spark.checkpoint import Checkpoint

_REREAD_AFTER = 1.0  # seconds before a doubtful reading is repeated, where there is only one
_AFTER_FAULT = 30.0  # seconds

logger = logging.getLogger("eo_listener")


class CheckpointPoller:
    """Reads a checkpoint and hands on what is to be done; one thread, and never two.

    `act` is called on that thread. A read takes as long as its storage does: so it holds up
    nobody else.
    """

    def __init__(
        self, checkpoint: Checkpoint, tracker: CheckpointTracker, act: Callable[[Step], None]
    ) -> None:
        self.checkpoint = checkpoint
        self._tracker = tracker
        self._act = act
        self._stop = threading.Event()
        self._read_started: float | None = None
        self._thread: threading.Thread | None = None
        self.fault: Exception | None = None

    def start(self, *, once: bool = False) -> None:
        """Start to read, until `stop`; with `once` read until one reading is certain."""
        if self._thread is not None:
            raise RuntimeError("a poller is started once")
        self._thread = threading.Thread(
            target=self._run_once if once else self._run,
            name=f"eo-listener-follow {self.checkpoint.location}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stop.set()

    def join(self, deadline: float) -> bool:
        """Wait for the thread until the monotonic clock passes `deadline`; say whether it ended."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._thread is None or not self._thread.is_alive()

    def unanswered_for(self) -> float:
        """For how many seconds the storage has not answered; 0 when it is not asked."""
        since = self._read_started
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = self._read()

    def _run_once(self) -> None:
        """Read once, and once more when the first reading was doubtful."""
        try:
            reading = read_once(self.checkpoint)
            if self._tracker.doubtful(reading):
                self._stop.wait(_REREAD_AFTER)
                reading = read_once(self.checkpoint)
            self._act(self._tracker.on_reading(reading, time.monotonic(), final=True))
        except Exception as fault:  # noqa: BLE001  # see the next line
            self.fault = fault  # raised again by who asked: on this thread nobody would hear it

    def _read(self) -> float:
        self._read_started = time.monotonic()
        try:
            reading = read_once(self.checkpoint)
            self._read_started = None
            if self._stop.is_set():
                return 0.0
            step = self._tracker.on_reading(reading, time.monotonic())
            self._act(step)
        except Exception:
            # A fault of ours: this thread must outlive it, or its query goes uncommitted.
            logger.exception("eo_listener could not read checkpoint %s", self.checkpoint.location)
            return _AFTER_FAULT
        finally:
            self._read_started = None
        return step.pause
