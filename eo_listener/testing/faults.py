"""Causes faults in tests of sinks: programs that end at a fault point, and writers that race."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
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
    """Call `hook` with the name of each fault point that this process reaches."""
    fault_points.arm(hook)
    try:
        yield
    finally:
        fault_points.arm(None)


@contextmanager
def broken_off(point: str, error: BaseException | type[BaseException] = Killed) -> Iterator[None]:
    """Raise `error` whenever this process reaches the fault point `point`."""

    def hook(name: str) -> None:
        if name == point:
            raise error

    with hooked(hook):
        yield


def race(sinks: Sequence[Sink], frames: Sequence[Any], entries: Sequence[Entry]) -> list[bool]:
    """Have all sinks write at the same time; return True for each sink that has written.

    The result has False for a sink that refuses its entry. Raises any other error of a sink.
    """
    start = threading.Barrier(len(sinks))
    won: list[bool] = [False] * len(sinks)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        start.wait(30)
        try:
            won[number] = _insist(sinks[number], frames[number], entries[number])
        except BaseException as error:  # noqa: BLE001  # raised again by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(sinks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if any(thread.is_alive() for thread in threads):
        raise AssertionError("a writer waits forever")
    if failed:
        raise failed[0]
    return won


def _insist(sink: Sink, frame: Any, entry: Entry) -> bool:
    """Write `entry`, and try again after each conflict; return False if the sink refuses it."""
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
