"""Knowing, and proving, where Spark Structured Streaming stands in Kafka."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eo_listener.errors import MissingExtraError
from eo_listener.version import __version__

if TYPE_CHECKING:
    from eo_listener.foreach_batch import exactly_once
    from eo_listener.listener import OffsetCommitListener
    from eo_listener.session import configure
    from eo_listener.sinks.postgres import PostgresSink
    from eo_listener.sinks.sqlite import SqliteSink
    from eo_listener.starting import starting_offsets

__all__ = [
    "OffsetCommitListener",
    "PostgresSink",
    "SqliteSink",
    "__version__",
    "configure",
    "exactly_once",
    "starting_offsets",
]

# Loaded on first use: most need pyspark, which `eo-listener jar` and the like must not.
_HOMES = {
    "OffsetCommitListener": "eo_listener.listener",
    "PostgresSink": "eo_listener.sinks.postgres",
    "SqliteSink": "eo_listener.sinks.sqlite",
    "configure": "eo_listener.session",
    "exactly_once": "eo_listener.foreach_batch",
    "starting_offsets": "eo_listener.starting",
}
_EXTRAS = {"psycopg": "postgres", "pyarrow": "sqlite", "pyspark": "spark", "py4j": "spark"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ImportError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking not in _EXTRAS:
            raise
        raise MissingExtraError(name, package=lacking, extra=_EXTRAS[lacking]) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
