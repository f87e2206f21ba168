"""Spark's JVM: the only place that touches py4j, whose objects have no types.

Nothing here reads or writes Kafka, and nothing here decides anything.
"""

from eo_listener.jvm.bus import drain
from eo_listener.jvm.listener import Receiver, wrap
from eo_listener.jvm.queries import RunningQuery, find
from eo_listener.jvm.sources import SourceOptions, source_options

__all__ = [
    "Receiver",
    "RunningQuery",
    "SourceOptions",
    "drain",
    "find",
    "source_options",
    "wrap",
]
