"""Gives a listener access to the JVM of its driver."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.spark.jvm.calls import FAILURES, JvmShimClient
from eo_listener.spark.jvm.event_listener import Receiver, wrap
from eo_listener.spark.jvm.running_query import (
    RunningQuery,
    beginnings,
    find,
    live_position,
    query_mode,
    source_options,
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
