"""What may happen in a search, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eo_listener.commit.groups.policy import Backoff, OnRewind, Policy
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.offsets import TopicPartition
from tests.model_checking.driver import Setting
from tests.model_checking.spark import PLANNED, Glitch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = "g"

# What each batch adds; batches beyond the last begin anew.
STEPS: tuple[Mapping[TopicPartition, int], ...] = ({P0: 2, P1: 2}, {P0: 2}, {P0: 2, P1: 2})


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of a search: how often each kind of trouble may come, by its name.

    The names: `crash`, `zombie`, `drop` (a lost event), `late` (the listener bus holds an event up,
    and what follows it), `twice` (one that comes again), `mute` (an end that is not told), `lost`,
    `unanswered`, `delayed`, `missing` and `partial` (answers to commits), `snapshot` (a look that
    fails), `rewind`, `fresh` and `latest` (the checkpoint at a restart; the last begins at the end
    of the log), `restart` (in the same driver), `return` (of a query to a driver that stood still),
    `glitch`, and what administrators do: `delete`, `recreate`, `truncate`, `expire`, `members`,
    `reset`, `forget` (records go that nobody has read); in a `pause` nobody does anything for a
    while.
    """

    name: str
    faults: Mapping[str, int]
    batches: int = 3
    queries: tuple[str, ...] = ("q1",)
    fencing: bool = False
    on_rewind: OnRewind = OnRewind.REFUSE
    guard: GuardMode = GuardMode.WITHHOLD
    glitches: tuple[Glitch, ...] = PLANNED
    repeat_after: float = 60.0
    snapshot_max_age: float = 60.0
    recommit_interval: float = 300.0
    polite: bool = False  # a query whose driver stood still goes no further
    ticks: int = 4  # how often time may pass before all comes to rest
    lossy: bool = False  # failOnDataLoss=false
    behind: bool = False  # a position's number is that of the batch before
    steps: tuple[Mapping[TopicPartition, int], ...] = field(default=STEPS)

    @property
    def goes_back(self) -> bool:
        """Whether anything may happen after which a group is committed to below where it was."""
        return not self.faults.keys() <= {"late", "drop", "twice", "mute", "restart", "crash"}

    def setting(self) -> Setting:
        return Setting(
            policy=Policy(
                on_rewind=self.on_rewind,
                snapshot_max_age=self.snapshot_max_age,
                accept_marks=self.guard is not GuardMode.WITHHOLD,
            ),
            retry=Backoff(
                first=1.0,
                longest=1.0,
                refused_first=4.0,
                refused_longest=30.0,
                repeat_after=self.repeat_after,
            ),
            guard=self.guard,
            recommit_interval=self.recommit_interval,
        )

    def options(self) -> Mapping[str, Mapping[str, str]]:
        given = {
            "kafka.bootstrap.servers": "k:9092",
            "eo.commit.group": GROUP,
            "failondataloss": str(not self.lossy).lower(),
        }
        return dict.fromkeys(self.queries, given)
