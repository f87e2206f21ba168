"""Helpers for commands that run until a signal: the log, and the signal."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def begin_log(level: int) -> None:
    """Print eo_listener's log, from `level` on, to standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("eo_listener").setLevel(level)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; a second signal ends the process.

    If no signal has come, the end of the block restores the earlier handlers.
    """
    stopped = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # Python's signature
        stopped.set()
        for handled in before:
            signal.signal(handled, signal.SIG_DFL)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        if not stopped.is_set():
            for number, handler in before.items():
                signal.signal(number, handler)
