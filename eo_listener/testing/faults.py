"""Break a program off at one of its fault points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eo_listener.model import fault_points


class Killed(BaseException):
    """Stands for the end of the process: what catches it must let it go on."""


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
    """Raise `error` wherever `point` is reached."""

    def hook(name: str) -> None:
        if name == point:
            raise error

    with hooked(hook):
        yield
