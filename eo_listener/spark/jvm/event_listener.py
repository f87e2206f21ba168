"""The listener object that Spark's JVM calls for each event.

pyspark's own listener rebuilds every event field by field, with about 80 round trips on the thread
that all listeners share. This object needs one call, for the event's JSON text.
"""

from __future__ import annotations

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.spark.jvm.calls import SHIM_ROOT, asking, class_of
from eo_listener.spark.jvm.running_query import RunningQuery, shared_state

_KEPT: Final = 10_000  # as many as the shim keeps
_RUN: Final = re.compile(r'"runId"\s*:\s*"([^"]+)"')


class RunClaims:
    """Claims each run for this listener, once. Does nothing without the shim.

    The shim leaves the commits of a claimed run to this listener. When a run begins, the shim waits
    a second for the claim. If a run was active before the listener was added, the shim commits the
    run's offsets until this listener gets the run's first event.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._claimed: OrderedDict[str, None] = OrderedDict()

    def take(self, run_id: str) -> None:
        """Claim a run. Raises JvmError."""
        if run_id in self._claimed:
            return
        self._claimed[run_id] = None
        if len(self._claimed) > _KEPT:
            self._claimed.popitem(last=False)
        with asking("assign a run to this listener"):
            if self._claim is not None:
                self._claim(run_id)

    @cached_property
    def _claim(self) -> Any:
        """The shim's method `claim`, or None if the shim is not loaded."""
        listener = class_of(self._jvm, f"{SHIM_ROOT}.OffsetCommitListener")
        return None if listener is None else listener.claim

    def take_from(self, progress: str) -> None:
        """Claim the run that a progress event names. Raises JvmError."""
        run = _RUN.search(progress)
        if run is not None:
            self.take(run[1])


logger = logging.getLogger("eo_listener")

_BEFORE_PROGRESS: Final = '{"progress":'


class Receiver(Protocol):
    """Receives events on a thread of Spark, so every method must return immediately."""

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Handle a new run on the query's thread, without I/O.

        The run's sources do not exist yet.
        """

    def progressed(self, text: str) -> None:
        """Handle the end of a batch; `text` is the JSON of its StreamingQueryProgress."""

    def idle(self, run_id: str) -> None:
        """Handle the report that a run had no new data."""

    def ended(self, run_id: str) -> None:
        """Handle the end of a run."""


def wrap(
    receiver: Receiver, hold: Callable[[RunningQuery], None], session: SparkSession | None = None
) -> Any:
    """Return the Java listener that passes its events to `receiver`.

    The listener calls `hold` with each query that begins, before it calls `receiver`: otherwise a
    query that ends at once would be gone before anybody could read its options or position. The
    call of `hold` runs on the query's own thread, so `hold` must do no I/O.

    The result is the value for `_jlistener` of a StreamingQueryListener. Without `session`, the
    function uses the first session of the process. Raises JvmError if there is no session in this
    process.
    """
    session = session or SparkSession._instantiatedSession  # noqa: SLF001 - getActiveSession is None on other threads
    gateway, jvm = SparkContext._gateway, SparkContext._jvm  # noqa: SLF001 - no public way to them
    if session is None or gateway is None or jvm is None:
        raise JvmError(
            "there is no Spark session to listen to",
            cause="no session was started in this process, or it was stopped",
            fix="Start the session first, then add the listener to spark.streams",
        )
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # pyspark leaves it untyped
    callback = _Callback(receiver, hold, shared_state(session), jvm)
    wrapper: Any = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    return wrapper(callback)


def _contained(method: Callable[[_Callback, Any], None]) -> Callable[[_Callback, Any], None]:
    """Keep exceptions of `method` in Python, and log only the first of each type.

    In the JVM, an exception would become a stack trace in Spark's log for every event, on the
    thread that all listeners share, and for `onQueryStarted` on the query's thread.
    """

    def guarded(callback: _Callback, event: Any) -> None:
        try:
            method(callback, event)
        except Exception as error:  # noqa: BLE001 - the query must go on after any error: see above
            callback.failed(method.__name__, error)

    return guarded


class _Callback:
    """Implements Spark's PythonStreamingQueryListener."""

    class Java:
        """Tells py4j for which Java interface to make a proxy."""

        implements: ClassVar[list[str]] = [
            "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
        ]

    def __init__(
        self, receiver: Receiver, hold: Callable[[RunningQuery], None], state: Any, jvm: Any
    ) -> None:
        self._receiver = receiver
        self._hold = hold
        self._state = state
        self._jvm = jvm
        self._claims = RunClaims(jvm)
        self._logged: set[tuple[str, type[Exception]]] = set()

    @_contained
    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - the name is Spark's
        execution = self._state.activeStreamingQueries().get(event.id())
        fields = json.loads(event.json())
        if execution is None or str(execution.runId().toString()) != fields["runId"]:
            raise JvmError(f"Query {fields['id']} has started, but Spark does not list it")
        query = RunningQuery(
            query_id=fields["id"],
            run_id=fields["runId"],
            name=fields.get("name"),
            execution=execution,
            jvm=self._jvm,
        )
        self._hold(query)
        self._receiver.started(query.query_id, query.run_id, query.name)
        self._claims.take(query.run_id)

    @_contained
    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - the name is Spark's
        text = unwrapped(event.json())
        self._receiver.progressed(text)
        self._claims.take_from(text)

    @_contained
    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - the name is Spark's
        self._receiver.idle(json.loads(event.json())["runId"])

    @_contained
    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - the name is Spark's
        self._receiver.ended(json.loads(event.json())["runId"])

    def failed(self, method: str, error: Exception) -> None:
        """Log an exception that must not reach the JVM, only the first of each method and type."""
        kind = (method, type(error))
        if kind not in self._logged:
            self._logged.add(kind)
            logger.error(
                "%s failed; the query continues, and this is not logged again",
                method,
                exc_info=error,
            )


def unwrapped(text: str) -> str:
    """Return the StreamingQueryProgress inside the JSON of a QueryProgressEvent."""
    if text.startswith(_BEFORE_PROGRESS) and text.endswith("}}"):
        return text[len(_BEFORE_PROGRESS) : -1]
    return json.dumps(json.loads(text)["progress"])
