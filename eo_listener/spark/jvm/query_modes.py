"""How a live query makes its progress durable."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from eo_listener.model.errors import JvmError
from eo_listener.model.protocols import QueryMode
from eo_listener.spark.jvm.calls import asking, call
from eo_listener.spark.jvm.running_query import RunningQuery
from eo_listener.spark.jvm.streams import class_name

# Simple names: the classes moved to other packages in Spark 4.1.
_CLASSES: Final = MappingProxyType(
    {
        "AsyncProgressTrackingMicroBatchExecution": QueryMode.ASYNC_PROGRESS,
        "ContinuousExecution": QueryMode.CONTINUOUS,
        "MicroBatchExecution": QueryMode.MICRO_BATCH,
    }
)
_REAL_TIME: Final = "RealTimeTrigger"


def query_mode(query: RunningQuery) -> QueryMode:
    """Return the mode of a query; may be asked at any time.

    A platform's own class of query counts as the one that it extends. Raises JvmError.
    """
    with asking("read the execution mode of a query"):
        for name in _class_names(query.execution):
            mode = _CLASSES.get(name)
            if mode is QueryMode.MICRO_BATCH and _is_real_time(query.execution):
                return QueryMode.REAL_TIME
            if mode is not None:
                return mode
        kind = class_name(query.execution)
    raise JvmError(
        f"unknown execution class of the query: {kind}",
        cause="this Spark is newer than this package, or a vendor's own",
        fix="Report it with the Spark version",
    )


def _class_names(execution: Any) -> Iterator[str]:
    kind = execution.getClass()
    while kind is not None:
        yield str(kind.getSimpleName())
        kind = kind.getSuperclass()


def _is_real_time(execution: Any) -> bool:
    trigger = call(execution, "trigger")
    return trigger is not None and trigger.getClass().getSimpleName() == _REAL_TIME
