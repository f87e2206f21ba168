"""Who is called with events."""

from __future__ import annotations

import logging
from collections.abc import Callable

from eo_listener.model.events import Event

Observer = Callable[[Event], None]
"""Called with every event, on the thread on which it happened; it must return quickly."""

logger = logging.getLogger("eo_listener")


class Observers:
    """The observers of one listener, follower or sink function, in their order; for any thread."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def notify(self, event: Event) -> None:
        """Call every observer with an event; one that raises does not keep it from the others."""
        for observer in self._observers:
            try:
                observer(event)
            except (Exception, SystemExit):  # the user's code: no commit and no batch may fail
                logger.exception("an observer of eo_listener failed on %s", type(event).__name__)
