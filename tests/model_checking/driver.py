"""One driver: the product's own event buffer, tracker and cluster state, without their threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.cluster_state import STANDSTILL, ClusterState
from eo_listener.commit.groups.group_offsets import Beginnings, GroupKeys, GroupOffsets
from eo_listener.commit.groups.group_state import CommitRequest, SnapshotRequest
from eo_listener.commit.groups.policy import Backoff, Policy
from eo_listener.commit.tracking.event_buffer import Ended, EventBuffer, Started
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker import Moment, QueryTracker
from eo_listener.events import Event
from eo_listener.model.commit_metadata import short_id
from eo_listener.offsets import TopicPartition
from tests.model_checking.spark import LateEvent, Phase, Queries, QueryRun


class NoJitter:
    """A source of chance without any: each wait is as long as it can be."""

    def random(self) -> float:
        return 1.0


@dataclass(slots=True)
class OfferReceiver:
    """What the tracker offers to, in place of the committer: the state of one cluster."""

    cluster_state: ClusterState
    events: list[Event] = field(default_factory=list)
    offered: dict[TopicPartition, int] = field(default_factory=dict)  # the furthest ever
    fresh: list[tuple[TopicPartition, int]] = field(default_factory=list)  # since it was cleared

    def offer(self, commit: GroupOffsets, *, recommit: bool = False) -> None:
        for tp, position in commit.positions.items():
            self.offered[tp] = max(position.offset, self.offered.get(tp, 0))
            self.fresh.append((tp, position.offset))
        self.cluster_state.group(commit.group).offer(commit, recommit=recommit)

    def add_beginnings(self, commit: GroupOffsets, beginnings: Beginnings) -> None:
        self.cluster_state.group(commit.group).add_beginnings(commit, beginnings)

    def withhold(self, commit: GroupOffsets, *, recommit: bool = False) -> None:
        self.cluster_state.group(commit.group).withhold(commit)
        if recommit:
            self.offer(commit, recommit=True)

    def log_starts(self, commit: GroupOffsets, by: float) -> Mapping[TopicPartition, int]:
        return self.cluster_state.log_starts(commit.group, by)

    def set_used_clusters(self, clusters: Collection[Cluster]) -> None:
        """What the model does not have: threads and connections to give back."""

    def end_run(self, run_id: str) -> None:
        self.cluster_state.end_run(short_id(run_id))

    def retry_now(self, groups: GroupKeys) -> None:
        self.cluster_state.retry_now(group for _, group in groups)

    def notify(self, event: Event) -> None:
        self.events.append(event)


@dataclass(frozen=True, slots=True)
class Setting:
    policy: Policy
    retry: Backoff
    guard: GuardMode = GuardMode.WITHHOLD
    recommit_interval: float = 1000.0


class Driver:
    def __init__(
        self,
        name: str,
        routing: GroupRouting,
        setting: Setting,
        options: Mapping[str, Mapping[str, str]],
        *,
        behind: bool = False,
    ) -> None:
        self.name = name
        self.untold = 0  # runs of whose end Spark said nothing
        self.stopped = False
        self.stopped_at = 0.0
        self.fenced = False  # Kafka has told it so
        self.zombie = False  # was stopped once
        self.has_new_run = False  # since it last took the group back
        self.outstanding: CommitRequest | SnapshotRequest | None = None
        self.on_its_way = False  # the answer is lost, whatever becomes of the request
        self.queries = Queries(options, behind=behind)
        self.runs: dict[str, QueryRun] = {}
        self.buffer = EventBuffer()
        self.bus: list[LateEvent] = []  # not delivered yet, the oldest first
        self.cluster_state = ClusterState("k:9092", setting.retry, NoJitter(), setting.policy)  # type: ignore[arg-type]  # it draws one number
        self.front = OfferReceiver(self.cluster_state)
        self.tracker = QueryTracker(
            routing,
            self.queries,
            self.front,  # type: ignore[arg-type]  # of the committer it is what the tracker uses
            self.front,  # type: ignore[arg-type]  # of the observers too
            guard=setting.guard,
            recommit_interval=setting.recommit_interval,
        )

    def start(self, run: QueryRun) -> None:
        self.has_new_run = True
        self.runs[run.query] = run
        self.queries.runs[run.run] = run
        self.buffer.add(Started(query_id=run.checkpoint.id, run_id=run.run, name=run.query))

    def end(self, run: QueryRun, *, told: bool = True) -> None:
        """A run is over, and mostly Spark says so."""
        run.phase = Phase.OVER
        self.runs.pop(run.query, None)
        if not told:
            self.untold += 1
        elif self.bus:
            self.bus.append(LateEvent(run.run))
        else:
            self.buffer.add(Ended(run.run))

    def due(self, now: float) -> float | None:
        """When the tracker's thread has something to do."""
        return now if self.buffer else self.tracker.due()

    def serve(self, now: float) -> None:
        self.tracker.serve(self.buffer.take(), Moment(now, now))

    def wait(self, now: float) -> float | None:
        """How long the worker has nothing to do."""
        return self.cluster_state.wait(now)

    def request(self, now: float) -> CommitRequest | SnapshotRequest | None:
        return self.cluster_state.next(now)

    def live(self, since: float, until: float) -> None:
        """Time has passed for a process that runs: its worker has gone round every few seconds."""
        asked = self.cluster_state._last_next
        if self.outstanding is None and asked is not None:
            if since - asked > STANDSTILL:
                self.cluster_state.invalidate_snapshots()
            self.cluster_state._last_next = until

    def take_events(self) -> list[Event]:
        told, self.front.events = self.front.events, []
        return told
