"""What is going on: filled by the parts of a running demo, read by the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from eo_listener.demo.producer import Replay
from eo_listener.demo.snapshot import Snapshot
from eo_listener.demo.tally import Tally
from eo_listener.demo.watch import GroupView, ToolView
from eo_listener.events import Committed, Event


@dataclass(slots=True)
class Stage:
    """Where the demo is, and the parts that are there by now; each has one writer."""

    wanted: int
    name: str = "starting Kafka"
    tally: Tally = field(default_factory=Tally)
    replay: Replay | None = None
    group: GroupView | None = None
    tool: ToolView | None = None
    commits: int = 0
    begun: float = field(default_factory=time.monotonic)

    def observe(self, event: Event) -> None:
        """Count the commits that Kafka has confirmed."""
        if isinstance(event, Committed):
            self.commits += 1

    def say(self, name: str) -> None:
        """Name what is going on now."""
        self.name = name

    def snapshot(self) -> Snapshot:
        """Take what all parts show now."""
        return Snapshot(
            stage=self.name,
            elapsed=time.monotonic() - self.begun,
            wanted=self.wanted,
            produced=self.replay.produced if self.replay else 0,
            counted=self.tally.counted,
            batches=self.tally.batches,
            batch_count=self.tally.batch_count,
            partitions=self.group.rows if self.group else (),
            commits=self.commits,
            told=self.tool.rows if self.tool else (),
            told_ago=self.tool.ago if self.tool else None,
            delays=self.tally.delays,
        )
