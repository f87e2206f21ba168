"""The decisions for all groups of a cluster, with time as an argument."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.cluster_state import OUT_OF_TURN, STANDSTILL, ClusterState
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.group_state import MAX_PART, CommitRequest, SnapshotRequest
from eo_listener.commit.groups.policy import Backoff
from eo_listener.events import CommitFailed, CommitRefused, Committed, Event
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Position, TopicPartition

K = Cluster.from_properties({"bootstrap.servers": "k:9092"})
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(**offsets: int) -> Mapping[TopicPartition, Position]:
    """Positions of partitions p0, p1 of topic t."""
    return {
        TopicPartition("t", int(name[1:])): Position(offset=offset, metadata=f"m{offset}")
        for name, offset in offsets.items()
    }


def commit_of(positions: Mapping[TopicPartition, Position]) -> GroupOffsets:
    """Positions to offer to a group, whose name the test gives."""
    return GroupOffsets(cluster=K, group="", positions=positions)


class AnsweredClusterState(ClusterState):
    """A cluster state whose snapshots are answered: a group holds just what was confirmed."""

    def __init__(self) -> None:
        super().__init__("k:9092", Backoff(first=1.0, longest=8.0, refused_first=4.0), RANDOM)
        self.held: defaultdict[str, dict[TopicPartition, Position]] = defaultdict(dict)

    def request(self, now: float) -> CommitRequest | None:
        """The commit that is due now, after any snapshot that is due before it."""
        request = self.next(now)
        while isinstance(request, SnapshotRequest):
            ends = dict.fromkeys(request.partitions, 10**9)
            held = self.held[request.group]
            snapshot = GroupSnapshot(positions=held, starts={}, ends=ends, topic_ids={"t": "id"})
            events = self.group(request.group).on_snapshot(request, snapshot, now)
            assert all(isinstance(event, CommitRefused) for event in events)  # of lower offers
            request = self.next(now)
        return request

    def answered(
        self,
        request: CommitRequest,
        answer: Mapping[TopicPartition, str | None],
        now: float,
        detail: str | None = None,
    ) -> tuple[Event, ...]:
        confirmed = {tp: p for tp, p in request.positions.items() if answer.get(tp, "?") is None}
        self.held[request.group].update(confirmed)
        return self.group(request.group).on_commit_answer(request, answer, now, detail)


RANDOM = random.Random(1)


def sent(b: AnsweredClusterState, now: float) -> CommitRequest:
    """The request that is due now."""
    request = b.request(now)
    assert request is not None
    return request


def test_a_partition_left_out_of_the_answer_was_not_confirmed() -> None:
    """A missing answer is an error of that partition, and is tried again."""
    b = AnsweredClusterState()
    b.group("g").offer(commit_of(at(p0=5, p1=6)))
    request = sent(b, 0.0)
    events = b.answered(request, {P0: None}, 0.0)
    assert isinstance(events[0], Committed)
    assert isinstance(events[1], CommitFailed)
    assert events[1].errors == {P1: "_MISSING_ANSWER"}
    assert events[1].unknown
    again = sent(b, 50.0)
    assert set(again.positions) == {P1}


def test_waits_grow_are_spread_stay_bounded_and_end_with_a_success() -> None:
    """After n faults in a row the wait is within half and whole of min(longest, first * 2^n)."""
    b = AnsweredClusterState()
    b.group("g").offer(commit_of(at(p0=5)))
    now, waits = 0.0, []
    for _ in range(6):
        (event,) = b.answered(sent(b, now), {P0: "_TRANSPORT"}, now)
        assert isinstance(event, CommitFailed)
        assert b.request(now + event.retry_in - 0.01) is None
        assert b.wait(now) == pytest.approx(event.retry_in)
        waits.append(event.retry_in)
        now += event.retry_in
    for wait, bound in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert bound / 2 <= wait <= bound
    assert len(set(waits)) == len(waits)
    b.answered(sent(b, now), {P0: None}, now)
    b.group("g").offer(commit_of(at(p0=6)))
    (event,) = b.answered(sent(b, now), {P0: "_TRANSPORT"}, now)
    assert isinstance(event, CommitFailed)
    assert (event.failures, event.retry_in <= 1.0) == (1, True)


def test_retry_now_reaches_what_is_in_flight() -> None:
    """A request that fails after the hurry began is tried at once again, once."""
    b = AnsweredClusterState()
    b.group("g").offer(commit_of(at(p0=5)))
    request = sent(b, 0.0)
    b.retry_now()
    b.answered(request, {P0: "UNKNOWN_TOPIC_OR_PART"}, 1.0)
    assert not b.stuck(1.0)
    b.answered(sent(b, 1.0), {P0: "UNKNOWN_TOPIC_OR_PART"}, 1.0)
    assert b.stuck(1.0)
    assert b.request(1.0) is None


def test_more_than_fits_between_two_batches_is_committed_in_turn() -> None:
    """No partition and no group waits forever, though batches come faster than requests."""
    b = AnsweredClusterState()
    wide = [TopicPartition("t", number) for number in range(5 * MAX_PART)]
    last = {("a", tp): 0 for tp in wide} | {("b", P0): 0}
    for number in range(60):
        if number % 4 == 0:
            b.group("a").offer(commit_of(dict.fromkeys(wide, Position(offset=number + 1))))
            b.group("b").offer(commit_of({P0: Position(offset=number + 1)}))
        request = sent(b, number / 2)
        for tp in request.positions:
            last[request.group, tp] = number
        b.answered(request, dict.fromkeys(request.positions), number / 2)
        assert number - min(last.values()) <= 10, number


def test_a_group_that_fails_has_its_turn_beside_one_that_is_always_due() -> None:
    """It goes after those without failures, and yet not never."""
    b = AnsweredClusterState()
    b.group("b").offer(commit_of(at(p0=1)))
    b.answered(sent(b, 0.0), {P0: "NOT_COORDINATOR"}, 0.0)
    served = []
    for number in range(3 * OUT_OF_TURN):  # b has a turn for its look, and one for its commit
        b.group("a").offer(commit_of(at(p0=number + 1)))
        request = sent(b, 10.0)
        served.append(request.group)
        b.answered(request, {P0: None}, 10.0)
    assert served[0] == "a"
    assert served.count("b") == 1


def test_after_a_standstill_what_was_refused_is_checked_at_once() -> None:
    """Whoever was in the way may be gone: nothing that was seen before counts."""
    b = AnsweredClusterState()
    b.group("g").offer(commit_of(at(p0=5)))
    snapshot = b.next(0.0)
    assert isinstance(snapshot, SnapshotRequest)
    further = {P0: Position(offset=8, metadata="m8")}
    seen = GroupSnapshot(positions=further, starts={}, ends={P0: 10**9}, topic_ids={"t": "id"})
    assert len(b.group(snapshot.group).on_snapshot(snapshot, seen, 0.0)) == 1
    assert b.next(1.0) is None
    assert b.next(1.0 + STANDSTILL) is None
    assert isinstance(b.next(2.0 + 2 * STANDSTILL), SnapshotRequest)


OFFERS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=4)
ANSWERS = st.sampled_from([None, "_TIMED_OUT", "UNKNOWN_TOPIC_OR_PART", "NOT_COORDINATOR", "?"])


@given(st.lists(st.tuples(OFFERS, st.lists(ANSWERS, max_size=3), st.floats(0, 100)), max_size=30))
def test_for_any_offers_and_faults_the_group_is_monotone_and_ends_right(
    steps: list[tuple[list[tuple[int, int]], list[str | None], float]],
) -> None:
    """Commits that land never go back, and once Kafka answers the greatest offers stand."""
    b = AnsweredClusterState()
    group: dict[TopicPartition, int] = {}
    offered: dict[TopicPartition, int] = {}
    now = 0.0

    def confirm(attempt_positions: Mapping[TopicPartition, Position]) -> None:
        for tp, position in attempt_positions.items():
            assert position.offset >= group.get(tp, -1)
            group[tp] = position.offset

    for offers, answers, pause in steps:
        now += pause
        for partition, offset in offers:
            tp = TopicPartition("t", partition)
            offered[tp] = max(offset, offered.get(tp, -1))
            b.group("g").offer(commit_of({tp: Position(offset=offset)}))
        while request := b.request(now):
            answer = dict(zip(request.positions, answers, strict=False))
            confirm({tp: request.positions[tp] for tp, error in answer.items() if error is None})
            b.answered(request, answer, now)
    b.retry_now()
    while request := b.request(now):
        confirm(request.positions)
        b.answered(request, dict.fromkeys(request.positions), now)
    assert group == offered
    assert b.idle()
