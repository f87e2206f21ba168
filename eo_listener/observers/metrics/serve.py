"""Opens the observer for Prometheus, if the extra `metrics` is installed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eo_listener.events import Event, Observer
from eo_listener.observers.bounded_server import LOOPBACK

if TYPE_CHECKING:
    from eo_listener.observers.metrics.prometheus import Prometheus

_lock = threading.Lock()
_opened: weakref.WeakSet[Prometheus] = weakref.WeakSet()


def open_metrics(port: int, address: str = LOOPBACK) -> Prometheus:
    """Return an observer that serves `http://address:port/metrics` until it is closed.

    The observer also counts the events of every `exactly_once` in this process. Port 0 means any
    free port. Raises MissingExtraError without the extra, SettingsError if the port is out of
    range, and UnavailableError if the server cannot listen on the address.
    """
    from eo_listener.observers.metrics.prometheus import Prometheus  # noqa: PLC0415  # an extra

    observer = Prometheus()
    observer.serve(port, address)
    with _lock:
        _opened.add(observer)
    return observer


class CountWhereServed:
    """An observer that passes events to every open observer of `open_metrics` in this process.

    So a listener's metrics include the sinks in its process. `besides` are observers that already
    get the events in another way.
    """

    def __init__(self, besides: Iterable[Observer]) -> None:
        self._besides = tuple(besides)

    def __call__(self, event: Event) -> None:
        """Pass on one event."""
        with _lock:
            opened = tuple(_opened)
        for observer in opened:
            if observer.port is not None and observer not in self._besides:
                observer(event)
