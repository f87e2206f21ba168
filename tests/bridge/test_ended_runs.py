"""When a run that has ended needs no more care."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from eo_listener.bridge.service import LONGEST, SHORTEST, SettledRunReporter
from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.cluster_state import ClusterState
from eo_listener.commit.groups.group_offsets import GroupKeys, GroupOffsets, Waiting
from eo_listener.commit.groups.group_state import SnapshotRequest
from eo_listener.events import CommitAbandoned, CommitRefused, Event, Refusal, RunGroupsChanged
from eo_listener.model.protocols import GroupSnapshot
from eo_listener.offsets import Offsets, Position, TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
K = "k:9092"


def commit_of(offset: int, tp: TopicPartition = TP) -> GroupOffsets:
    """One offset for a group, whose name the test gives."""
    cluster = Cluster.from_properties({"bootstrap.servers": K})
    return GroupOffsets(cluster=cluster, group="", positions={tp: Position(offset=offset)})


class Driver:
    """A committer's cluster state and a reporter on the test's clock; `codes`: Kafka's errors."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cluster_state = ClusterState(K)
        self.settled: list[str] = []
        self.reporter = SettledRunReporter(self.settled.append)
        self.codes: dict[str, str] = {}
        self.held: dict[str, dict[TopicPartition, Position]] = {}
        self.requests: Counter[str] = Counter()
        self.events: list[Event] = []
        self._pause, self._look_at = SHORTEST, 0.0

    def run(self, name: str, *offers: tuple[str, int], tp: TopicPartition = TP) -> None:
        """A run that feeds these groups, has reached these offsets, and ends."""
        groups = frozenset((K, group) for group, _ in offers)
        self.reporter(RunGroupsChanged(query="q", run_id=name, groups=groups, ended=False))
        for group, offset in offers:
            self.offer(group, offset, tp)
        self.reporter.add(name)
        self.cluster_state.retry_now(group for group, _ in offers)
        self._pause, self._look_at = SHORTEST, self.now

    def offer(self, group: str, offset: int, tp: TopicPartition = TP) -> None:
        """Something is to be committed."""
        self.cluster_state.group(group).offer(commit_of(offset, tp))

    def waiting(self, groups: GroupKeys) -> frozenset[Waiting]:
        """What the committer's `waiting` gives."""
        return self.cluster_state.waiting([group for cluster, group in groups if cluster == K])

    def pass_by(self, seconds: float) -> None:
        """Let so much time go by, in steps of a tenth of a second."""
        until = self.now + seconds
        while self.now < until:
            while self._ask_kafka():
                pass
            if self.now >= self._look_at:
                self.reporter.report_settled(self.waiting)
                self._pause = min(LONGEST, self._pause * 2)
                self._look_at = self.now + self._pause
            self.now += 0.1

    def _ask_kafka(self) -> bool:
        request = self.cluster_state.next(self.now)
        if request is None:
            return False
        self.requests[request.group] += 1
        group, code = self.cluster_state.group(request.group), self.codes.get(request.group)
        held = self.held.setdefault(request.group, {})
        if not isinstance(request, SnapshotRequest):
            held.update(request.positions if code is None else {})
            answer = dict.fromkeys(request.positions, code)
            self.events += group.on_commit_answer(request, answer, self.now)
        elif code is None:
            here = {tp: held[tp] for tp in request.partitions if tp in held}
            ends = dict.fromkeys(request.partitions, 1000)
            snapshot = GroupSnapshot(positions=here, starts={}, ends=ends, topic_ids={"t": "id"})
            self.events += group.on_snapshot(request, snapshot, self.now)
        else:
            self.events += group.on_snapshot_failed(request, code, self.now)
        return True


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_run_is_settled_when_its_groups_have_all_it_reached(driver: Driver) -> None:
    """Not before: with Kafka away it is kept, and another bridge could still be told of it."""
    driver.codes = {"a": "_TRANSPORT"}
    driver.run("r1", ("a", 10), ("b", 20))
    driver.run("of no group")
    driver.pass_by(100)
    assert driver.settled == ["of no group"]
    assert driver.held["b"][TP].offset == 20
    del driver.codes["a"]
    driver.pass_by(30)
    assert driver.settled == ["of no group", "r1"]
    assert driver.held["a"][TP].offset == 10


def test_a_group_in_trouble_holds_up_no_run_of_another(driver: Driver) -> None:
    """Fifty runs of a healthy query are settled at once, whatever stands against another group."""
    driver.codes = {"away": "_TRANSPORT", "forbidden": "GROUP_AUTHORIZATION_FAILED"}
    driver.offer("away", 1)
    driver.offer("forbidden", 1)
    for number in range(50):
        driver.run(f"r{number}", ("well", number + 1))
        driver.pass_by(2)
        assert len(driver.settled) == number + 1


def test_a_group_in_trouble_is_not_tried_more_often_for_it(driver: Driver) -> None:
    """With an ended run, and with others that end, it is asked as seldom as without."""
    driver.codes = {"forbidden": "GROUP_AUTHORIZATION_FAILED"}
    alone = Driver()
    alone.codes = driver.codes
    for one in (driver, alone):
        one.run("r", ("forbidden", 1))
        one.pass_by(2)
        one.requests.clear()
    for number in range(200):
        driver.run(f"r{number}", ("well", number + 1))
        driver.pass_by(3)
    alone.pass_by(600)
    assert alone.requests["forbidden"] <= 25  # after a while one a minute
    assert driver.requests["forbidden"] <= 25


@pytest.mark.parametrize("code", ["GROUP_AUTHORIZATION_FAILED", "UNKNOWN_MEMBER_ID"])
def test_what_kafka_refuses_is_dealt_with(driver: Driver, code: str) -> None:
    """A run whose commits Kafka refuses counts as settled, though the committer keeps trying."""
    driver.codes = {"g": code}
    driver.run("r", ("g", 10))
    driver.pass_by(3)
    assert driver.settled == ["r"]
    del driver.codes["g"]
    driver.pass_by(120)
    assert driver.held["g"][TP].offset == 10


@pytest.mark.parametrize("fate", ["below the group", "beyond the log", "withheld", "fenced"])
def test_what_is_not_to_be_sent_is_dealt_with(driver: Driver, fate: str) -> None:
    """A run below its group, a withheld one and one of a fenced committer count as settled."""
    driver.held["g"] = {TP: Position(offset=500)}
    offset = 5000 if fate == "beyond the log" else 10
    if fate == "fenced":
        driver.codes = {"g": "FENCED_INSTANCE_ID"}
    if fate == "withheld":
        driver.cluster_state.group("g").withhold(commit_of(10))
    driver.run("r", ("g", offset))
    driver.pass_by(10)
    assert driver.settled == ["r"]
    if fate in ("below the group", "beyond the log"):
        assert [one.refusal for one in driver.events if isinstance(one, CommitRefused)] == [
            Refusal.BELOW_GROUP if fate == "below the group" else Refusal.BEYOND_LOG_END
        ]


def test_a_run_does_not_wait_for_those_that_go_on(driver: Driver) -> None:
    """Where a busy query feeds the same group, something always waits; not what the run reached."""
    driver.offer("g", 1, OTHER)
    driver.run("r", ("g", 10))
    driver.reporter.report_settled(driver.waiting)
    assert driver.settled == []
    driver._ask_kafka()
    driver._ask_kafka()
    driver.offer("g", 11)
    driver.offer("g", 2, OTHER)
    driver.reporter.report_settled(driver.waiting)
    assert driver.settled == ["r"]
    assert driver.held["g"][TP].offset == 10


def test_other_events_are_passed_over(driver: Driver) -> None:
    """Events of other kinds change nothing, and the end of a run takes no groups from it."""
    driver.reporter(CommitAbandoned(cluster=K, group="g", offsets=Offsets({TP: 1})))
    driver.reporter(
        RunGroupsChanged(query="q", run_id="r", groups=frozenset({(K, "g")}), ended=False)
    )
    driver.reporter(RunGroupsChanged(query="q", run_id="r", groups=frozenset(), ended=True))
    driver.offer("g", 10)
    driver.reporter.add("r")
    driver.reporter.report_settled(driver.waiting)
    assert driver.settled == []


def test_it_checks_again_while_something_waits_and_sleeps_otherwise() -> None:
    """Its daemon thread checks while a run is unsettled, and sleeps otherwise."""
    looks: list[GroupKeys] = []
    settled = threading.Event()

    def waiting(groups: GroupKeys) -> frozenset[Waiting]:
        looks.append(groups)
        return frozenset({Waiting(K, "g", TP, 1)} if len(looks) < 3 else ())

    reporter = SettledRunReporter(lambda _: settled.set())
    before = set(threading.enumerate())
    reporter.start(waiting)
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    thread.join(3 * SHORTEST)
    assert looks == []
    reporter.add("r")
    assert settled.wait(60)
    assert len(looks) == 3  # at the run itself, and twice at what it left


def test_an_end_that_is_reported_twice_settles_nothing_by_itself(driver: Driver) -> None:
    """The run still waits for Kafka, as after its first end."""
    driver.codes = {"g": "_TRANSPORT"}
    driver.run("r", ("g", 10))
    driver.pass_by(10)
    driver.reporter.add("r")
    driver.pass_by(10)
    assert driver.settled == []
    del driver.codes["g"]
    driver.pass_by(120)
    assert driver.settled == ["r"]
