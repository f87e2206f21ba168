"""As whom commits are made: what each mode promises, shown on a real coordinator."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer

from eo_listener.errors import KafkaError
from eo_listener.kafka import client, transactional_groups
from eo_listener.kafka.group_stores import open_groups
from eo_listener.kafka.logs import ClusterReader
from eo_listener.model import fault_points
from eo_listener.model.kafka_errors import explain
from eo_listener.model.protocols import GroupStore
from eo_listener.offsets import Position, TopicPartition
from tests.attack.zombies import Puppet
from tests.broker import Broker
from tests.conftest import kafka_version
from tests.groups import await_assignment, insist, shown_state
from tests.topics import Topics, unique
from tests.waiting import until

pytestmark = pytest.mark.kafka

T = TopicPartition
CLASSIC: Mapping[str, str] = {}
NEW = {"group.protocol": "consumer"}
new_protocol = pytest.mark.skipif(
    kafka_version().startswith("3."), reason="groups of the new protocol need Kafka 4"
)
PROTOCOLS = [
    pytest.param(CLASSIC, id="classic"),
    pytest.param(NEW, id="new-protocol", marks=new_protocol),
]
FATAL = {"member": "FENCED_INSTANCE_ID", "transactional": "_FENCED"}


@dataclass(frozen=True)
class GroupAndTopic:
    """A group of one test's own, with a topic."""

    broker: Broker
    topic: str
    group: str

    def properties(self, more: Mapping[str, str] = CLASSIC) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers, **more}

    def at(self, offset: int, name: str = "first") -> dict[TopicPartition, Position]:
        return {T(self.topic, p): Position(offset=offset, metadata=name) for p in range(3)}

    def held(self) -> Mapping[TopicPartition, Position]:
        with closing(ClusterReader(self.properties())) as reader:
            return reader.group(self.group, self.at(0))

    def state(self) -> tuple[str, int]:
        return shown_state(self.broker.consumer_groups(self.group, "--state"))


def place_of(broker: Broker) -> GroupAndTopic:
    topic = Topics(broker.bootstrap_servers).create()
    return GroupAndTopic(broker=broker, topic=topic, group=unique("g"))


@pytest.fixture
def place(broker: Broker) -> GroupAndTopic:
    return place_of(broker)


@pytest.fixture
def opened() -> Iterator[Callable[[str, Mapping[str, str]], GroupStore]]:
    """Open stores that end with the test."""
    stores: list[GroupStore] = []

    def open_one(mode: str, properties: Mapping[str, str]) -> GroupStore:
        stores.append(open_groups(properties, mode))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


Opened = Callable[[str, Mapping[str, str]], GroupStore]


def attempt(
    store: GroupStore, group: str, positions: Mapping[TopicPartition, Position]
) -> set[str | None]:
    """What a commit was answered."""
    try:
        return set(store.commit(group, positions, timeout=8).values())
    except KafkaError as error:
        return {error.code}


@pytest.mark.parametrize(
    ("mode", "protocol", "state", "members"),
    [
        pytest.param("simple", CLASSIC, "Empty", 0, id="simple"),
        pytest.param("transactional", CLASSIC, "Empty", 0, id="transactional"),
        pytest.param("member", CLASSIC, "Stable", 1, id="member"),
        pytest.param("member", NEW, "Stable", 1, id="member-new-protocol", marks=new_protocol),
    ],
)
def test_the_group_as_kafkas_own_tool_shows_it(
    mode: str,
    protocol: Mapping[str, str],
    state: str,
    members: int,
    place: GroupAndTopic,
    opened: Opened,
) -> None:
    """Only a member makes the group Stable; what is committed is there in every mode."""
    store = opened(mode, place.properties(protocol))
    insist(store, place.group, place.at(7))
    assert place.state() == (state, members)
    assert place.held() == place.at(7)
    snapshot = store.snapshot(place.group, place.at(0), timeout=8)
    assert snapshot.positions == place.at(7)
    assert snapshot.ends == dict.fromkeys(place.at(0), 0)


@pytest.mark.parametrize("mode", FATAL)
def test_a_second_driver_fences_the_first(mode: str, place: GroupAndTopic, opened: Opened) -> None:
    """The first gets a final error at every later commit; the group is as the second left it."""
    first, second = (opened(mode, place.properties()) for _ in range(2))
    insist(first, place.group, place.at(5))
    insist(second, place.group, place.at(6, "second"))
    for offset in (8, 9):
        assert attempt(first, place.group, place.at(offset)) == {FATAL[mode]}
    assert explain(FATAL[mode]).fatal
    assert place.held() == place.at(6, "second")
    assert attempt(second, place.group, place.at(7, "second")) == {None}
    assert first.snapshot(place.group, place.at(0), timeout=8).positions == place.at(7, "second")
    first.take_over(place.group)  # as for a new run
    assert first.snapshot(place.group, place.at(0), timeout=8).positions == place.at(7, "second")
    insist(first, place.group, place.at(10))
    for offset in (11, 12):
        assert attempt(second, place.group, place.at(offset, "second")) == {FATAL[mode]}
    assert place.held() == place.at(10)


@new_protocol
def test_in_the_new_protocol_the_first_member_stays(place: GroupAndTopic, opened: Opened) -> None:
    """The second is refused, not for good: it takes the place when the first has let go of it."""
    first, second = (opened("member", place.properties(NEW)) for _ in range(2))
    insist(first, place.group, place.at(5))
    assert attempt(second, place.group, place.at(6, "second")) == {"UNRELEASED_INSTANCE_ID"}
    assert not explain("UNRELEASED_INSTANCE_ID").fatal
    assert attempt(first, place.group, place.at(7)) == {None}
    assert place.held() == place.at(7)
    first.close()
    insist(second, place.group, place.at(8, "second"), seconds=20)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_beside_a_consumer_of_the_same_group(
    protocol: Mapping[str, str], place: GroupAndTopic, opened: Opened
) -> None:
    """Simple commits are refused, transactions land, and a member shares the group."""
    consumer = Consumer({**place.properties(protocol), "group.id": place.group, "log_level": "0"})
    consumer.subscribe([place.topic])
    await_assignment(consumer)
    simple = opened("simple", place.properties())
    assert attempt(simple, place.group, place.at(3)) == {"UNKNOWN_MEMBER_ID"}
    assert place.held() == {}
    insist(opened("transactional", place.properties()), place.group, place.at(4))
    assert place.held() == place.at(4)
    member = opened("member", place.properties(protocol))

    def committed() -> bool:
        consumer.poll(0.1)  # it takes part in the rebalance
        return attempt(member, place.group, place.at(5)) == {None}

    until(committed)
    assert place.held() == place.at(5)
    assert place.state()[1] == 2
    consumer.close()


def test_one_bad_topic_does_not_hold_up_a_transaction(place: GroupAndTopic, opened: Opened) -> None:
    """A partition that is gone aborts all; the same call commits the others without it."""
    store = opened("transactional", place.properties())
    insist(store, place.group, place.at(7))
    bad = {T("nosuch", 0): Position(offset=1)}
    answer = store.commit(place.group, {**place.at(8), **bad}, timeout=20)
    assert answer == {**dict.fromkeys(place.at(8)), T("nosuch", 0): "UNKNOWN_TOPIC_OR_PART"}
    assert place.held() == place.at(8)
    long = {T(place.topic, 0): Position(offset=9, metadata="x" * 5000)}
    assert attempt(store, place.group, long) == {"OFFSET_METADATA_TOO_LARGE"}
    assert attempt(store, place.group, place.at(9)) == {None}


def test_a_call_that_never_comes_back_is_given_up(
    place: GroupAndTopic, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that is stuck is replaced when its group can be read; what it had never lands."""
    monkeypatch.setattr(transactional_groups, "_STUCK", 2.0)
    store, released = opened("transactional", place.properties()), threading.Event()
    insist(store, place.group, place.at(5))

    def block(name: str) -> None:
        if name == "transaction.begun" and not released.is_set():
            fault_points.arm(None)
            released.wait(60)

    fault_points.arm(block)
    try:
        with pytest.raises(KafkaError) as late:
            store.commit(place.group, place.at(6), timeout=1)
        assert late.value.code == "_TIMED_OUT"
        insist(store, place.group, place.at(7), 30, timeout=2)
    finally:
        fault_points.arm(None)
        released.set()
    for thread in threading.enumerate():
        if thread.name == "eo-listener-transaction":
            thread.join(30)
    assert place.held() == place.at(7)
    assert attempt(store, place.group, place.at(8)) == {None}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_reads_no_records(
    protocol: Mapping[str, str],
    place: GroupAndTopic,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All partitions are its own, and it asks for nothing of what they hold."""
    received: list[str] = []
    monkeypatch.setitem(client.MEMBER.fixed, "statistics.interval.ms", "500")
    monkeypatch.setitem(client.MEMBER.fixed, "stats_cb", received.append)
    Topics(place.broker.bootstrap_servers).fill(place.topic, 3000)
    store = opened("member", place.properties(protocol))
    insist(store, place.group, place.at(1))

    def polled() -> bool:
        store.poll()
        return len(received) > 2

    until(polled)
    requests = [
        broker["req"].get("Fetch", 0)
        for text in received
        for broker in json.loads(text)["brokers"].values()
    ]
    assert set(requests) == {0}


def replace(
    place: GroupAndTopic, mode: str, more: Mapping[str, str], still: float, waits: str = "ok"
) -> None:
    """Stop a driver, start its successor (`waits`: its first answer), and resume the zombie."""

    def driver(name: str, first: int) -> Puppet:
        named = {"topic": place.topic, "group": place.group, "name": name, "mode": mode}
        wanted = {**named, "properties": place.properties(more), "first": first}
        return Puppet("tests.kafka.driver", json.dumps(wanted))

    with driver("zombie", 100) as zombie:
        zombie.await_line("ok", 60)
        zombie.freeze()
        time.sleep(still)
        with driver("successor", 100_000) as successor:
            successor.await_line(waits, 60)
            successor.await_line("ok", 60)
            resumed = len(zombie.lines)
            zombie.thaw()
            zombie.await_line(FATAL[mode], 60, after=resumed)
            assert "ok" not in zombie.lines[resumed + 1 :]  # the first after it may be of before
            successor.await_line("ok", 60, after=len(successor.lines))
            assert {position.metadata for position in place.held().values()} == {"successor"}


@pytest.mark.slow  # tests/attack/test_crash_points.py has those that stand still for a moment
def test_a_member_that_stood_still_for_longer_than_its_session(place: GroupAndTopic) -> None:
    """It commits nothing more; librdkafka would let the zombie in again, over its successor."""
    replace(place, "member", {"session.timeout.ms": "6000"}, 9)


@pytest.mark.slow
@new_protocol
def test_in_the_new_protocol_a_zombie_is_replaced(start_broker: Callable[..., Broker]) -> None:
    """Its successor gets in when the session has ended, and the zombie cannot come back."""
    times = {"min.session.timeout": "6000", "session.timeout": "6000"}
    times |= {"min.heartbeat.interval": "1000", "heartbeat.interval": "1000"}
    properties = {f"group.consumer.{name}.ms": value for name, value in times.items()}
    place = place_of(start_broker(properties=properties))
    replace(place, "member", NEW, 0, "UNRELEASED_INSTANCE_ID")


class Committer(threading.Thread):
    """Commits through one store all the time."""

    def __init__(self, place: GroupAndTopic, mode: str, more: Mapping[str, str]) -> None:
        super().__init__(name=f"{mode} {dict(more)}")
        self._place = place
        self._mode = mode
        self._more = more
        self._ending = threading.Event()
        self.confirmed = 0
        self.codes: set[str | None] = set()
        self.longest = 0.0

    def run(self) -> None:
        offset = 0
        with closing(open_groups(self._place.properties(self._more), self._mode)) as store:
            while not self._ending.wait(0.1):
                offset += 1
                started = time.monotonic()
                if offset % 5 == 0:
                    with suppress(KafkaError):
                        store.snapshot(self._place.group, self._place.at(0), timeout=4)
                    self.longest = max(self.longest, time.monotonic() - started)
                    started = time.monotonic()
                said = attempt(store, self._place.group, self._place.at(offset))
                self.longest = max(self.longest, time.monotonic() - started)
                self.codes |= said
                if said == {None}:
                    self.confirmed = offset
                store.poll()

    def end(self) -> None:
        self._ending.set()
        self.join(30)
        assert not self.is_alive()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("deaths", "standstills"),
    [
        pytest.param(1, [], id="short"),
        # The second outlives an open transaction, which the broker then ends by itself.
        pytest.param(4, [10, 75], id="long", marks=pytest.mark.slow),
    ],
)
def test_every_mode_survives_the_brokers_death(
    deaths: int, standstills: list[float], start_broker: Callable[..., Broker]
) -> None:
    """After SIGKILL, restart and standstill all go on; none hangs, none is taken for fenced."""
    broker = start_broker()
    kinds: list[tuple[str, Mapping[str, str]]] = [
        ("simple", CLASSIC),
        ("transactional", CLASSIC),
        ("member", CLASSIC),
        ("member", {"session.timeout.ms": "6000"}),  # it ends while the broker is away
    ]
    if not kafka_version().startswith("3."):
        kinds.append(("member", NEW))
    committers = [Committer(place_of(broker), mode, more) for mode, more in kinds]
    try:
        for committer in committers:
            committer.start()
        go_on(committers)
        for _ in range(deaths):
            broker.kill()
            time.sleep(1)
            broker.restart()
            go_on(committers)
        for seconds in standstills:
            broker.pause()
            time.sleep(seconds)
            broker.resume()
            go_on(committers)
    finally:
        for committer in committers:
            committer.end()
    for committer in committers:
        assert committer.longest < 11, committer
        assert not any(explain(code).fatal for code in committer.codes if code), committer.codes


def go_on(committers: list[Committer]) -> None:
    """Wait until each has committed again."""
    before = {committer: committer.confirmed for committer in committers}

    def behind() -> list[Committer]:
        assert all(committer.is_alive() for committer in committers)
        return [one for one, offset in before.items() if one.confirmed < offset + 3]

    until(lambda: not behind(), 45, lambda: [(one, one.codes) for one in behind()])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_only_a_live_member_keeps_its_offsets(start_broker: Callable[..., Broker]) -> None:
    """Without a member each partition's offset expires after its own last commit; with one none."""
    retention = {"minutes": "1", "check.interval.ms": "5000"}
    broker = start_broker(
        properties={f"offsets.retention.{name}": value for name, value in retention.items()}
    )
    stores: dict[str, tuple[GroupAndTopic, GroupStore]] = {}
    for mode in ("simple", "transactional", "member"):
        place = place_of(broker)
        stores[mode] = (place, open_groups(place.properties(), mode))
        insist(stores[mode][1], place.group, place.at(5))
    try:
        poll(stores, 30)
        for place, store in stores.values():
            insist(store, place.group, {T(place.topic, 0): Position(offset=6)})
        poll(stores, 45)
        assert held(stores) == {"simple": 1, "transactional": 1, "member": 3}
        poll(stores, 45)
        assert held(stores) == {"simple": 0, "transactional": 0, "member": 3}
    finally:
        for _, store in stores.values():
            store.close()


def held(stores: Mapping[str, tuple[GroupAndTopic, GroupStore]]) -> dict[str, int]:
    return {mode: len(place.held()) for mode, (place, _) in stores.items()}


def poll(stores: Mapping[str, tuple[GroupAndTopic, GroupStore]], seconds: float) -> None:
    """Let time go by as a committer with nothing to commit does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for _, store in stores.values():
            store.poll()
        time.sleep(1)
