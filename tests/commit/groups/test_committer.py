"""The threads around the cluster state: they react at once, survive faults, and end in time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import Mock

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups import worker
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.group_state import GroupState
from eo_listener.commit.groups.policy import Backoff
from eo_listener.commit.tracking.event_buffer import Ended
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.errors import KafkaError
from eo_listener.events import (
    CommitAbandoned,
    CommitFailed,
    Committed,
    Event,
    InternalError,
    Observers,
)
from eo_listener.offsets import Offsets, Position, TopicPartition
from eo_listener.testing import Fault, MemoryGroups, MemoryQueries
from tests.commit.tracking.memory_tracking import OPTIONS, event
from tests.threads import none_left
from tests.waiting import until

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
K = Cluster.from_properties({"bootstrap.servers": "k:9092"})
OTHER = Cluster.from_properties({"bootstrap.servers": "other:9092"})
_Kind = TypeVar("_Kind", bound=Event)
QUICK = Backoff(first=0.01, longest=0.05, refused_first=30.0, repeat_after=0.01)


def commit(
    offset: int, tp: TopicPartition = P0, cluster: Cluster = K, group: str = "g"
) -> GroupOffsets:
    return GroupOffsets(cluster=cluster, group=group, positions={tp: Position(offset=offset)})


def failing(code: str) -> Fault:
    """A request that fails for each of its partitions."""
    return lambda group, positions: dict.fromkeys(positions, code)


class RecordedCommitter:
    """A committer over in-memory groups, and all events that it emitted."""

    def __init__(self) -> None:
        self.stores: dict[Cluster, MemoryGroups] = {}
        self.events: list[Event] = []
        self.opened: list[MemoryGroups] = []
        self.observers = Observers(self.events.append)
        self.committer = Committer(
            self.open, observers=self.observers, retry=QUICK, unused_timeout=0.05
        )

    def open(self, cluster: Cluster) -> MemoryGroups:
        self.opened.append(self.store(cluster))
        return self.opened[-1]

    def store(self, cluster: Cluster = K) -> MemoryGroups:
        return self.stores.setdefault(cluster, MemoryGroups())

    def hang(self) -> threading.Event:
        """Hold the first request to cluster K until the event is set, and then let it through."""
        release = threading.Event()

        def hold(*_: object) -> None:
            release.wait(10.0)

        self.store().faults.append(hold)
        return release

    def commit(self, offer: GroupOffsets) -> bool:
        """Return whether an offer is confirmed in a few seconds."""
        self.committer.offer(offer)
        return self.committer.flush(5.0)

    def held(self, cluster: Cluster = K, group: str = "g") -> int:
        """The offset that a group holds in its first partition."""
        return self.store(cluster).groups[group][P0].offset

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def house() -> Iterator[RecordedCommitter]:
    with none_left():  # a close that is over its time leaves the last request to its thread
        house = RecordedCommitter()
        yield house
        house.committer.close(2.0)


def test_a_flush_waits_for_the_observers() -> None:
    """What is flushed the metrics show, and an observer that flushes does not wait for itself."""
    flushed: list[bool] = []
    seen: list[Event] = []

    def slow(event: Event) -> None:
        flushed.append(committer.flush(5.0))
        time.sleep(0.3)
        seen.append(event)

    groups = MemoryGroups()
    committer = Committer(lambda cluster: groups, observers=Observers(slow))
    committer.offer(commit(5))
    assert committer.flush(5.0)
    assert [type(event) for event in seen] == [Committed]
    started = time.monotonic()
    committer.close(5.0)
    assert flushed == [True]
    assert time.monotonic() - started < 3.0


def test_an_offer_returns_at_once_while_kafka_hangs(house: RecordedCommitter) -> None:
    """A thousand offers to a cluster that does not answer take no time, and one request."""
    release = house.hang()
    started = time.monotonic()
    for offset in range(1000):
        house.committer.offer(commit(offset))
    assert time.monotonic() - started < 5.0
    release.set()
    assert house.committer.flush(5.0)
    assert house.held() == 999
    assert house.store().requests <= 3


def test_a_dead_cluster_does_not_hold_up_another(house: RecordedCommitter) -> None:
    """Each cluster has a thread and a client of its own."""
    release = house.hang()
    house.committer.offer(commit(5))
    house.committer.offer(commit(7, cluster=OTHER))
    until(lambda: house.store(OTHER).history)
    assert house.held(OTHER) == 7
    assert house.store(K).history == []
    release.set()


def test_faults_of_every_kind_end_in_a_commit(house: RecordedCommitter) -> None:
    """Errors by partition, of the whole request, a missing answer and a crash are all retried."""
    whole = Mock(side_effect=KafkaError("no answer", code="_TIMED_OUT"))
    crash = Mock(side_effect=RuntimeError("a bug in a client library"))
    house.store().faults.extend([whole, failing("NOT_COORDINATOR"), lambda group, at: {}, crash])
    assert house.commit(commit(5))
    assert house.held() == 5
    assert [failed.code for failed in house.of(CommitFailed)] == [
        "_TIMED_OUT",
        "NOT_COORDINATOR",
        "_MISSING_ANSWER",
        "_MALFUNCTION",
    ]


def test_flush_gives_up_at_once_on_a_refusal(house: RecordedCommitter) -> None:
    """What lasts until somebody acts is not waited for at the end of a program."""
    house.store().faults.extend([failing("UNKNOWN_MEMBER_ID")] * 3)
    house.committer.offer(commit(5))
    started = time.monotonic()
    assert not house.committer.flush(20.0)
    assert time.monotonic() - started < 5.0


def test_close_is_bounded_and_names_what_is_lost(house: RecordedCommitter) -> None:
    """Against a cluster that never answers, close ends in its time and says what stays behind."""
    release = house.hang()
    house.committer.offer(commit(5))
    started = time.monotonic()
    house.committer.close(0.5)
    assert time.monotonic() - started < 8.0
    (lost,) = house.of(CommitAbandoned)
    assert lost.offsets == Offsets({P0: 5})
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("eo-listener-commit"):
            thread.join(5.0)
    assert house.store().closed


def test_nothing_after_a_close(house: RecordedCommitter, caplog: pytest.LogCaptureFixture) -> None:
    """An offer after close is refused aloud, and a second close does nothing."""
    house.committer.close(1.0)
    house.committer.close(1.0)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        house.committer.offer(commit(5))
    assert "committer was closed" in caplog.text
    assert house.store().history == []


def test_a_client_that_cannot_be_tended_stops_nothing(
    house: RecordedCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while polling the client leaves the thread alive and committing."""
    crash = Mock(side_effect=RuntimeError("a bug in a client library"))
    monkeypatch.setattr(MemoryGroups, "poll", crash)
    for offset in (5, 6):
        assert house.commit(commit(offset))
    assert house.held() == 6


def test_a_fault_of_ours_does_not_end_the_thread(
    house: RecordedCommitter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong between two requests is reported, and the commits continue."""
    on_snapshot = GroupState.on_snapshot
    faults = [RuntimeError("a bug of ours")]

    def broken(group_state: GroupState, *given: Any) -> tuple[Event, ...]:
        if faults:
            group_state.on_snapshot_failed(given[0], "_TRANSPORT", given[2])
            raise faults.pop()
        return on_snapshot(group_state, *given)

    monkeypatch.setattr(GroupState, "on_snapshot", broken)
    house.committer.offer(commit(5))
    assert house.committer.flush(10.0)
    assert house.held() == 5
    (reported,) = house.of(InternalError)
    assert reported.problem == "RuntimeError"
    assert "a bug of ours" in caplog.text


def test_hanging_groups_keep_no_healthy_one_from_the_last_flush(house: RecordedCommitter) -> None:
    """Three groups that have failed before wait until the healthy one has been committed."""

    def slow(group: str, positions: Mapping[TopicPartition, Position]) -> None:
        if group != "healthy":
            time.sleep(0.4)
            raise KafkaError("no answer", code="_TIMED_OUT")

    house.store().faults.extend([slow] * 100)
    for group in ("a", "b", "c"):
        house.committer.offer(commit(5, group=group))
    until(lambda: len(house.of(CommitFailed)) >= 3)
    house.committer.offer(commit(5, group="healthy"))
    house.committer.close(1.5)
    assert house.held(group="healthy") == 5


def workers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("eo-listener-commit")]


def test_unused_ones_are_given_back(
    house: RecordedCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's thread and client go some time after its last run, and come back when needed."""
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.01)
    clusters = [
        Cluster.from_properties({"bootstrap.servers": "k:9092", "sasl.password": str(number)})
        for number in range(5)
    ]
    for cluster in clusters:
        house.committer.offer(commit(5, cluster=cluster))
        assert house.commit(commit(5, cluster=OTHER))
        house.committer.set_used_clusters([OTHER])
        until(lambda: len(workers()) <= 1)
        assert house.store(cluster).closed
    assert not house.store(OTHER).closed
    assert house.commit(commit(6, cluster=clusters[0]))
    assert house.held(clusters[0]) == 6
    assert house.opened.count(house.store(clusters[0])) == 2


@pytest.mark.parametrize(("code", "kept"), [("_FENCED", False), ("UNKNOWN_MEMBER_ID", True)])
def test_what_a_run_has_left_waiting(
    house: RecordedCommitter, monkeypatch: pytest.MonkeyPatch, code: str, kept: bool
) -> None:
    """What Kafka refuses is kept, and tried; a fenced client is closed, and another one opened."""
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.01)
    house.store().faults.append(failing(code))
    assert not house.commit(commit(5))
    house.committer.set_used_clusters(())
    if kept:
        time.sleep(0.3)
        assert len(workers()) == 1
        house.committer.retry_now([(str(K), "g")])
    else:
        until(lambda: not workers())
        house.committer.offer(commit(6))
    assert house.committer.flush(5.0)
    assert house.held() == (5 if kept else 6)


def test_ended_runs_feed_nothing(house: RecordedCommitter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracker says so; while another run feeds the same cluster it stays open."""
    monkeypatch.setattr(worker, "_POLL_INTERVAL", 0.01)
    tracker = TrackerThread(
        GroupRouting(), MemoryQueries(OPTIONS), house.committer, house.observers
    )
    tracker.put(event(0, None, 5))
    tracker.put(event(0, None, 5, run="r2", query="q2"))
    assert tracker.flush(time.monotonic() + 5.0)
    tracker.put(Ended("r1"))
    assert tracker.flush(time.monotonic() + 5.0)
    assert house.committer.flush(5.0)
    time.sleep(0.3)
    assert len(workers()) == 1
    tracker.put(Ended("r2"))
    until(lambda: not workers())
    assert house.store().closed
    tracker.close(time.monotonic() + 2.0)


def test_a_later_run_takes_the_group_back_before_it_is_read(house: RecordedCommitter) -> None:
    """The store is told so, once: another committer had the group."""
    told: list[tuple[str, int]] = []

    class Taken(MemoryGroups):
        def take_over(self, group: str) -> None:
            told.append((group, self.snapshots))

    groups = house.stores[K] = Taken()
    groups.faults.append(failing("_FENCED"))
    for offset in (5, 6):
        assert not house.commit(replace(commit(offset), owner="r1"))
    house.committer.offer(replace(commit(7), owner="r2"))
    assert not told
    assert house.committer.flush(5.0)
    assert told == [("g", 1)]
    assert house.held() == 7
