"""Causes faults in tests of sinks: programs that end at a fault point, and writers that race."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from eo_listener.errors import ForeignWriterError, OutcomeUnknownError, SinkError
from eo_listener.model import fault_points
from eo_listener.model.ledger import Entry
from eo_listener.model.protocols import Sink
from eo_listener.testing.made_up_entries import plan_of


class Killed(BaseException):
    """Simulates the end of the process. Code that catches this exception must raise it again."""


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """In the block, call `hook` with the name of each fault point that this process reaches."""
    fault_points.arm(hook)
    try:
        yield
    finally:
        fault_points.arm(None)


@contextmanager
def broken_off(point: str, error: BaseException | type[BaseException] = Killed) -> Iterator[None]:
    """In the block, raise `error` whenever this process reaches the fault point `point`."""

    def hook(name: str) -> None:
        if name == point:
            raise error

    with hooked(hook):
        yield


def race(sinks: Sequence[Sink], frames: Sequence[Any], entries: Sequence[Entry]) -> list[bool]:
    """Have all sinks write at the same time; return, for each sink, whether it has written.

    A sink that refuses its entry has not written. Raises any other error of a sink.
    """
    start = threading.Barrier(len(sinks))

    def run(sink: Sink, frame: Any, entry: Entry) -> bool:
        start.wait(30)
        return _insist(sink, frame, entry)

    writers = ThreadPoolExecutor(len(sinks))
    try:
        return list(writers.map(run, sinks, frames, entries, timeout=120))
    finally:
        writers.shutdown(wait=False)  # a writer may wait forever


def _insist(sink: Sink, frame: Any, entry: Entry) -> bool:
    """Write `entry`, if necessary again after conflicts; return False if the sink refuses it."""
    for _ in range(50):
        try:
            sink.apply(frame, entry, plan_of(entry))
        except ForeignWriterError:
            return False
        except OutcomeUnknownError:
            raise
        except SinkError:
            continue
        return True
    raise AssertionError(f"{sink.label} neither writes nor refuses")
