"""A session, a listener that is closed again, and topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession

from eo_listener import OffsetCommitListener
from eo_listener.events import Event
from tests.broker import Broker
from tests.listener.queries import Queries
from tests.spark_session import spark
from tests.threads import none_left

__all__ = ["spark"]  # a fixture, here for the tests of this folder


_Kind = TypeVar("_Kind", bound=Event)


class Recording:
    """A listener on the session, and all events that it told."""

    def __init__(self, spark: SparkSession) -> None:
        self.events: list[Event] = []
        self._spark = spark
        self._added: list[OffsetCommitListener] = []

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def observed(self, **settings: Any) -> OffsetCommitListener:
        """Add a listener with these settings, whose events are recorded."""
        return self.add(OffsetCommitListener(**settings, observers=[self.events.append]))

    def add(self, listener: OffsetCommitListener) -> OffsetCommitListener:
        """Add to the session's listeners until the test ends."""
        self._spark.streams.addListener(listener)
        self._added.append(listener)
        return listener

    def end(self) -> None:
        for listener in self._added:
            self._spark.streams.removeListener(listener)
            listener.close()


@pytest.fixture
def recording(spark: SparkSession) -> Iterator[Recording]:
    recording = Recording(spark)
    with none_left():  # one whose Kafka never answered ends when its request does
        yield recording
        recording.end()


@pytest.fixture
def listener(recording: Recording) -> OffsetCommitListener:
    """A listener with default settings, whose events are recorded."""
    return recording.observed()


@pytest.fixture
def queries(spark: SparkSession, broker: Broker, tmp_path: Path) -> Queries:
    return Queries(spark, broker, tmp_path)
