"""Open the observer for Prometheus, if the extra that it needs is installed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eo_listener.events import Event, Observer
from eo_listener.observers.metrics.address import LOOPBACK

if TYPE_CHECKING:
    from eo_listener.observers.metrics.prometheus import Prometheus

_lock = threading.Lock()
_opened: weakref.WeakSet[Prometheus] = weakref.WeakSet()


def open_metrics(port: int, address: str = LOOPBACK) -> Prometheus:
    """An observer whose numbers are served at `http://address:port/metrics` until it is closed.

    It counts every `exactly_once` of this process by itself. Port 0 takes a free one. Raises
    MissingExtraError without the extra, SettingsError if the port is out of range, and
    UnavailableError if the address cannot be listened on.
    """
    from eo_listener.observers.metrics.prometheus import Prometheus  # noqa: PLC0415  # needs the extra

    observer = Prometheus()
    observer.serve(port, address)
    with _lock:
        _opened.add(observer)
    return observer


class CountWhereServed:
    """An observer that counts in all that `open_metrics` has opened here and nobody has closed.

    So what a listener serves has the numbers of its process's sinks too. `besides` are observers
    that get the events anyhow.
    """

    def __init__(self, besides: Iterable[Observer]) -> None:
        self._besides = tuple(besides)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with _lock:
            opened = tuple(_opened)
        for observer in opened:
            if observer.port is not None and observer not in self._besides:
                observer(event)
