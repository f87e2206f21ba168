"""Gives a listener access to the JVM of its driver."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.spark import shim
from eo_listener.spark.jvm.calls import FAILURES, JvmShimClient, asking, call
from eo_listener.spark.jvm.event_listener import Receiver, wrap
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    beginnings,
    distinct_streams,
    elements,
    find,
    is_kafka,
    query_mode,
    source_options,
    streams,
)

_KEPT = 1000  # a limit for runs whose end is never reported: each holds a query's plan in the JVM


class LiveQueries:
    """The `QueryReader` of classic PySpark: asks the query itself, even if it has just ended.

    Spark releases a query that has ended, perhaps a moment after its start (`availableNow`). So the
    object holds each query from its start, or from the first request about it, until `forget`.

    A thread of Spark may call only the method `hold`.
    """

    def __init__(self) -> None:
        self._queries: OrderedDict[str, RunningQuery] = OrderedDict()
        self._session: SparkSession | None = None
        self._closed = False

    def attach(self, session: SparkSession) -> None:
        """Use `session` to find queries that were running before the listener was added."""
        self._session = session

    def hold(self, query: RunningQuery) -> None:
        """Hold a query; return at once. Does nothing after `close`."""
        if self._closed:
            return
        self._queries[query.run_id] = query
        while len(self._queries) > _KEPT:
            self._queries.popitem(last=False)

    def close(self) -> None:
        """Release all queries, and hold no new queries, even if the listener still gets events."""
        self._closed = True
        self._queries.clear()

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Return the reader options of the Kafka sources, by index. Raises JvmError."""
        query = self._query(query_id, run_id)
        return {source.index: source.options for source in source_options(query) if source.kafka}

    def mode(self, query_id: str, run_id: str) -> QueryMode:
        """Return the execution mode of the query. Raises JvmError."""
        return query_mode(self._query(query_id, run_id))

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        """Return the query's durable position, or None while it restores its checkpoint.

        Raises JvmError.
        """
        return live_position(self._query(query_id, run_id))

    def beginnings(self, query_id: str, run_id: str) -> Mapping[int, Offsets]:
        """Return the offsets at which the Kafka sources began, by index. Raises JvmError."""
        return beginnings(self._query(query_id, run_id))

    def has_ended(self, query_id: str, run_id: str) -> bool:
        """Return True if the run has ended, even if no event has reported it. Raises JvmError."""
        query = self._find(query_id, run_id)
        if query is None and self._session is None:
            raise _gone(query_id)
        return query is None or _is_orphaned(query) or query.has_ended()

    def forget(self, run_id: str) -> None:
        """Release the query of a run."""
        self._queries.pop(run_id, None)

    def _query(self, query_id: str, run_id: str) -> RunningQuery:
        query = self._find(query_id, run_id)
        if query is None:
            raise _gone(query_id)
        return query

    def _find(self, query_id: str, run_id: str) -> RunningQuery | None:
        query = self._queries.get(run_id)
        if query is None and self._session is not None:
            query = find(self._session, query_id, run_id)
            if query is not None:
                self.hold(query)
        return query


def _is_orphaned(query: RunningQuery) -> bool:
    """Return True if pyspark now uses another JVM: the query's own JVM has ended then."""
    session = SparkSession._instantiatedSession  # noqa: SLF001  # as pyspark itself asks
    now = None if session is None else _client_of(session._jvm)  # noqa: SLF001  # as before
    return now is not None and now is not _client_of(query.jvm)


def _client_of(jvm: Any) -> Any:
    """Return the py4j client that makes the calls to `jvm`."""
    return getattr(jvm, "_gateway_client", None)


def _gone(query_id: str) -> JvmError:
    return JvmError(
        f"query {query_id} is not running in this driver",
        cause="it has ended, or it runs in another process (Spark Connect)",
    )


_GRACE = 0.5  # seconds that the JVM's answer may come later than its own time limit


def drain(session: SparkSession, timeout: float) -> bool:
    """Wait until Spark's bus has delivered all events; return True if it has.

    Waits at most `timeout` + 0.5 s. The function also returns False, and raises no error, if the
    JVM has gone or no longer answers.
    """
    context = getattr(session, "_jsc", None)
    if context is None:  # Spark Connect: the bus is in another process
        return False
    drained: list[bool] = []
    # On a separate thread: py4j waits for an answer without limit, and a JVM that is stopped
    # would keep the interpreter from ending.
    waiter = threading.Thread(
        target=_wait, args=(context, timeout, drained), name="eo-listener-drain", daemon=True
    )
    try:
        waiter.start()
    except RuntimeError:  # Python 3.12.0 and 3.12.1 start no thread at exit: wait without a limit
        _wait(context, timeout, drained)
    else:
        waiter.join(timeout + _GRACE)
    return bool(drained)


def _wait(context: Any, timeout: float, drained: list[bool]) -> None:
    try:
        context.sc().listenerBus().waitUntilEmpty(max(1, int(timeout * 1000)))
    except FAILURES:  # the time is over, or there is no JVM
        return
    drained.append(True)


class Driver:
    """Delivers Spark's events, reads running queries, and calls the shim."""

    def __init__(self) -> None:
        self.queries = LiveQueries()
        self.shim_client = JvmShimClient()
        self._java_listener: Any = None
        self._session: SparkSession | None = None

    def listener(self, receiver: Receiver) -> Any:
        """Return the Java listener for classic PySpark, always the same for one session.

        Raises JvmError if there is no session.
        """
        session = SparkSession._instantiatedSession  # noqa: SLF001  # as pyspark itself asks
        if self._java_listener is None or session is not self._session:
            self._java_listener = wrap(receiver, self.queries.hold, session)
            self._session = session
            if session is not None:
                self.queries.attach(session)
        return self._java_listener

    def drain(self, timeout: float) -> bool:
        """Call `drain` for the session, and return its result, or True if there is no listener."""
        return self._session is None or drain(self._session, timeout)


_WHAT = "read the completed offsets of the query"
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
    with asking(_WHAT):
        text = inspector.inspect(query.execution)
    return shim.position(text)


def by_reflection(query: RunningQuery) -> LivePosition | None:
    """Return the position from Spark's objects, in 30 to 70 round trips. Raises JvmError."""
    mode = query_mode(query)
    with asking(_WHAT):
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
