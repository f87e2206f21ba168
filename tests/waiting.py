"""Waiting for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE = 0.05
_T = TypeVar("_T")


def until(
    condition: Callable[[], _T | None],
    seconds: float = 60.0,
    what: object = "it did not happen in time",
    *,
    despite: type[Exception] | tuple[type[Exception], ...] = (),
) -> _T:
    """Wait until it holds, despite such errors, and return what it gave; if not, show `what`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except despite:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(PAUSE)
