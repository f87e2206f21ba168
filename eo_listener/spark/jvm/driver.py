"""The driver's JVM beside this Python, as a listener needs it."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

from eo_listener.spark.jvm.calls import FAILURES
from eo_listener.spark.jvm.event_listener import Receiver, wrap
from eo_listener.spark.jvm.query_reader import LiveQueries
from eo_listener.spark.jvm.shim_client import JvmShimClient

_GRACE = 0.5  # seconds that the JVM's answer may come later than its own time limit


def drain(session: SparkSession, timeout: float) -> bool:
    """Wait until every event sent so far was delivered; say whether that is so.

    At most `timeout` seconds and a little. False also when the JVM has gone, or no longer
    answers; never raises for that.
    """
    context = getattr(session, "_jsc", None)
    if context is None:  # Spark Connect: the bus is in another process
        return False
    drained: list[bool] = []
    # On a thread of its own: py4j waits for an answer without limit, and a JVM that is stopped
    # would keep the interpreter from ending.
    waiter = threading.Thread(
        target=_wait, args=(context, timeout, drained), name="eo-listener-drain", daemon=True
    )
    try:
        waiter.start()
    except RuntimeError:  # Python 3.12.0 and 3.12.1 start no thread at exit: then without a limit
        _wait(context, timeout, drained)
    else:
        waiter.join(timeout + _GRACE)
    return bool(drained)


def _wait(context: Any, timeout: float, drained: list[bool]) -> None:
    try:
        context.sc().listenerBus().waitUntilEmpty(max(1, int(timeout * 1000)))
    except FAILURES:  # the time is over, or there is no JVM to ask: not drained, either way
        return
    drained.append(True)


class Driver:
    """Delivers Spark's events, answers for running queries, and calls the shim."""

    def __init__(self) -> None:
        self.queries = LiveQueries()
        self.shim_client = JvmShimClient()
        self._java_listener: Any = None
        self._session: SparkSession | None = None

    def listener(self, receiver: Receiver) -> Any:
        """Return what classic PySpark registers in the JVM; the same for the same session.

        Raises JvmError when there is no session.
        """
        session = SparkSession._instantiatedSession  # noqa: SLF001  # as pyspark itself asks
        if self._java_listener is None or session is not self._session:
            self._java_listener = wrap(receiver, self.queries.hold, session)
            self._session = session
            if session is not None:
                self.queries.attach(session)
        return self._java_listener

    def drain(self, timeout: float) -> bool:
        """Wait until all events sent so far were delivered; True where nothing is listened to."""
        return self._session is None or drain(self._session, timeout)
