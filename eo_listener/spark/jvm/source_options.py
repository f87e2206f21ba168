"""The reader options of a running query's Kafka sources.

They come from the shim in one call, or without it by asking Spark's objects one by one. Both
ways do the same steps; the Java class SourceInspector says why they are right.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from eo_listener.errors import JvmError
from eo_listener.spark import shim
from eo_listener.spark.jvm.calls import asking, call
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    class_name,
    distinct_streams,
    elements,
    is_kafka,
)
from eo_listener.spark.shim import SourceOptions

_WHAT = "read the sources of the query"


def source_options(query: RunningQuery) -> tuple[SourceOptions, ...]:
    """Return the sources of `query` in the order of its progress events.

    To be called after its first progress event: before, the sources are not planned.
    Raises JvmError.
    """
    inspector = query.shim("SourceInspector")
    return by_reflection(query) if inspector is None else by_shim(query, inspector)


def by_shim(query: RunningQuery, inspector: Any) -> tuple[SourceOptions, ...]:
    """Ask the class of the shim: one round trip. Raises JvmError."""
    with asking(_WHAT):
        text = inspector.inspect(query.execution)
    return shim.sources(text)


def by_reflection(query: RunningQuery) -> tuple[SourceOptions, ...]:
    """Ask Spark's objects: some tens of round trips. Raises JvmError."""
    with asking(_WHAT):
        streams = distinct_streams(query.execution)
        if not streams:
            raise JvmError(
                f"Spark's JVM failed to {_WHAT}",
                cause="the query has not planned its sources yet",
            )
        options = _kafka_options(query.execution, [s for s in streams if is_kafka(s)])
        return tuple(
            SourceOptions(
                index=index,
                kafka=is_kafka(stream),
                options=MappingProxyType(_of(stream, options) if is_kafka(stream) else {}),
            )
            for index, stream in enumerate(streams)
        )


def _kafka_options(execution: Any, streams: list[Any]) -> list[tuple[Any, dict[str, str]]]:
    planned = list(elements(execution.logicalPlan().collectLeaves()))
    analyzed = list(elements(execution.analyzedPlan().collectLeaves()))
    matched = len(planned) == len(analyzed)
    found = []
    for place, leaf in enumerate(planned):
        stream = call(leaf, "stream") or call(leaf, "source")
        if stream is None or stream not in streams:
            continue
        relation = call(leaf, "relation")
        options = None if relation is None else call(relation, "options")
        if options is None and matched:
            options = call(analyzed[place], "extraOptions")
        if options is not None:
            found.append((stream, {str(k).lower(): str(v) for k, v in options.items()}))
    return found


def _of(stream: Any, options: list[tuple[Any, dict[str, str]]]) -> dict[str, str]:
    for owner, found in options:
        if owner == stream:
            return found
    raise JvmError(
        f"Spark's JVM failed to {_WHAT}",
        cause=f"cannot find the reader options of a {class_name(stream)}",
        fix="Pass the shim to Spark (the jar that `eo-listener jar` names)",
    )
