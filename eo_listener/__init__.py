"""Knowing, and proving, where Spark Structured Streaming stands in Kafka."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eo_listener.version import __version__

if TYPE_CHECKING:
    from eo_listener.listener import OffsetCommitListener
    from eo_listener.session import configure

__all__ = ["OffsetCommitListener", "__version__", "configure"]

# Loaded on first use: both need pyspark, which `eo-listener jar` and the like must not.
_HOMES = {"OffsetCommitListener": "eo_listener.listener", "configure": "eo_listener.session"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
