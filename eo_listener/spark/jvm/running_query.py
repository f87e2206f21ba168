"""Reads a running query: its streams, their options, its execution mode, and its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.spark import shim
from eo_listener.spark.jvm.calls import SHIM_PACKAGE, asking, call, class_of
from eo_listener.spark.shim import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningQuery:
    """One run of a query. It can be read even after its end, because it holds Spark's object."""

    query_id: str
    run_id: str
    name: str | None
    execution: Any = field(repr=False)  # Spark's StreamExecution
    jvm: Any = field(repr=False)

    @classmethod
    def from_execution(cls, execution: Any, jvm: Any) -> RunningQuery:
        """Return the run of the JVM object `execution`; raises the errors of py4j."""
        name = execution.name()
        return cls(
            query_id=str(execution.id().toString()),
            run_id=str(execution.runId().toString()),
            name=None if name is None else str(name),
            execution=execution,
            jvm=jvm,
        )

    def batch(self) -> int:
        """Return the number of the running or next batch, or -1 if there is no batch yet.

        Raises the errors of py4j.
        """
        context = call(self.execution, "getLatestExecutionContext")
        if context is not None:  # from Spark 4.0 on, the batch has the number, not the query
            return int(context.batchId())
        return int(self.execution.currentBatchId())

    def has_ended(self) -> bool:
        """Return True if the run has ended, or its SparkContext has stopped. Raises JvmError.

        After the SparkContext has stopped, an idle query stays active for a while. Then no event
        reports the query's end, since Spark's event bus has stopped too.
        """
        with asking("check if a query is still running"):
            if not self.execution.isActive():
                return True
            return bool(self.execution.sparkSession().sparkContext().isStopped())

    def shim(self, name: str) -> Any | None:
        """Return a class of the shim, or None if the shim is not loaded. Raises JvmError."""
        with asking("load a class of the shim"):
            return class_of(self.jvm, f"{SHIM_PACKAGE}.{name}")


def find(session: SparkSession, query_id: str, run_id: str) -> RunningQuery | None:
    """Return the running query with both ids, in any session, or None if there is none.

    Raises JvmError if Spark does not answer.
    """
    state = shared_state(session)
    jvm: Any = session._jvm  # noqa: SLF001 - pyspark offers no public way to its JVM
    with asking("list its running queries"):
        execution = state.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
        query = None if execution is None else RunningQuery.from_execution(execution, jvm)
    return query if query is not None and query.run_id == run_id else None


def shared_state(session: SparkSession) -> Any:
    """Return the Java object that all sessions of one SparkContext share. Raises JvmError."""
    java_session = getattr(session, "_jsparkSession", None)
    if java_session is None:
        raise JvmError(
            "this session has no JVM",
            cause="it is a Spark Connect session",
            fix="Use a classic session in the driver's process",
        )
    with asking("read the shared state of its sessions"):
        return java_session.sharedState()


KAFKA_PACKAGE: Final = "org.apache.spark.sql.kafka010."


def elements(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala Seq, or nothing if `sequence` is None."""
    if sequence is not None:
        for place in range(sequence.size()):
            yield sequence.apply(place)


def streams(execution: Any) -> list[Any]:
    """Return the streams of the plan's leaves; a stream that is used twice is in the list twice.

    The list is empty until the query's own thread has computed `logicalPlan`. The list may be read
    at any time, but `logicalPlan` may not: it is lazy, and only that thread may compute it.
    """
    return list(elements(call(execution, "sources")))


def distinct_streams(execution: Any) -> list[Any]:
    """Return the streams in the order of a progress event, or [] before Spark has planned them."""
    sources = call(execution, "sources")
    return [] if sources is None else list(elements(sources.distinct()))


def is_kafka(stream: Any) -> bool:
    """Return True if a stream belongs to Spark's Kafka connector."""
    return class_name(stream).startswith(KAFKA_PACKAGE)


def class_name(stream: Any) -> str:
    """Return the full name of an object's class."""
    return str(stream.getClass().getName())


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
    """Return the execution mode of a query; may be called at any time.

    If a platform has its own query class, its superclass determines the mode. Raises JvmError.
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
        cause="this Spark is newer than this package, or a vendor's build",
        fix="Report this with the Spark version",
    )


def _class_names(execution: Any) -> Iterator[str]:
    kind = execution.getClass()
    while kind is not None:
        yield str(kind.getSimpleName())
        kind = kind.getSuperclass()


def _is_real_time(execution: Any) -> bool:
    trigger = call(execution, "trigger")
    return trigger is not None and trigger.getClass().getSimpleName() == _REAL_TIME


def beginnings(query: RunningQuery) -> Mapping[int, Offsets]:
    """Return the offsets at which the query's Kafka sources began, by index. Raises JvmError.

    Spark writes them to the checkpoint before the first batch. The result leaves out sources
    without such a file.
    """
    contents = {}
    with asking("read the offsets at which the query began"):
        execution, hadoop = query.execution, query.jvm.org.apache.hadoop.fs
        settings = execution.sparkSessionForStream().sessionState().newHadoopConf()
        for index, stream in enumerate(distinct_streams(execution)):
            path = hadoop.Path(str(execution.resolvedCheckpointRoot()), f"sources/{index}/0")
            files = path.getFileSystem(settings)
            if is_kafka(stream) and files.exists(path):
                file = files.open(path)
                contents[index] = bytes(file.readAllBytes())
                file.close()
    return shim.beginnings_of(contents)


_SOURCES_TASK: Final = "read the sources of the query"


def source_options(query: RunningQuery) -> tuple[SourceOptions, ...]:
    """Return the sources of `query` in the order of its progress events.

    The shim returns the sources in one call; without the shim, the function asks Spark's objects
    one by one. Both ways take the same steps; the Java class SourceInspector gives the reasons for
    them.

    Call the function after the first progress event: before that event, Spark has not planned the
    sources. Raises JvmError.
    """
    inspector = query.shim("SourceInspector")
    return options_by_reflection(query) if inspector is None else options_by_shim(query, inspector)


def options_by_shim(query: RunningQuery, inspector: Any) -> tuple[SourceOptions, ...]:
    """Return the sources from the shim's class, in one round trip. Raises JvmError."""
    with asking(_SOURCES_TASK):
        text = inspector.inspect(query.execution)
    return shim.sources(text)


def options_by_reflection(query: RunningQuery) -> tuple[SourceOptions, ...]:
    """Return the sources from Spark's objects, in tens of round trips. Raises JvmError."""
    with asking(_SOURCES_TASK):
        streams = distinct_streams(query.execution)
        if not streams:
            raise JvmError(
                f"Spark's JVM failed to {_SOURCES_TASK}",
                cause="the query has not planned its sources yet",
            )
        options = _kafka_options(query.execution, [s for s in streams if is_kafka(s)])
        return tuple(
            SourceOptions(
                index=index,
                kafka=is_kafka(stream),
                options=MappingProxyType(_options_of(stream, options) if is_kafka(stream) else {}),
            )
            for index, stream in enumerate(streams)
        )


def _kafka_options(execution: Any, streams: list[Any]) -> list[tuple[Any, dict[str, str]]]:
    planned = list(elements(execution.logicalPlan().collectLeaves()))
    analyzed = list(elements(execution.analyzedPlan().collectLeaves()))
    matched = len(planned) == len(analyzed)
    by_stream = []
    for place, leaf in enumerate(planned):
        stream = call(leaf, "stream") or call(leaf, "source")
        if stream is None or stream not in streams:
            continue
        relation = call(leaf, "relation")
        options = None if relation is None else call(relation, "options")
        if options is None and matched:
            options = call(analyzed[place], "extraOptions")
        if options is not None:
            by_stream.append((stream, {str(k).lower(): str(v) for k, v in options.items()}))
    return by_stream


def _options_of(stream: Any, options: list[tuple[Any, dict[str, str]]]) -> dict[str, str]:
    for owner, values in options:
        if owner == stream:
            return values
    raise JvmError(
        f"Spark's JVM failed to {_SOURCES_TASK}",
        cause=f"cannot find the reader options of a {class_name(stream)}",
        fix="Pass the shim to Spark (the jar that `eo-listener jar` names)",
    )


_POSITION_TASK = "read the completed offsets of the query"
_NOTHING: Final = LivePosition(batch_id=-1, committed=MappingProxyType({}))
_STARTING = ("Initializing", "Starting")  # the beginnings of a query's status text while it starts


def live_position(query: RunningQuery) -> LivePosition | None:
    """Return the query's durable position, or None while it restores its checkpoint.

    The shim returns the position in one call; without the shim, the function asks Spark's objects
    one by one. Both ways read the same values in the same order; the Java class PositionInspector
    gives the reasons for this order. The function takes no lock that the query needs. In
    asynchronous and continuous mode, it lists two folders of the checkpoint, and may read a file.
    Raises JvmError.
    """
    inspector = query.shim("PositionInspector")
    return by_reflection(query) if inspector is None else by_shim(query, inspector)


def by_shim(query: RunningQuery, inspector: Any) -> LivePosition | None:
    """Return the position from the shim's class, in one round trip. Raises JvmError."""
    with asking(_POSITION_TASK):
        text = inspector.inspect(query.execution)
    return shim.position(text)


def by_reflection(query: RunningQuery) -> LivePosition | None:
    """Return the position from Spark's objects, in 30 to 70 round trips. Raises JvmError."""
    mode = query_mode(query)
    with asking(_POSITION_TASK):
        execution = query.execution
        if not streams(execution):
            return None
        moved = not execution.committedOffsets().isEmpty()
        set_at_once = call(execution, "currentBatchId") is None
        if not (moved and set_at_once) and str(execution.status().message()).startswith(_STARTING):
            return None
        if not moved:
            fresh = mode is QueryMode.CONTINUOUS or query.batch() == 0
            return _NOTHING if fresh else None
        if mode in (QueryMode.ASYNC_PROGRESS, QueryMode.CONTINUOUS):
            return _on_disk(query)
        return _in_memory(query)


def _in_memory(query: RunningQuery) -> LivePosition:
    execution = query.execution
    context = call(execution, "getLatestExecutionContext")
    # Both from one context: compared with the start of the next batch, the end of this batch would
    # look like its start.
    start = None if context is None else context.startOffsets()
    batch = query.batch() if context is None else int(context.batchId())
    committed = execution.committedOffsets()
    ended = start is not None and not start.equals(committed)
    offsets = [(stream, committed.get(stream)) for stream in distinct_streams(execution)]
    return shim.position_of(batch if ended else batch - 1, _texts(execution, offsets))


def _on_disk(query: RunningQuery) -> LivePosition:
    log = query.execution.offsetLog()
    committed = query.execution.commitLog().listBatchesOnDisk()
    planned = log.listBatchesOnDisk()
    for place in reversed(range(len(committed))):
        batch = committed[place]
        if query.jvm.java.util.Arrays.binarySearch(planned, batch) >= 0:
            entry = log.get(batch).get()
            return shim.position_of(batch, _texts(query.execution, _logged(query.execution, entry)))
    return _NOTHING


def _logged(execution: Any, entry: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each stream with its offset in an entry of the offset log.

    The entry lists offsets in the order of all leaves of the plan, or (Spark 4.2, opt-in) by name.
    """
    named = call(entry, "offsetsMap")
    if named is None:
        yield from zip(streams(execution), elements(entry.offsets()), strict=False)
        return
    names = execution.sourceIdMap().iterator()
    while names.hasNext():
        name = names.next()
        yield name._2(), named.apply(name._1())  # noqa: SLF001 - Scala's names for parts of a pair


def _texts(execution: Any, offsets: Any) -> dict[int, str]:
    """Return the JSON of each Kafka offset (a Scala Option), by the index of its stream."""
    counted = distinct_streams(execution)
    return {
        counted.index(stream): str(offset.get().json())
        for stream, offset in offsets
        if offset.isDefined() and is_kafka(stream)
    }
