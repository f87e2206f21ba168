"""How far the demo is: filled by its parts, read by the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from eo_listener.model.events import Committed, Event
from eo_listener.model.lag import PartitionLag
from examples.demo.demo_settings import DemoStore
from examples.demo.group_readings import OurReading, ToolReading
from examples.demo.producer import Replay
from examples.demo.results import BatchResult, Delay, Results
from tests.broker import GroupRow

_RARE: Final = 500  # an hour with less than one of so many flights says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole demo at one moment; `elapsed` and `tool_ago` are in seconds.

    `wanted` is how many rows will be produced, `counted` how many have come out of the query, into
    `store` where that is a sink.
    `partitions` is what our reader sees, `tool_rows` what kafka-consumer-groups said `tool_ago`.
    """

    step: str
    elapsed: float
    wanted: int
    store: DemoStore | None = None
    produced: int = 0
    counted: int = 0
    batches: tuple[BatchResult, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()
    batch_count: int = 0
    commits: int = 0
    tool_rows: tuple[GroupRow, ...] = ()
    tool_ago: float | None = None
    delays: tuple[Delay, ...] = ()

    @property
    def committed(self) -> int:
        """The sum of the committed offsets: each log starts at 0, so this counts rows."""
        return sum(row.committed or 0 for row in self.partitions)

    @property
    def lag(self) -> int | None:
        """Rows in Kafka that the group has not reached; None while nothing is known."""
        if not self.partitions:
            return None
        return sum((row.log_end or 0) - (row.committed or 0) for row in self.partitions)

    @property
    def tool_lag(self) -> int | None:
        """The same as kafka-consumer-groups said it; None when it has said nothing yet."""
        lags = [row.lag for row in self.tool_rows if row.lag is not None]
        return sum(lags) if lags else None

    def worst(self, count: int) -> tuple[Delay, ...]:
        """The airports and hours with the greatest average delay, except those with few flights."""
        usual = [delay for delay in self.delays if delay.flights * _RARE >= self.counted]
        return tuple(sorted(usual, key=lambda delay: -(delay.minutes or 0.0))[:count])


@dataclass(slots=True)
class Scoreboard:
    """Where the demo is, and the parts that are there by now; each has one writer."""

    wanted: int
    store: DemoStore | None = None
    step: str = "starting Kafka"
    note: str = ""
    results: Results = field(default_factory=Results)
    replay: Replay | None = None
    ours: OurReading | None = None
    theirs: ToolReading | None = None
    commits: int = 0
    begun: float = field(default_factory=time.monotonic)

    def observe(self, event: Event) -> None:
        """Count the commits that Kafka has confirmed."""
        if isinstance(event, Committed):
            self.commits += 1

    def say(self, step: str) -> None:
        """Name what is going on now."""
        self.step = step

    def snapshot(self) -> Snapshot:
        """Take what all parts show now."""
        return Snapshot(
            step=f"{self.step} ({self.note})" if self.note else self.step,
            store=self.store,
            elapsed=time.monotonic() - self.begun,
            wanted=self.wanted,
            produced=self.replay.produced if self.replay else 0,
            counted=self.results.counted,
            batches=self.results.batches,
            batch_count=self.results.batch_count,
            partitions=self.ours.rows if self.ours else (),
            commits=self.commits,
            tool_rows=self.theirs.rows if self.theirs else (),
            tool_ago=self.theirs.ago if self.theirs else None,
            delays=self.results.delays,
        )
