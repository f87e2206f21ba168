"""The driver's JVM beside this Python, as a listener needs it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from eo_listener.spark.jvm.bus import drain
from eo_listener.spark.jvm.event_listener import Receiver, wrap
from eo_listener.spark.jvm.query_reader import LiveQueries
from eo_listener.spark.jvm.shim_client import JvmShimClient


class Driver:
    """Delivers Spark's events, answers for running queries, and lends its hands."""

    def __init__(self) -> None:
        self.queries = LiveQueries()
        self.hands = JvmShimClient()
        self._java_listener: Any = None
        self._session: SparkSession | None = None

    def listener(self, receiver: Receiver) -> Any:
        """Return what classic PySpark registers in the JVM; the same for the same session.

        Raises JvmError when there is no session.
        """
        session = SparkSession._instantiatedSession  # noqa: SLF001  # as pyspark itself asks
        if self._java_listener is None or session is not self._session:
            self._java_listener = wrap(receiver, session)
            self._session = session
            if session is not None:
                self.queries.attach(session)
        return self._java_listener

    def drain(self, timeout: float) -> bool:
        """Wait until all events sent so far were delivered; True where nothing is listened to."""
        return self._session is None or drain(self._session, timeout)
