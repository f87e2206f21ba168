"""What a live query has made durable: what a restart would not read again.

It comes from the shim in one call, or without it by asking Spark's objects one by one. Both
ways ask the same in the same order; the Java class PositionInspector says why it is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.spark import shim
from eo_listener.spark.jvm.calls import asking, call
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    distinct_streams,
    elements,
    is_kafka,
    query_mode,
    streams,
)
from eo_listener.spark.shim import position_of

_WHAT = "read the offsets that the query has completed"
_NOTHING: Final = LivePosition(batch_id=-1, committed=MappingProxyType({}))
_STARTING = ("Initializing", "Starting")  # how the status of a query begins while it begins


def live_position(query: RunningQuery) -> LivePosition | None:
    """Return what is durable now, or None while the query restores its checkpoint.

    Takes no lock that the query needs. In asynchronous and continuous mode it lists two folders
    of the checkpoint and may read one file. Raises JvmError.
    """
    inspector = query.shim("PositionInspector")
    return by_reflection(query) if inspector is None else by_shim(query, inspector)


def by_shim(query: RunningQuery, inspector: Any) -> LivePosition | None:
    """Ask the class of the shim: one round trip. Raises JvmError."""
    with asking(_WHAT):
        text = inspector.inspect(query.execution)
    return shim.position(text)


def by_reflection(query: RunningQuery) -> LivePosition | None:
    """Ask Spark's objects: some tens of round trips. Raises JvmError."""
    mode = query_mode(query)
    with asking(_WHAT):
        execution = query.execution
        if not streams(execution):
            return None
        moved = not execution.committedOffsets().isEmpty()
        set_at_once = call(execution, "currentBatchId") is None
        if not (moved and set_at_once) and _is_starting(execution):
            return None
        if not moved:
            fresh = mode is QueryMode.CONTINUOUS or query.batch() == 0
            return _NOTHING if fresh else None
        if mode in (QueryMode.ASYNC_PROGRESS, QueryMode.CONTINUOUS):
            return _on_disk(query)
        return _in_memory(query)


def _is_starting(execution: Any) -> bool:
    return str(execution.status().message()).startswith(_STARTING)


def _in_memory(query: RunningQuery) -> LivePosition:
    execution = query.execution
    context = call(execution, "getLatestExecutionContext")
    # Both of one context: the next one's begin would make this batch's end look like its begin.
    start = None if context is None else context.startOffsets()
    batch = query.batch() if context is None else int(context.batchId())
    committed = execution.committedOffsets()
    ended = start is not None and not start.equals(committed)
    found = [(stream, committed.get(stream)) for stream in distinct_streams(execution)]
    return position_of(batch if ended else batch - 1, _texts(execution, found))


def _on_disk(query: RunningQuery) -> LivePosition:
    log = query.execution.offsetLog()
    committed = query.execution.commitLog().listBatchesOnDisk()
    planned = log.listBatchesOnDisk()
    for place in reversed(range(len(committed))):
        batch = committed[place]
        if query.jvm.java.util.Arrays.binarySearch(planned, batch) >= 0:
            entry = log.get(batch).get()
            return position_of(batch, _texts(query.execution, _logged(query.execution, entry)))
    return _NOTHING


def _logged(execution: Any, entry: Any) -> Iterator[tuple[Any, Any]]:
    """An entry of the offset log: by place among all leaves, or (Spark 4.2, opt-in) by name."""
    named = call(entry, "offsetsMap")
    if named is None:
        yield from zip(streams(execution), elements(entry.offsets()), strict=False)
        return
    names = execution.sourceIdMap().iterator()
    while names.hasNext():
        name = names.next()
        yield name._2(), named.apply(name._1())  # noqa: SLF001 - what Scala calls the parts of a pair


def _texts(execution: Any, found: Any) -> dict[int, str]:
    """The JSON of each offset (a Scala Option), by the index of its stream; Kafka only."""
    counted = distinct_streams(execution)
    return {
        counted.index(stream): str(offset.get().json())
        for stream, offset in found
        if offset.isDefined() and is_kafka(stream)
    }
