"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE = 0.1


def until(condition: Callable[[], object], seconds: float = 60.0, what: str = "") -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what or "it did not happen in time"
        time.sleep(PAUSE)
