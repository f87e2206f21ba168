"""Show and prove how far Spark Structured Streaming has read in Kafka.

The public API is the names in `__all__`, and the documented names of the packages in `PUBLIC`.
Everything else may change in any version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from eo_listener.errors import MissingExtraError
from eo_listener.version import __version__

if TYPE_CHECKING:
    from eo_listener.foreach_batch.exactly_once import exactly_once
    from eo_listener.foreach_batch.starting_offsets.starting_offsets import starting_offsets
    from eo_listener.listener.offset_commit_listener import OffsetCommitListener
    from eo_listener.sinks.delta import DeltaSink
    from eo_listener.sinks.iceberg import IcebergSink, maintain_iceberg
    from eo_listener.sinks.kafka import KafkaSink
    from eo_listener.sinks.postgres import PostgresSink
    from eo_listener.sinks.sqlite import SqliteSink
    from eo_listener.spark.session.configure import configure

__all__ = [
    "DeltaSink",
    "IcebergSink",
    "KafkaSink",
    "OffsetCommitListener",
    "PostgresSink",
    "SqliteSink",
    "__version__",
    "configure",
    "exactly_once",
    "maintain_iceberg",
    "starting_offsets",
]

PUBLIC: Final = frozenset(
    {
        "eo_listener.audit",
        "eo_listener.errors",
        "eo_listener.events",
        "eo_listener.model",
        "eo_listener.observers",
        "eo_listener.offsets",
        "eo_listener.testing",
    }
)

# Imported on first use: most need pyspark, and commands such as `eo-listener jar` must not.
_HOMES = {
    "DeltaSink": "eo_listener.sinks.delta",
    "IcebergSink": "eo_listener.sinks.iceberg",
    "KafkaSink": "eo_listener.sinks.kafka",
    "OffsetCommitListener": "eo_listener.listener.offset_commit_listener",
    "PostgresSink": "eo_listener.sinks.postgres",
    "SqliteSink": "eo_listener.sinks.sqlite",
    "configure": "eo_listener.spark.session.configure",
    "exactly_once": "eo_listener.foreach_batch.exactly_once",
    "maintain_iceberg": "eo_listener.sinks.iceberg",
    "starting_offsets": "eo_listener.foreach_batch.starting_offsets.starting_offsets",
}
_EXTRAS = {"psycopg": "postgres", "pyspark": "spark", "py4j": "spark"}
_ARROW_EXTRAS = {
    "DeltaSink": "delta",
    "IcebergSink": "iceberg",
    "KafkaSink": "kafka",
    "PostgresSink": "postgres",
    "SqliteSink": "sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ImportError as error:
        lacking = (error.name or "").partition(".")[0]
        extra = _ARROW_EXTRAS.get(name) if lacking == "pyarrow" else _EXTRAS.get(lacking)
        if extra is None:
            raise
        raise MissingExtraError(name, package=lacking, extra=extra) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
