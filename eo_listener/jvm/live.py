"""The running queries that were seen to start, for as long as somebody may ask about them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from pyspark.sql import SparkSession

from eo_listener.errors import JvmError
from eo_listener.jvm.queries import RunningQuery, find
from eo_listener.jvm.sources import source_options

_KEPT = 1000  # a bound for runs whose end was never told: each holds a query's plan in the JVM


class LiveSources:
    """The `SourceReader` of classic PySpark: asks the query itself, also when it has just ended.

    A query is held from its start until its options were read, so that one that is over in a
    moment (`availableNow`) can still be asked.
    """

    def __init__(self) -> None:
        self._started: OrderedDict[str, RunningQuery] = OrderedDict()
        self._session: SparkSession | None = None

    def attach(self, session: SparkSession) -> None:
        """Ask this session for queries that were running before the listener was added."""
        self._session = session

    def started(self, query: RunningQuery) -> None:
        """Hold a query; returns at once."""
        self._started[query.run_id] = query
        while len(self._started) > _KEPT:
            self._started.popitem(last=False)

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        """Reader options of the Kafka sources by index. Raises JvmError."""
        query = self._started.get(run_id)
        if query is None and self._session is not None:
            query = find(self._session, query_id, run_id)
        if query is None:
            raise JvmError(
                f"query {query_id} is not running in this driver",
                cause="it has ended, or it runs in another process (Spark Connect)",
            )
        options = {source.index: source.options for source in source_options(query) if source.kafka}
        self.forget(run_id)
        return options

    def forget(self, run_id: str) -> None:
        """Let go of a query."""
        self._started.pop(run_id, None)
