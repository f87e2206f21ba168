"""Spark's JVM: the only place that touches py4j, whose objects have no types.

Nothing here reads or writes Kafka, and nothing here decides anything; `groups` has the JVM do it,
by whichever `Hands`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eo_listener.jvm.bus import drain
    from eo_listener.jvm.hands import JvmHands
    from eo_listener.jvm.listener import Receiver, wrap
    from eo_listener.jvm.paths import qualified
    from eo_listener.jvm.plans import LivePlans
    from eo_listener.jvm.queries import RunningQuery, find
    from eo_listener.jvm.sources import source_options
    from eo_listener.jvm.tasks import task_ranges
    from eo_listener.shim_answers import SourceOptions

__all__ = [
    "JvmHands",
    "LivePlans",
    "Receiver",
    "RunningQuery",
    "SourceOptions",
    "drain",
    "find",
    "qualified",
    "source_options",
    "task_ranges",
    "wrap",
]

# Loaded on first use: they need pyspark, which the bridge has not, and `groups` does not need.
_HOMES = {
    "JvmHands": "eo_listener.jvm.hands",
    "LivePlans": "eo_listener.jvm.plans",
    "Receiver": "eo_listener.jvm.listener",
    "RunningQuery": "eo_listener.jvm.queries",
    "SourceOptions": "eo_listener.shim_answers",
    "drain": "eo_listener.jvm.bus",
    "find": "eo_listener.jvm.queries",
    "qualified": "eo_listener.jvm.paths",
    "source_options": "eo_listener.jvm.sources",
    "task_ranges": "eo_listener.jvm.tasks",
    "wrap": "eo_listener.jvm.listener",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
