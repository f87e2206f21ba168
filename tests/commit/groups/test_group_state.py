"""The state of one group: what a snapshot changes, and what is never sent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.group_state import (
    MAX_PART,
    MIN_PART,
    SNAPSHOT_PARTITIONS,
    CommitRequest,
    GroupState,
    SnapshotRequest,
)
from eo_listener.commit.groups.partition_state import PartitionState
from eo_listener.commit.groups.policy import Backoff, OnRewind, Policy
from eo_listener.events import (
    CommitFailed,
    CommitRefused,
    Committed,
    CommitterFenced,
    Event,
    GroupOffsetsMissing,
    Refusal,
    TopicRecreated,
)
from eo_listener.model.kafka_errors import explain
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Offsets, Position, TopicPartition
from tests.commit.positions import by, metadata_of

K = Cluster.from_properties({"bootstrap.servers": "k:9092"})
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
_Kind = TypeVar("_Kind", bound=Event)
RETRY = Backoff(first=1.0, longest=8.0, refused_first=4.0)


def commit_of(positions: Mapping[TopicPartition, Position], **how: Any) -> GroupOffsets:
    """Positions of the run that the first of them names, for its group."""
    owner = metadata_of(next(iter(positions.values()))).run_id
    return GroupOffsets(cluster=K, group="g", positions=positions, owner=owner, **how)


class Kafka:
    """A group and a topic of two partitions, as snapshots show them."""

    def __init__(
        self,
        *,
        end: int = 10**6,
        topic_id: str = "id1",
        partitions: Iterable[TopicPartition] = (P0, P1),
    ) -> None:
        self.held: dict[TopicPartition, Position] = {}
        self.ends = dict.fromkeys(partitions, end)
        self.topic_id = topic_id
        self.refused: dict[str, str] = {}

    def recreate(self, topic_id: str) -> None:
        """Give the topic another id; with the old topic the group's offsets are gone."""
        self.topic_id = topic_id
        self.held.clear()

    def snapshot(self, partitions: Iterable[TopicPartition]) -> GroupSnapshot:
        """What a snapshot shows now."""
        asked = tuple(partitions)
        here = [tp for tp in asked if tp in self.ends and tp.topic not in self.refused]
        return GroupSnapshot(
            positions={tp: self.held[tp] for tp in here if tp in self.held},
            starts=dict.fromkeys(here, 0),
            ends={tp: self.ends[tp] for tp in here},
            topic_ids={"t": self.topic_id} if here else {},
            errors={t: code for t, code in self.refused.items() if t in {tp.topic for tp in asked}},
        )


class GroupWithKafka(GroupState):
    """A group's state beside its Kafka; the events that it returned are kept."""

    def __init__(
        self, kafka: Kafka | None = None, policy: Policy | None = None, group: str = "g"
    ) -> None:
        super().__init__("k:9092", group, RETRY, policy or Policy(), random.Random(1))
        self.kafka = kafka or Kafka()
        self.reported: list[Event] = []

    def offer(  # type: ignore[override]  # tests name positions only
        self,
        positions: Mapping[TopicPartition, Position],
        *,
        recommit: bool = False,
        **how: Any,
    ) -> None:
        """Offer positions of the run that the first of them names."""
        super().offer(commit_of(positions, **how), recommit=recommit)

    def withhold(  # type: ignore[override]  # as above
        self, positions: Mapping[TopicPartition, Position]
    ) -> None:
        """Withhold positions of the run that the first of them names."""
        super().withhold(commit_of(positions))

    def look(self, now: float) -> SnapshotRequest:
        """Take the snapshot that is due now."""
        request = self.next(now)
        assert isinstance(request, SnapshotRequest), request
        return request

    def shown(self, request: SnapshotRequest, now: float) -> None:
        """Answer a snapshot with what Kafka has now."""
        self.reported += self.on_snapshot(request, self.kafka.snapshot(request.partitions), now)

    def compare(self, now: float) -> SnapshotRequest:
        """Take the snapshot that is due now, and answer it."""
        request = self.look(now)
        self.shown(request, now)
        return request

    def offer_and_compare(
        self, now: float, positions: Mapping[TopicPartition, Position], **how: Any
    ) -> SnapshotRequest:
        """Offer positions, and answer the snapshot that is due then."""
        self.offer(positions, **how)
        return self.compare(now)

    def offer_and_repeat(self, now: float, positions: Mapping[TopicPartition, Position]) -> None:
        """Offer positions, compare what is due, send it, and let it land."""
        self.offer(positions)
        self.repeat(now)

    def unread(self, now: float, code: str = "_TIMED_OUT") -> None:
        """Take the snapshot that is due now, and let it fail."""
        self.reported += self.on_snapshot_failed(self.look(now), code, now)

    def send(self, now: float) -> CommitRequest:
        """Take the commit that is due now."""
        request = self.next(now)
        assert isinstance(request, CommitRequest), request
        return request

    def confirm(self, request: CommitRequest, now: float) -> None:
        """Let a commit land, and answer it."""
        self.kafka.held.update(request.positions)
        self.reported += self.on_commit_answer(request, dict.fromkeys(request.positions), now)

    def fail(self, request: CommitRequest, code: str, now: float) -> None:
        """Answer a commit with an error."""
        self.reported += self.on_commit_answer(request, dict.fromkeys(request.positions, code), now)

    def repeat(self, now: float) -> None:
        """Compare what is due, send it, and let it land."""
        self.compare(now)
        self.confirm(self.send(now), now)

    def commit(self, positions: Mapping[TopicPartition, Position], now: float) -> None:
        """Offer positions and commit them, after a snapshot where one is due."""
        self.offer(positions)
        request = self.next(now)
        if isinstance(request, SnapshotRequest):
            self.shown(request, now)
            request = self.next(now)
        assert isinstance(request, CommitRequest), request
        self.confirm(request, now)

    def take(self) -> list[Event]:
        """The events since the last call."""
        reported, self.reported = self.reported, []
        return reported

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Those of one kind among them."""
        return [event for event in self.take() if isinstance(event, kind)]

    def only(self, kind: type[_Kind]) -> _Kind:
        """The one event since the last call, which is of this kind."""
        (event,) = self.take()
        assert isinstance(event, kind), event
        return event


def newly_committed(
    offset: int, kafka: Kafka | None = None, policy: Policy | None = None
) -> GroupWithKafka:
    """A group that committed this offset at 0."""
    group_state = GroupWithKafka(kafka, policy)
    group_state.commit({P0: by(offset)}, 0.0)
    return group_state


def seasoned(kafka: Kafka | None = None, policy: Policy | None = None) -> GroupWithKafka:
    """A group that committed 5 long ago, and nobody else has; its last snapshot is of 60."""
    group_state = newly_committed(5, kafka, policy)
    group_state.repeat(60.0)
    assert group_state.next_try() is None
    group_state.take()
    return group_state


@pytest.mark.parametrize("newer", ["lands", "fails for certain"])
def test_doubt_outlives_newer_commits(newer: str) -> None:
    """A request that was given up may land after its successor, and after that one's too."""
    group_state = seasoned()
    group_state.offer({P0: by(6)})
    group_state.fail(group_state.send(70.0), "_TIMED_OUT", 78.0)
    group_state.repeat(80.0)
    if newer == "lands":
        group_state.commit({P0: by(7)}, 81.0)
    else:
        group_state.offer({P0: by(7)})
        group_state.fail(group_state.send(81.0), "NOT_COORDINATOR", 81.0)
        group_state.repeat(83.0)
    assert group_state.next_try() == 140.0
    if newer == "lands":  # otherwise the last snapshot is new enough
        group_state.compare(140.0)
    assert group_state.send(140.0).positions == {P0: by(7)}


AWAY = "COORDINATOR_NOT_AVAILABLE"


def causes(*failures: tuple[float, str]) -> list[str]:
    """What is reported of commits that fail at these times with these errors."""
    group_state = seasoned()
    group_state.offer({P0: by(6)})
    for now, code in failures:
        if now > 100.0:
            group_state.compare(now)
        group_state.fail(group_state.send(now), code, now)
    return [event.cause for event in group_state.of(CommitFailed)]


@pytest.mark.parametrize(
    ("failures", "persistent"),
    [
        ([(100.0, AWAY), (150.0, AWAY)], False),
        ([(100.0, AWAY), (150.0, AWAY), (170.0, AWAY)], True),
        ([(100.0, AWAY), (150.0, "NOT_COORDINATOR"), (170.0, AWAY)], True),  # of the same kind
        ([(100.0, AWAY), (150.0, "_TRANSPORT"), (170.0, AWAY)], False),
        ([(100.0, "_TRANSPORT"), (400.0, "NOT_COORDINATOR"), (420.0, AWAY)], False),
    ],
)
def test_an_error_that_should_pass_and_does_not_is_explained_otherwise(
    failures: list[tuple[float, str]], persistent: bool
) -> None:
    """A minute after the first error of one kind the cause is no longer that something moves."""
    explained = explain(AWAY)
    assert explained.persistent is not None
    *earlier, last = causes(*failures)
    assert earlier == [explain(code).cause for _, code in failures[:-1]]
    assert last == (explained.persistent if persistent else explained).cause


def test_a_snapshot_that_shows_nothing_to_send_ends_the_minute() -> None:
    """One failure hours after another is the first of its kind again."""
    group_state = seasoned()
    group_state.kafka.held[P0] = by(9, run="r0")
    group_state.offer({P0: by(6)})
    now = 1000.0
    for snapshot in (group_state.unread, group_state.compare, group_state.unread):
        snapshot(now)
        now = group_state.next_try() or 0.0
        assert now
        now += 3600.0
    found = [event.cause for event in group_state.of(CommitFailed)]
    assert found == [explain("_TIMED_OUT").cause] * 2


def test_a_repeat_waits_for_its_snapshot() -> None:
    """Where the snapshot before a repeat fails, nothing is sent without it."""
    group_state = newly_committed(5)
    snapshot = group_state.look(61.0)
    group_state.take()
    group_state.reported += group_state.on_snapshot_failed(snapshot, "_TIMED_OUT", 65.0)
    assert group_state.next(65.0) is None
    assert group_state.next_try() == 65.0 + group_state.only(CommitFailed).retry_in
    group_state.repeat(70.0)


@pytest.mark.parametrize("obstacle", ["a topic that is gone", "a higher offset", "a log's end"])
def test_a_repeat_does_not_go_where_its_snapshot_shows_an_obstacle(obstacle: str) -> None:
    """Nothing is taken back, and nothing turns on the spot."""
    group_state = newly_committed(5)
    match obstacle:
        case "a topic that is gone":
            del group_state.kafka.ends[P0]
        case "a higher offset":
            group_state.kafka.held[P0] = by(8, run="r2")
        case _:
            group_state.kafka.ends[P0] = 2
    group_state.compare(60.0)
    assert group_state.next(60.0) is None
    if obstacle != "a log's end":  # which is looked at again
        assert group_state.next_try() is None


def test_a_log_truncated_under_a_confirmed_offset_is_reported() -> None:
    """By each snapshot; it is committed again when the log has grown to it."""
    group_state = newly_committed(5)
    group_state.kafka.ends[P0] = 2
    group_state.compare(60.0)  # to repeat it
    (refused,) = group_state.of(CommitRefused)
    assert refused.refusal is Refusal.BEYOND_LOG_END
    assert (refused.offsets, refused.obstacles) == (Offsets({P0: 5}), Offsets({P0: 2}))
    assert not group_state.complete()
    group_state.offer({P0: by(6)})
    assert group_state.next(119.0) is None
    group_state.compare(120.0)
    assert group_state.only(CommitRefused).offsets == {P0: 6}
    group_state.kafka.ends[P0] = 6
    group_state.compare(180.0)
    assert group_state.send(180.0).positions == {P0: by(6)}


def test_a_recommit_hides_no_loss() -> None:
    """However recent the last snapshot is, what is gone is reported before it is recommitted."""
    group_state = seasoned()
    group_state.kafka.held.clear()
    group_state.offer_and_compare(61.0, {P0: by(5)}, recommit=True)
    assert group_state.only(GroupOffsetsMissing).offsets == {P0: 5}
    group_state.confirm(group_state.send(61.0), 61.0)
    assert group_state.kafka.held == {P0: by(5)}


@pytest.mark.parametrize(
    ("before", "refusals"),
    [(3, []), (6, [Refusal.BEYOND_LOG_END])],  # 6 is beyond its end already
)
def test_the_log_end_says_nothing_of_later_offers(before: int, refusals: list[Refusal]) -> None:
    """Its answer may take seconds, in which the query has read what was written meanwhile."""
    group_state = GroupWithKafka(Kafka(end=4))
    group_state.offer({P0: by(before)})
    request = group_state.look(0.0)
    group_state.offer({P0: by(9)})
    group_state.shown(request, 1.0)
    assert [event.refusal for event in group_state.of(CommitRefused)] == refusals
    if refusals:
        assert group_state.next(1.0) is None
    else:
        assert group_state.send(1.0).positions == {P0: by(9)}


def test_a_mark_for_what_lies_beyond_the_log_end_is_refused() -> None:
    """The guard's mark is not put on an offset that the log no longer reaches."""
    group_state = GroupWithKafka()
    group_state.kafka.held[P0] = by(5, run="r0")
    group_state.kafka.ends[P0] = 2
    group_state.withhold({P0: by(9)})
    group_state.compare(0.0)
    assert group_state.only(CommitRefused).refusal is Refusal.BEYOND_LOG_END


def test_a_foreign_commit_with_a_mark_below_stops_the_commits() -> None:
    """Another run's mark below what was confirmed here is taken up, and named."""
    group_state = newly_committed(5)
    group_state.kafka.held[P0] = by(3, run="r0", withheld=True)
    group_state.compare(60.0)
    assert Refusal.WITHHELD_BEFORE in [event.refusal for event in group_state.of(CommitRefused)]


@pytest.mark.parametrize(
    ("then", "recommit", "rewound_from"),
    [
        (by(6, batch=3), False, 94),  # overtaken by newer offsets
        (by(2, run="r2"), True, 94),  # as the end of a run offers it, or a recommit
        (by(94), False, None),  # made good: no rewind any more
    ],
)
def test_a_rewind_is_declared_whatever_is_offered_before_it_is_sent(
    then: Position, recommit: bool, rewound_from: int | None
) -> None:
    """Whatever takes the group back says so in its metadata, however many offers were merged."""
    group_state = GroupWithKafka(policy=Policy(on_rewind=OnRewind.ALLOW))
    group_state.kafka.held[P0] = by(94, run="r0")
    group_state.offer_and_compare(0.0, {P0: by(2)})
    group_state.offer({P0: then}, recommit=recommit)
    sent = group_state.send(0.0).positions[P0]
    metadata = metadata_of(sent)
    assert (sent.offset, metadata.rewound_from) == (then.offset, rewound_from)
    assert replace(metadata, rewound_from=None) == metadata_of(then)


def test_an_earlier_mark_holds_where_the_guard_withholds_again() -> None:
    """A second violation does not take the group past the first one, which nobody accepted."""
    group_state = GroupWithKafka()
    group_state.kafka.held[P0] = by(3, run="r0", withheld=True)
    group_state.offer({P0: by(8)})
    group_state.withhold({P0: by(9)})
    group_state.compare(0.0)
    assert group_state.only(CommitRefused).refusal is Refusal.WITHHELD_BEFORE
    assert group_state.next(0.0) is None


def test_a_topic_recreated_ends_its_commits() -> None:
    """Another topic id: it is said, what waited is named, and no offer is taken in any more."""
    group_state = seasoned()
    group_state.offer({P0: by(6)})
    group_state.kafka.topic_id = "id2"
    group_state.compare(200.0)
    event = group_state.only(TopicRecreated)
    assert (event.was, event.now, event.offsets) == ("id1", "id2", Offsets({P0: 6}))
    group_state.offer({P0: by(7), P1: by(7)}, recommit=True)
    assert group_state.next(300.0) is None
    assert not group_state.complete()


@pytest.mark.parametrize("by_look", [True, False])
def test_a_fenced_group_gives_up_for_good(by_look: bool) -> None:
    """Once another committer has taken over, nothing of this run is read, sent or accepted."""
    group_state = seasoned()
    group_state.offer({P0: by(6)})
    if by_look:
        group_state.unread(200.0, "_FENCED")
    else:
        group_state.fail(group_state.send(70.0), "_FENCED", 70.0)
    event = group_state.only(CommitterFenced)
    assert event.offsets == Offsets({P0: 6})
    group_state.offer({P0: by(7)})
    assert group_state.next(300.0) is None
    assert group_state.next_try() is None
    assert not group_state.complete()


def test_a_topic_that_is_refused_holds_up_no_other() -> None:
    """Its partitions alone wait, with its error; when it may be seen it is committed too."""
    other = TopicPartition("u", 0)
    kafka = Kafka(partitions=(P0, P1, other))
    kafka.refused = {"t": "TOPIC_AUTHORIZATION_FAILED"}
    group_state = GroupWithKafka(kafka)
    group_state.offer_and_compare(0.0, {P0: by(5), P1: by(6), other: by(7)})
    failed = group_state.only(CommitFailed)
    assert failed.errors == dict.fromkeys((P0, P1), "TOPIC_AUTHORIZATION_FAILED")
    assert failed.refused
    request = group_state.send(0.0)
    assert request.positions.keys() == {other}
    group_state.confirm(request, 0.0)
    assert group_state.next(0.0) is None
    assert not group_state.idle()
    assert group_state.stuck(0.0)
    kafka.refused = {}
    group_state.compare(60.0)
    assert group_state.send(60.0).positions.keys() == {P0, P1, other}


def test_each_error_of_a_snapshot_is_reported_by_itself() -> None:
    """What is gone and what is refused are two failures: each has advice of its own."""
    gone, kafka = TopicPartition("u", 0), Kafka()
    kafka.refused = {"t": "TOPIC_AUTHORIZATION_FAILED"}
    group_state = GroupWithKafka(kafka)
    group_state.offer_and_compare(0.0, {P0: by(5), gone: by(7)})
    codes = {one.code: set(one.errors) for one in group_state.of(CommitFailed)}
    assert codes == {"TOPIC_AUTHORIZATION_FAILED": {P0}, "UNKNOWN_TOPIC_OR_PART": {gone}}


def many(number: int, topic: str = "t") -> dict[TopicPartition, Position]:
    """So many partitions, each at an offset of its own."""
    return {TopicPartition(topic, one): by(one) for one in range(number)}


def wide(number: int, *, refused_over: int | None = None) -> tuple[GroupWithKafka, list[int]]:
    """A group of so many partitions, served to the end; the sizes of commits, and -snapshots."""
    group_state, sizes = GroupWithKafka(Kafka(partitions=many(number))), []
    group_state.offer(many(number))
    for now in range(10_000):
        request = group_state.next(float(now))
        if isinstance(request, SnapshotRequest):
            assert len(request.partitions) <= SNAPSHOT_PARTITIONS
            sizes.append(-len(request.partitions))
            group_state.shown(request, float(now))
        elif request is not None:
            sizes.append(len(request.positions))
            if refused_over is not None and sizes[-1] > refused_over:
                group_state.fail(request, "INVALID_COMMIT_OFFSET_SIZE", float(now))
            else:
                group_state.confirm(request, float(now))
        if group_state.idle():
            return group_state, sizes
    raise AssertionError(sizes)


def test_a_group_of_many_partitions_is_committed_in_parts() -> None:
    """Snapshots and commits are bounded, each is answered by itself, and nothing is left out."""
    group_state, sizes = wide(4500)
    assert group_state.kafka.held == many(4500)
    whole = [-SNAPSHOT_PARTITIONS, MAX_PART, MAX_PART]
    again = 2  # of each of the first two parts one, to see the topic's id again
    assert sizes == [*whole, *whole, -500 - again, 500]


def test_long_names_make_smaller_parts() -> None:
    """A request is bounded by its bytes too; one partition always fits."""
    names = ["x" * 249, "y" * 249]
    wanted = many(900, names[0]) | many(900, names[1])
    for length, offered in ((1000, wanted), (600_000, {P0: by(5), P1: by(5)})):
        group_state = GroupWithKafka(Kafka(partitions=offered), group="g" * length)
        group_state.offer_and_compare(0.0, offered)
        size = len(group_state.send(0.0).positions)
        assert 300 < size < 500_000 / 1249 if length == 1000 else size == 1


def test_a_broker_that_takes_less_is_sent_less() -> None:
    """What is too large for its record batches is halved, and all lands in the end."""
    group_state, sizes = wide(2000, refused_over=300)
    assert group_state.kafka.held == many(2000)
    assert sizes == [-2000, 1000, 500, 250, 250, -1500 - 2, *[250] * 6]
    group_state, sizes = wide(200, refused_over=MIN_PART)
    assert sizes == [-200, 200, -200, 100, MIN_PART, MIN_PART, -100, MIN_PART, MIN_PART]


def test_a_part_costs_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many partitions a part does not ask all of those that wait for a later one."""
    asked = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any) -> Any:
            nonlocal asked
            asked += 1
            return method(*args)

        return count

    for name in ("sendable", "next_try"):
        monkeypatch.setattr(PartitionState, name, counted(getattr(PartitionState, name)))
    group_state, sizes = wide(20 * MAX_PART)
    assert sizes == [-SNAPSHOT_PARTITIONS, MAX_PART, MAX_PART] * 10
    assert group_state.kafka.held == many(20 * MAX_PART)
    assert asked <= 8 * 20 * MAX_PART


def test_partitions_that_are_gone_do_not_keep_a_snapshot_from_others() -> None:
    """However many of them there are, what waits for a snapshot is read first."""
    gone = many(SNAPSHOT_PARTITIONS + 10, "a")
    group_state = GroupWithKafka(Kafka(partitions=gone))
    group_state.offer(gone)
    for now in (0.0, 61.0):
        while (request := group_state.next(now)) is not None:
            if isinstance(request, SnapshotRequest):
                group_state.shown(request, now)
            else:
                group_state.confirm(request, now)
    group_state.kafka.ends = {P0: 1000}
    request = group_state.offer_and_compare(200.0, {P0: by(5)})
    assert request.partitions[0] == P0
    assert len(request.partitions) == SNAPSHOT_PARTITIONS
    assert group_state.send(200.0).positions.keys() == {P0}


def test_an_idle_partition_that_vanished_comes_back_too() -> None:
    """A snapshot for one partition shows that another is gone from the group: both are sent."""
    group_state = seasoned()
    group_state.kafka.held.clear()
    assert set(group_state.offer_and_compare(120.0, {P1: by(7)}).partitions) == {P0, P1}
    (vanished,) = group_state.of(GroupOffsetsMissing)
    assert vanished.offsets == {P0: 5}
    assert group_state.send(120.0).positions == {P0: by(5), P1: by(7)}


def test_an_idle_partition_that_is_refused_is_checked_until_it_can_go() -> None:
    """A snapshot for another one found it gone from the group, and its log shorter than before."""
    group_state = seasoned()
    group_state.kafka.held.clear()
    group_state.kafka.ends[P0] = 2
    group_state.offer({P1: by(7)})
    for now in (120.0, 180.0):  # the second time to repeat it
        group_state.repeat(now)
    assert group_state.next_try() == 240.0
    group_state.kafka.ends[P0] = 1000
    group_state.compare(240.0)
    assert group_state.send(240.0).positions == {P0: by(5)}


def test_an_idle_partition_that_is_gone_is_no_failure() -> None:
    """A deleted topic with nothing to commit is not reported, snapshot after snapshot."""
    group_state = seasoned()
    del group_state.kafka.ends[P0]
    group_state.offer_and_compare(130.0, {P1: by(7)})
    assert group_state.take() == []
    group_state.confirm(group_state.send(130.0), 130.0)
    assert group_state.complete()


def test_a_loss_is_checked_for_where_there_is_nothing_to_commit() -> None:
    """The log's start is read, and nothing is sent."""
    group_state = seasoned()
    group_state.offer({P0: by(5)}, lossy=True)
    assert group_state.next_try() == 0.0
    assert group_state.compare(100.0).partitions == (P0,)
    assert (group_state.next(100.0), group_state.next_try(), group_state.take()) == (None, None, [])


def test_what_failed_goes_behind_what_waits() -> None:
    """A part that fails again and again does not keep the rest from its turn."""
    wanted = many(MAX_PART + 10)
    group_state = GroupWithKafka(Kafka(partitions=wanted))
    group_state.offer_and_compare(0.0, wanted)
    first = group_state.send(0.0)
    group_state.fail(first, "NOT_COORDINATOR", 0.0)
    group_state.compare(100.0)
    second = group_state.send(100.0).positions
    assert len(second) == MAX_PART
    assert second.keys() >= wanted.keys() - first.positions.keys()


def test_what_is_held_back_is_not_complete() -> None:
    """Nothing is left to be sent, yet the group does not stand where the query does."""
    refused = GroupWithKafka()
    refused.kafka.held[P0] = by(8, run="r0")
    refused.offer_and_compare(0.0, {P0: by(5), P1: by(5)})
    refused.confirm(refused.send(0.0), 0.0)
    withheld = seasoned()
    withheld.withhold({P0: by(9)})
    withheld.confirm(withheld.send(100.0), 100.0)
    assert [
        (group_state.idle(), group_state.complete()) for group_state in (refused, withheld)
    ] == [(True, False)] * 2


def test_one_request_at_a_time_is_out() -> None:
    """While a snapshot or a commit has no answer nothing else is sent, whatever is offered."""
    group_state = GroupWithKafka()
    group_state.offer({P0: by(5)})
    snapshot = group_state.look(0.0)
    group_state.offer({P1: by(5)})
    assert (group_state.next(1.0), group_state.next_try()) == (None, None)
    group_state.shown(snapshot, 1.0)
    group_state.compare(1.0)
    request = group_state.send(1.0)
    group_state.offer({P0: by(9)})
    assert (group_state.next(2.0), group_state.next_try()) == (None, None)
    assert not group_state.stuck(2.0)
    group_state.confirm(request, 2.0)
    assert group_state.send(2.0).positions == {P0: by(9)}


def test_repeats_come_in_the_order_of_their_times() -> None:
    """One that is put off by a new doubt does not hide those that are due before it."""
    group_state = newly_committed(5)
    group_state.commit({P1: by(5)}, 10.0)
    group_state.offer({P0: by(6)})
    group_state.fail(group_state.send(15.0), "_TIMED_OUT", 15.0)
    group_state.repeat(20.0)
    assert group_state.next_try() == 70.0
    group_state.compare(80.0)
    assert group_state.send(80.0).positions.keys() == {P0, P1}


@pytest.mark.parametrize("ahead", [0, 3])
def test_observers_hear_what_a_sink_has_committed(ahead: int) -> None:
    """The group holds it, so it counts as committed; the batch in doubt does not yet."""
    group_state = GroupWithKafka()
    group_state.kafka.held[P0] = by(5 + ahead, by_sink=True)
    group_state.offer_and_compare(0.0, {P0: by(5)})
    assert group_state.only(Committed).offsets == {P0: 5}
    assert group_state.next(0.0) is None
    assert group_state.complete()


# Runs that have ended


@pytest.mark.parametrize("query", ["q1", "q2"])
def test_a_position_of_an_ended_run_gives_way(query: str) -> None:
    """It was never in the group: the offer of the only live run is not below anything."""
    group_state = GroupWithKafka()
    group_state.offer({P0: by(100)})
    group_state.end_run("r1")
    group_state.offer_and_repeat(0.0, {P0: by(10, query=query, run="r2")})
    assert group_state.kafka.held == {P0: by(10, query=query, run="r2")}


def test_a_position_of_a_live_rival_does_not_give_way() -> None:
    """The waiting position stays; then the slower query is refused."""
    group_state = GroupWithKafka()
    group_state.offer({P0: by(100)})
    group_state.offer({P0: by(10, query="q2", run="r2")}, rivals=[P0])
    assert group_state.waiting() == {P0: 100}
    group_state.repeat(0.0)
    group_state.offer_and_compare(1.0, {P0: by(20, query="q2", run="r2")}, rivals=[P0])
    (refused,) = group_state.of(CommitRefused)
    assert (refused.offsets, refused.obstacles) == (Offsets({P0: 20}), Offsets({P0: 100}))


def test_a_refused_position_of_an_ended_run_is_given_up() -> None:
    """The group is taken back on purpose later: the dead run does not move it again."""
    group_state = GroupWithKafka()
    group_state.kafka.held[P0] = by(200, query="q2", run="r2")
    group_state.offer_and_compare(0.0, {P0: by(100)})
    group_state.end_run("r1")
    assert group_state.next_try() is None
    assert not group_state.complete()  # until a later run is where the group is
    group_state.offer_and_repeat(1.0, {P0: by(200, query="q2", run="r2")})
    assert group_state.complete()
    group_state = GroupWithKafka(group_state.kafka)  # it ends before the group was read
    group_state.offer({P0: by(100)})
    group_state.end_run("r1")
    group_state.compare(0.0)
    (refused,) = group_state.of(CommitRefused)
    assert refused.refusal is Refusal.BELOW_GROUP
    assert group_state.next_try() is None


@pytest.mark.parametrize("early", [False, True])
def test_the_next_run_meets_the_obstacle_again(early: bool) -> None:
    """A fresh checkpoint is far below the group: its restart reads the group before it commits."""
    group_state = GroupWithKafka()
    group_state.kafka.held[P0] = by(200, query="q2", run="r2")
    group_state.offer({P0: by(10)})
    if early:
        group_state.end_run("r1")
    group_state.compare(0.0)
    if not early:
        group_state.end_run("r1")
    group_state.offer_and_compare(0.1, {P0: by(20, run="r3")})
    assert len(group_state.of(CommitRefused)) == 2
    assert group_state.kafka.held[P0].offset == 200


LATER = [  # commits that no run of q1 made
    by(30, query="q2", run="r2"),
    Position(offset=30, metadata=""),
    by(30, run="cmd", batch=3, rewound_from=100, command="group rewind"),
]


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("how", ["sent", "not read", "beyond the log's end"])
def test_an_ended_run_takes_the_group_from_nobody(how: str, later: Position) -> None:
    """Its last offset waits for Kafka; meanwhile somebody else, or a command, moves the group."""
    group_state = GroupWithKafka(Kafka(end=50 if how.startswith("beyond") else 1000))
    group_state.offer({P0: by(100)})
    if how == "not read":
        group_state.unread(0.0)
    else:
        group_state.compare(0.0)
    if how == "sent":
        group_state.fail(group_state.send(0.0), "_TIMED_OUT", 0.0)
    group_state.end_run("r1")
    group_state.kafka.held[P0], group_state.kafka.ends[P0] = later, 1000
    group_state.take()
    group_state.compare(60.0)
    assert group_state.next_try() is None
    refused = group_state.only(CommitRefused)
    assert (refused.refusal, refused.obstacles) == (Refusal.AFTER_END, Offsets({P0: 30}))
    assert not group_state.complete()  # until a later run is where the group is
    group_state.offer_and_repeat(61.0, {P0: by(120, run="r3")})
    assert group_state.complete()


@pytest.mark.parametrize("held", [by(10, run="r0"), *LATER])
def test_the_first_commit_of_an_ended_run_takes_nobody_back(held: Position) -> None:
    """A late request of its own query is corrected; a group that somebody took back stays.

    A command names the query whose group it moves back; it is no late request of that query.
    """
    group_state = newly_committed(100)
    group_state.end_run("r1")
    group_state.kafka.held[P0] = held
    group_state.compare(60.0)
    if held not in LATER:
        group_state.confirm(group_state.send(60.0), 60.0)
        assert group_state.kafka.held[P0] == by(100)
    assert group_state.next_try() is None


@pytest.mark.parametrize("earlier", [None, *LATER])
@pytest.mark.parametrize("read", [False, True])
def test_an_ended_run_still_commits_its_last_offset(earlier: Position | None, read: bool) -> None:
    """A short run ends before the group is read; what the group held before it is no obstacle."""
    group_state = GroupWithKafka()
    if earlier is not None:
        group_state.kafka.held[P0] = earlier
    group_state.offer({P0: by(100)})
    if read:
        group_state.compare(0.0)
        group_state.fail(group_state.send(0.0), "_TIMED_OUT", 0.0)
    group_state.end_run("r1")
    group_state.compare(60.0)
    assert group_state.send(60.0).positions == {P0: by(100)}


def test_short_runs_follow_another_query() -> None:
    """Each ends before the group is read, which still holds what the other query committed."""
    group_state = GroupWithKafka()
    group_state.commit({P0: by(100)}, 0.0)
    group_state.end_run("r1")
    for number in (2, 3):
        group_state.invalidate_snapshots()
        newer = by(100 + number, query="q2", run=f"r{number}")
        group_state.offer({P0: newer})
        group_state.end_run(f"r{number}")
        group_state.repeat(60.0 * number)
        assert group_state.kafka.held[P0] == newer


def test_an_offset_of_an_ended_run_is_not_of_the_new_topic() -> None:
    """It waits for Kafka, and its run has ended, when the topic is recreated."""
    group_state = GroupWithKafka()
    group_state.offer({P0: by(500)})
    group_state.compare(0.0)
    group_state.fail(group_state.send(0.0), "_TIMED_OUT", 0.0)
    group_state.end_run("r1")
    group_state.kafka.recreate("id2")
    group_state.take()
    group_state.compare(60.0)
    assert group_state.of(TopicRecreated)
    assert group_state.next_try() is None


def test_what_the_guard_withholds_is_not_sent_after_a_fence() -> None:
    """The first thing that a later run does may be to withhold."""
    group_state = GroupWithKafka()
    group_state.commit({P0: by(100)}, 0.0)
    group_state.offer_and_compare(0.0, {P0: by(150)})
    group_state.fail(group_state.send(0.0), "FENCED_INSTANCE_ID", 0.0)
    group_state.end_run("r1")
    group_state.withhold({P0: by(300, run="r2")})
    group_state.offer({P0: by(300, run="r2")}, recommit=True)
    group_state.repeat(60.0)
    assert group_state.kafka.held[P0].offset == 100


def test_a_query_that_runs_again_is_live() -> None:
    """What its run before has confirmed is its own: an offset that vanished is sent again."""
    group_state = newly_committed(100)
    group_state.end_run("r1")
    group_state.offer({P0: by(100, run="r2")})
    del group_state.kafka.held[P0]
    group_state.compare(60.0)
    assert group_state.of(GroupOffsetsMissing)
    assert group_state.send(60.0).positions[P0].offset == 100


def test_an_ended_run_is_still_checked_against_a_log_that_ends_too_early() -> None:
    """A new leader may show an old end for a moment."""
    group_state = GroupWithKafka(Kafka(end=50))
    group_state.offer_and_compare(0.0, {P0: by(100)})
    group_state.end_run("r1")
    assert group_state.of(CommitRefused)
    group_state.compare(60.0)
    assert not group_state.take()  # reported before
    group_state.kafka.ends[P0] = 100
    group_state.compare(120.0)
    assert group_state.send(120.0).positions == {P0: by(100)}


def test_a_lower_offset_is_judged_by_the_group() -> None:
    """The group still has the higher one: no success. If it has lost it, the lower one is sent."""
    group_state = seasoned()
    group_state.offer_and_compare(70.0, {P0: by(3, query="q2", run="r2")})
    (refused,) = group_state.of(CommitRefused)
    assert (refused.refusal, refused.offsets) == (Refusal.BELOW_GROUP, Offsets({P0: 3}))
    assert not group_state.complete()
    group_state.offer({P0: by(5, query="q2", run="r2")})  # as far as the group is
    group_state.confirm(group_state.send(70.0), 70.0)
    assert group_state.complete()
    group_state.end_run("r2")
    group_state.kafka.held.clear()
    group_state.offer_and_repeat(80.0, {P0: by(4, query="q3", run="r3")})
    assert group_state.kafka.held == {P0: by(4, query="q3", run="r3")}


@pytest.mark.parametrize("on_rewind", OnRewind)
@pytest.mark.parametrize("first", [True, False])
def test_a_lower_offset_of_the_next_query_does_not_go_over_a_late_answer(
    on_rewind: OnRewind, *, first: bool
) -> None:
    """The commit of the run that has ended was under way, and has landed: a rewind, declared."""
    policy = Policy(on_rewind=on_rewind)
    group_state = GroupWithKafka(policy=policy) if first else seasoned(policy=policy)
    group_state.offer({P0: by(100)})
    if first:
        group_state.compare(70.0)
    request = group_state.send(70.0)
    group_state.end_run("r1")
    group_state.offer({P0: by(10, query="q2", run="r2")})
    group_state.confirm(request, 71.0)
    group_state.compare(71.0)
    if on_rewind is OnRewind.REFUSE:
        assert group_state.of(CommitRefused)
        assert group_state.next(71.0) is None
        return
    sent = group_state.send(71.0).positions[P0]
    assert (sent.offset, metadata_of(sent).rewound_from) == (10, 100)


@pytest.mark.parametrize("state", ["waits", "is under way", "is beyond the log's end"])
@pytest.mark.parametrize("replaced", [True, False])
def test_the_waiting_offset_of_a_replaced_query_is_dropped(state: str, *, replaced: bool) -> None:
    """Even before the new query has an offset; after a mere deletion it is still committed."""
    group_state = GroupWithKafka(Kafka(end=50 if "end" in state else 1000))
    group_state.offer({P0: by(100)})
    if state != "waits":
        group_state.compare(0.0)
    request = group_state.send(0.0) if state == "is under way" else None
    group_state.end_run("q1", replaced=replaced)
    if request is not None:
        group_state.fail(request, "NOT_COORDINATOR", 0.0)
    group_state.kafka.ends[P0] = 1000
    assert (group_state.next(300.0) is None) == replaced


# Groups that another committer has taken over


def fenced(group_state: GroupWithKafka, now: float) -> None:
    """Let the next commit be answered by the broker's last word."""
    group_state.fail(group_state.send(now), "_FENCED", now)


def test_a_later_run_takes_a_fenced_group_back() -> None:
    """With its first offer, once; the run that was fenced, and late events of it, do not."""
    group_state = seasoned()
    group_state.offer({P0: by(6)})
    fenced(group_state, 70.0)
    assert group_state.of(CommitterFenced)
    group_state.end_run("r1")
    group_state.offer({P0: by(6)})  # a late event
    assert group_state.next(80.0) is None
    assert not group_state.complete()
    group_state.end_run("r1")
    assert group_state.offer_and_compare(90.0, {P0: by(7, run="r2")}).takes_over
    group_state.confirm(group_state.send(90.0), 90.0)
    assert group_state.complete()
    group_state.offer({P0: by(8, run="r2")})
    fenced(group_state, 91.0)  # it was taken back
    assert group_state.of(CommitterFenced)
    group_state.offer({P0: by(9, run="r2")})
    assert group_state.next(300.0) is None


def test_a_new_run_that_finds_the_group_taken_takes_it_back_once() -> None:
    """A query has moved to another driver and back: the fence is met by its first commit here."""
    group_state = seasoned()
    group_state.end_run("r1")
    group_state.kafka.held[P0] = by(6, run="elsewhere")
    group_state.offer_and_compare(200.0, {P0: by(7, run="r2")})
    group_state.take()
    fenced(group_state, 200.0)
    assert group_state.take() == []
    request = group_state.look(200.0)
    assert request.takes_over
    group_state.reported += group_state.on_snapshot_failed(request, "_TIMED_OUT", 200.0)
    assert not group_state.compare(300.0).takes_over  # the first one may have succeeded
    fenced(group_state, 300.0)
    assert CommitterFenced in {type(event) for event in group_state.take()}
    assert group_state.next(400.0) is None


def test_a_run_that_has_committed_does_not_take_the_group_back() -> None:
    """Whoever fences it began later."""
    group_state = seasoned()
    group_state.end_run("r1")
    group_state.commit({P0: by(6, run="r2")}, 200.0)
    group_state.offer({P0: by(7, run="r2")})
    fenced(group_state, 201.0)
    assert group_state.of(CommitterFenced)
    assert group_state.next(300.0) is None


def test_two_new_drivers_do_not_take_a_group_from_each_other_for_ever() -> None:
    """Whoever is fenced at its first commit of all has a successor, and stops."""
    group_state = GroupWithKafka()
    group_state.offer({P0: by(5)})
    group_state.unread(0.0, "_FENCED")
    assert group_state.of(CommitterFenced)
    assert group_state.next(0.0) is None


def test_of_a_hundred_runs_nothing_is_kept() -> None:
    """Each finds the group taken, or its topic recreated, and goes on."""
    group_state = seasoned()
    for number in range(100):
        now, run = 1000.0 * (number + 1), f"r{number + 2}"
        group_state.end_run(f"r{number + 1}")
        group_state.kafka.recreate(f"id{number}")
        group_state.offer_and_compare(now, {P0: by(number, query=f"q{number}", run=run)})
        fenced(group_state, now)
        group_state.repeat(now)
        assert group_state.kafka.held == {P0: by(number, query=f"q{number}", run=run)}
        assert group_state.complete()
    assert not group_state.of(TopicRecreated)
    sizes = [len(vars(group_state)[name]) for name in ("_runs", "_partitions", "_recreated")]
    assert sizes == [1, 1, 0]


# Topics that were recreated


def recreated() -> GroupWithKafka:
    """A group whose topic was recreated under its run r1."""
    group_state = seasoned()
    group_state.kafka.recreate("id2")
    group_state.offer_and_compare(200.0, {P0: by(6)})
    group_state.only(TopicRecreated)
    return group_state


def test_a_later_run_is_committed_to_the_new_topic() -> None:
    """Whichever query; the run of the old topic is not, and neither are its late events."""
    group_state = recreated()
    group_state.offer_and_repeat(201.0, {P0: by(2, query="q2", run="r2")})
    group_state.offer({P0: by(7), P1: by(7)})
    assert group_state.next(250.0) is None
    assert not group_state.complete()
    group_state.end_run("r1")
    assert group_state.complete()
    group_state.offer({P0: by(8)})  # a late event
    assert group_state.next(250.0) is None
    assert group_state.kafka.held == {P0: by(2, query="q2", run="r2")}


def test_a_topic_recreated_twice_is_reported_twice() -> None:
    """The run that read the second topic hears of the third."""
    group_state = recreated()
    group_state.end_run("r1")
    group_state.offer_and_repeat(201.0, {P0: by(2, run="r2")})
    group_state.repeat(270.0)
    group_state.take()
    group_state.kafka.topic_id = "id3"
    group_state.offer_and_compare(400.0, {P0: by(3, run="r2")})
    assert group_state.only(TopicRecreated).offsets == Offsets({P0: 3})


def test_a_run_whose_first_look_shows_the_new_topic_is_no_part_of_the_old_one() -> None:
    """No run was there when the topic was recreated: no event, and the offset is sent."""
    group_state = seasoned()
    group_state.end_run("r1")
    group_state.kafka.recreate("id2")
    group_state.offer_and_repeat(200.0, {P0: by(2, query="q2", run="r2")})
    assert group_state.kafka.held == {P0: by(2, query="q2", run="r2")}
    assert not group_state.of(TopicRecreated)


def test_a_run_that_began_since_the_last_look_goes_on_beside_one_that_is_stopped() -> None:
    """The old topic was last seen before its first offer."""
    group_state = seasoned()
    group_state.kafka.recreate("id2")
    group_state.offer({P0: by(6), P1: by(6)})
    group_state.offer_and_repeat(200.0, {P1: by(2, query="q2", run="r2")})
    (event,) = group_state.of(TopicRecreated)
    assert event.offsets == Offsets({P0: 6})
    assert group_state.kafka.held == {P1: by(2, query="q2", run="r2")}


def test_one_stale_id_stops_no_query() -> None:
    """The first look was answered by a broker that lagged behind: the commit is still there."""
    group_state = newly_committed(5, Kafka(topic_id="the one before"))
    group_state.kafka.topic_id = "id1"
    group_state.offer_and_repeat(1.0, {P0: by(6)})  # before its second commit the id is read again
    group_state.commit({P0: by(7)}, 2.0)
    assert group_state.kafka.held == {P0: by(7)}
    assert not group_state.of(TopicRecreated)
    group_state.kafka.topic_id = "id2"
    group_state.compare(62.0)  # now it is certain
    assert group_state.of(TopicRecreated)


def test_an_id_that_was_seen_once_does_not_hide_that_the_topic_was_recreated() -> None:
    """With the topic the offset is gone from the group."""
    group_state = newly_committed(5)
    group_state.kafka.recreate("id2")
    group_state.offer_and_compare(1.0, {P0: by(6)})
    assert group_state.of(TopicRecreated)
    assert group_state.next(1.0) is None
