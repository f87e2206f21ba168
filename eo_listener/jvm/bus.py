"""Spark's listener bus, whose one thread delivers the events of all queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eo_listener.jvm.calls import FAILURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drain(session: SparkSession, timeout: float) -> bool:
    """Wait until every event sent so far was delivered; say whether that is so.

    At most `timeout` seconds. False also when the JVM has gone; never raises for that.
    """
    context = getattr(session, "_jsc", None)
    if context is None:  # Spark Connect: the bus is in another process
        return False
    try:
        context.sc().listenerBus().waitUntilEmpty(max(1, int(timeout * 1000)))
    except FAILURES:  # the time is over, or there is no JVM to ask: not drained, either way
        return False
    return True
