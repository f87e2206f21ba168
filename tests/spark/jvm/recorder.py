"""A receiver of events that keeps them, and the listener to add to a session for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from eo_listener.spark.jvm.event_listener import wrap
from eo_listener.spark.jvm.running_query import RunningQuery


class Recorder:
    """A receiver that keeps what it is told, and fails where it is told to."""

    def __init__(self, fail_in: str | None = None) -> None:
        self.queries: list[RunningQuery] = []
        self.begun: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.run_ids_idle: list[str] = []
        self.run_ids_ended: list[str] = []
        self._fail_in = fail_in

    def _note(self, method: str) -> None:
        if method == self._fail_in:
            raise ValueError(f"planted in {method}")

    def hold(self, query: RunningQuery) -> None:
        self.queries.append(query)
        self._note("hold")

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        assert [run_id] == [query.run_id for query in self.queries[-1:]], "it is held by now"
        self.begun.append((query_id, run_id, name))
        self._note("started")

    def progressed(self, text: str) -> None:
        self.texts.append(text)
        self._note("progressed")

    def idle(self, run_id: str) -> None:
        self.run_ids_idle.append(run_id)
        self._note("idle")

    def ended(self, run_id: str) -> None:
        self.run_ids_ended.append(run_id)
        self._note("ended")


class Forwarding(StreamingQueryListener):
    """A listener as the product's: only its Java side is used."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - the name is Spark's
        raise AssertionError("pyspark's own way was taken")

    onQueryProgress = onQueryIdle = onQueryTerminated = onQueryStarted  # noqa: N815 - Spark's names

    @property
    def _jlistener(self) -> Any:
        return self._java


@contextmanager
def listening(recorder: Recorder, spark: SparkSession) -> Iterator[Recorder]:
    """Have a receiver told of all queries of a session."""
    listener = Forwarding(wrap(recorder, recorder.hold, spark))
    spark.streams.addListener(listener)
    try:
        yield recorder
    finally:
        spark.streams.removeListener(listener)
