"""The error of the broker that developers run."""

from __future__ import annotations

from eo_listener.model.errors import UnavailableError


class BrokerError(UnavailableError):
    """The broker could not be started, or has ended by itself: the text names its log."""
