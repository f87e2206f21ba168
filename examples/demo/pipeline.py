"""The flights' way through Spark: into memory, or into a sink."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from examples.demo.demo_settings import TOPIC, DemoSettings
from examples.demo.demo_target import opened
from examples.demo.flights_check import Proof
from examples.demo.group_readings import Repeater
from examples.demo.query import FlightsQuery
from examples.demo.results import MemoryResults
from examples.demo.sink_pipeline import IntoSink
from examples.demo.snapshot import Scoreboard
from examples.demo.verdict import DemoVerdict, judge
from tests.broker import GroupRow


class Query(Protocol):
    """A query with its Spark, in a thread or a process of its own."""

    log: Path

    def start(self) -> None:
        """Begin to start Spark, and return at once."""
        ...

    def wait_until_running(self, seconds: float) -> bool:
        """Wait for the query to run. Raises what `check` raises."""
        ...

    def check(self) -> None:
        """Raise the EoListenerError that ended it; none once `stop` was called."""
        ...

    def stop(self, timeout: float = ...) -> None:
        """Stop the query, commit what it has processed, end Spark. Idempotent."""
        ...


class DemoPipeline(Protocol):
    """A query, what else there is to read of it, and what it comes to."""

    @property
    def query(self) -> Query: ...

    @property
    def readings(self) -> Sequence[Repeater]: ...

    def step(self) -> None:
        """Called every moment while flights stream. Raises EoListenerError."""
        ...

    def judge(
        self, rows: Sequence[GroupRow], partitions: int, produced: int
    ) -> tuple[DemoVerdict, Proof | None]:
        """Judge it by the last output of kafka-consumer-groups too. Raises EoListenerError."""
        ...


class _InMemory:
    """The delays of all hours, counted in this process."""

    readings: Sequence[Repeater] = ()

    def __init__(
        self, settings: DemoSettings, servers: str, folder: Path, scoreboard: Scoreboard
    ) -> None:
        scoreboard.results = self._results = MemoryResults()
        self.query: Query = FlightsQuery(
            servers,
            folder,
            self._results,
            scoreboard.observe,
            metrics_port=settings.metrics_port,
        )

    def step(self) -> None:
        pass

    def judge(
        self, rows: Sequence[GroupRow], partitions: int, produced: int
    ) -> tuple[DemoVerdict, Proof | None]:
        counted = self._results.counted
        return judge(
            rows, topic=TOPIC, partitions=partitions, produced=produced, counted=counted
        ), None


@contextlib.contextmanager
def prepared(
    settings: DemoSettings, servers: str, folder: Path, scoreboard: Scoreboard
) -> Iterator[DemoPipeline]:
    """Prepare the way that was asked for; nothing of it runs yet. Raises UnavailableError."""
    if settings.store is None:
        yield _InMemory(settings, servers, folder, scoreboard)
        return
    with (
        opened(settings, servers, folder) as target,
        contextlib.closing(IntoSink(settings, target, servers, folder, scoreboard)) as pipeline,
    ):
        yield pipeline
