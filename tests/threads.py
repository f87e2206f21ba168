"""No test leaves a thread of ours behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def none_left(seconds: float = 15.0, *, but: str | None = None) -> Iterator[None]:
    """Fail when a thread of ours that began inside lives on, but for those of a library."""
    before = frozenset(threading.enumerate())
    yield
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith("eo-listener") and thread.name != but:
            thread.join(seconds)
            assert not thread.is_alive(), thread.name
