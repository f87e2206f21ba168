"""What really happened, kept apart from the product, and the rules that it is held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.events import (
    CommitAbandoned,
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    ForeignCommit,
    GroupOffsetsMissing,
    GuardViolation,
    InternalError,
    TopicRecreated,
    ViolationKind,
)
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.offsets import Offsets, Position, TopicPartition
from tests.model_checking.broker import Cluster
from tests.model_checking.driver import Setting
from tests.model_checking.spark import Batch, Glitch


class Broken(AssertionError):  # noqa: N818  # a rule, not an error of the program
    """A rule does not hold."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


@dataclass(slots=True)
class Seen:
    """What a driver's last snapshot of a partition had, and whether others have written since."""

    topic_id: str
    start: int
    end: int
    offered: int  # the furthest when the driver asked for it
    snapshot_at: float
    raised: bool = False
    outdated: bool = False  # the driver stood still since


@dataclass(slots=True)
class Truth:
    """Everything the rules need, and no more."""

    reached: dict[str, Offsets] = field(default_factory=dict)  # by run: the furthest durable
    began: dict[str, Offsets] = field(default_factory=dict)  # by run: its checkpoint
    passed: set[tuple[str, TopicPartition]] = field(default_factory=set)  # by query: committed
    seen: dict[tuple[str, TopicPartition], Seen] = field(default_factory=dict)
    asked: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)  # by driver: offered
    first_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    certain: set[tuple[str, str]] = field(default_factory=set)  # first ids that were seen twice
    closed: set[tuple[str, str]] = field(default_factory=set)
    ceilings: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    owed: dict[str, set[int]] = field(default_factory=dict)  # by run: batches to be complained of
    excused: dict[str, dict[int, Offsets]] = field(default_factory=dict)  # and those that may be
    ends: dict[str, Offsets] = field(default_factory=dict)  # by run: of its last event
    told: dict[tuple[str, TopicPartition], set[str]] = field(default_factory=dict)
    reported: set[tuple[str, str]] = field(default_factory=set)  # by driver: of all of it
    meddled: set[TopicPartition] = field(default_factory=set)  # only a look can find it
    taken_back: set[TopicPartition] = field(default_factory=set)  # by a zombie's late commit

    # What Spark does

    def starts(self, run: str, began: Offsets) -> None:
        self.began[run] = began

    def durable(self, run: str, offsets: Offsets) -> None:
        self.reached[run] = self.reached.get(run, Offsets()).merge(offsets)

    def delivered(self, run: str, number: int, batch: Batch, hidden: tuple[Batch, ...]) -> None:
        """An event came in; `hidden` are the batches of the run since its last one."""
        first = run not in self.ends
        before = self.ends.get(run, batch.start or Offsets())
        self.ends[run] = batch.end
        if batch.glitch is not None or any(one.glitch is not None for one in hidden):
            self.excused.setdefault(run, {})[number] = before
        certain = batch.glitch is Glitch.BACKWARD or not (first or hidden)
        if batch.glitch is Glitch.LOST:
            certain = batch.known
        if batch.glitch is not None and certain:
            self.owed.setdefault(run, set()).add(number)

    # What drivers say

    def tell(self, driver: str, event: Event, right: Mapping[TopicPartition, int]) -> None:
        """Take an event in; `right` is where the group should be by now."""
        if isinstance(event, InternalError):
            raise Broken(f"{driver}: {event.where}: {event.problem}")
        if isinstance(event, GuardViolation):
            batch = event.batch_id
            require(
                unread(event) or batch in self.excused.get(event.run_id, ()),
                f"{driver}: a false alarm on batch {batch} of {event.run_id}: {event.violations}",
            )
            self.owed.get(event.run_id, set()).discard(batch)
            self.reported.add((driver, event.query))
        elif isinstance(event, CommitterFenced):
            self.reported.add((driver, "fenced"))
        elif isinstance(event, TopicRecreated):
            self.reported.add((driver, event.topic))
        kind = type(event).__name__
        for tp in _partitions(event):
            told = self.told.setdefault((driver, tp), set())
            if isinstance(event, Committed):
                if event.offsets[tp] == right.get(tp):
                    told.clear()  # what was said before is over
            else:
                told.add(kind)

    def withheld(self, driver: str, tps: Iterable[TopicPartition], ceiling: Offsets) -> None:
        for tp in tps:
            at = (driver, tp)
            self.ceilings[at] = min(ceiling.get(tp, 0), self.ceilings.get(at, 2**62))

    # What Kafka sees

    def ask(self, driver: str, offered: Mapping[TopicPartition, int]) -> None:
        """A driver asks for a snapshot, having been offered so much."""
        self.asked[driver] = dict(offered)

    def on_snapshot(
        self, driver: str, tps: Iterable[TopicPartition], kafka: Cluster, now: float
    ) -> None:
        offered = self.asked.pop(driver)
        for name in {tp.topic for tp in tps} & kafka.topics.keys():
            at, topic_id = (driver, name), kafka.topics[name].id
            if at in self.first_ids:
                (self.certain if self.first_ids[at] == topic_id else self.closed).add(at)
            self.first_ids.setdefault(at, topic_id)
        for tp in tps:
            topic = kafka.topics.get(tp.topic)
            if topic is None or tp.partition >= len(topic.ends):
                continue
            start, end = topic.starts[tp.partition], topic.ends[tp.partition]
            self.seen[driver, tp] = Seen(topic.id, start, end, offered.get(tp, 0), now)

    def stood_still(self, driver: str) -> None:
        """A driver was stopped for so long that what it had seen must not count any more."""
        for (who, _), what in self.seen.items():
            if who == driver:
                what.outdated = True

    def landed_late(self, tp: TopicPartition, position: Position, held: Position | None) -> None:
        """A resumed zombie's commit has landed: in mode "simple" it may take a group back."""
        if held is not None and position.offset < held.offset:
            self.taken_back.add(tp)

    def committed(self, tp: TopicPartition, position: Position) -> None:
        metadata = CommitMetadata.parse(position.metadata)
        if metadata is not None:
            self.passed.add((metadata.query_id, tp))

    def changed(self, by: str, tp: TopicPartition) -> None:
        """Somebody has changed what a group holds: what others saw of it is past."""
        for (driver, seen), what in self.seen.items():
            if seen == tp and driver != by:
                what.raised = True

    def landing(
        self,
        driver: str,
        tp: TopicPartition,
        position: Position,
        held: Position | None,
        kafka: Cluster,
        setting: Setting,
        now: float,
    ) -> None:
        """Check a commit that arrives in time, before it takes effect."""
        what = f"{driver} commits {tp} at {position} over {held}"
        seen = self.seen.get((driver, tp))
        fresh = (
            seen is not None and now - seen.snapshot_at <= setting.policy.snapshot_max_age + 0.001
        )
        require(fresh, f"{what}: without a fresh look")
        assert seen is not None
        require(not seen.outdated, f"{what}: without a look since it stood still")
        topic = kafka.topics[tp.topic]
        require((driver, tp.topic) not in self.closed, f"{what}: onto a topic known to be new")
        if seen.topic_id != topic.id and (driver, tp.topic) not in self.certain:
            # Recreated between the driver's first look and its commit: to the driver it looks as if
            # a broker had shown an old id. A limit in docs/explanation/guarantees.md.
            self.first_ids[driver, tp.topic] = topic.id
        known = (seen.topic_id, seen.end) == (topic.id, topic.ends[tp.partition])
        # A later offer may have been written since: a limit in docs/explanation/guarantees.md.
        known = known and position.offset <= seen.offered
        require(not known or position.offset <= seen.end, f"{what}: beyond the log end {seen.end}")
        if held is not None and position.offset == held.offset:
            return
        self._never_ahead(what, tp, position)
        ceiling = self.ceilings.get((driver, tp))
        require(ceiling is None or position.offset <= ceiling, f"{what}: withheld by the guard")
        if held is not None and not (setting.policy.accept_marks or seen.raised):
            self._never_over_unread(what, tp, position, held)
        if held is None or position.offset > held.offset:
            marked = held is not None and _marked(held) and not setting.policy.accept_marks
            require(not marked or seen.raised, f"{what}: over the guard's mark")
            return
        metadata = CommitMetadata.parse(position.metadata)
        declared = metadata is not None and metadata.rewound_from is not None
        if declared:
            require(setting.policy.on_rewind is OnRewind.ALLOW, f"{what}: back, and not allowed")
        else:
            require(seen.raised and not kafka.fencing, f"{what}: back")

    def _never_over_unread(
        self, text: str, tp: TopicPartition, position: Position, group: Position
    ) -> None:
        """A query passes what another has committed only from where its checkpoint began.

        It may pass later commits of the other query, and mark what the group held before these.
        """
        own, writer = (CommitMetadata.parse(each.metadata) for each in (position, group))
        if own is None or writer is None or own.withheld or own.query_id == writer.query_id:
            return
        began = self.began[own.run_id].get(tp, 0)
        if (own.query_id, tp) not in self.passed:
            require(group.offset >= min(began, position.offset), f"{text}: began at {began}")

    def _never_ahead(self, what: str, tp: TopicPartition, position: Position) -> None:
        metadata = CommitMetadata.parse(position.metadata)
        require(metadata is not None, f"{what}: who?")
        assert metadata is not None
        reached = self.reached.get(metadata.run_id, Offsets()).get(tp, 0)
        require(position.offset <= reached, f"{what}: ahead of the checkpoint at {reached}")


def unread(event: GuardViolation) -> bool:
    """Return True if an event is about records before the query's first batch."""
    return event.violations[0].kind is ViolationKind.NEVER_READ


def _marked(position: Position) -> bool:
    metadata = CommitMetadata.parse(position.metadata)
    return metadata is not None and metadata.withheld


def _partitions(event: Event) -> Iterable[TopicPartition]:
    named: Mapping[TopicPartition, object]
    if isinstance(event, Committed | CommitAbandoned | CommitterFenced | GroupOffsetsMissing):
        named = event.offsets
    elif isinstance(event, CommitFailed):
        named = event.errors
    elif isinstance(event, CommitRefused):
        named = event.offsets
    elif isinstance(event, ForeignCommit):
        named = event.group_offsets
    elif isinstance(event, TopicRecreated):
        named = event.offsets
    else:
        return ()
    return tuple(named)
