"""The proxy passes all requests unchanged, but for the one that it was armed for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.attack.conftest import Attacked
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import (
    Action,
    Cut,
    Drop,
    Duplicate,
    Hold,
    Moment,
    Refuse,
    Request,
    Way,
)
from tests.topics import unique
from tests.waiting import until

pytestmark = pytest.mark.kafka

QUIET = {"log_level": "0", "session.timeout.ms": "5000", "enable.auto.commit": "false"}


class Outsider:
    """Commits to a group of its own through the proxy, by librdkafka, and reads it directly."""

    def __init__(self, attacked: Attacked, **properties: str) -> None:
        self.group, self.topic = unique("g"), attacked.topics.create(partitions=1)
        self.attacked = attacked
        settings = {"bootstrap.servers": attacked.servers, "socket.timeout.ms": "1500"}
        self.client = Consumer({**settings, **QUIET, "group.id": self.group, **properties})

    def commit(self, offset: int) -> str | None:
        """Commit, and return the name of the error if there is one."""
        try:
            self.client.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            return str(error.args[0].name())
        return None

    def settle(self) -> None:
        """Commit 0 until it lands: the connection and the coordinator are there then."""
        until(lambda: self.commit(0) is None, 30)
        self.attacked.proxy.forget_counts()

    def landed(self) -> list[int]:
        """All offsets that the group came to hold, after the first 0."""
        held = [one.offset for one in self.attacked.offsets.effects(self.group)]
        return [offset for offset in held if offset]


@pytest.fixture
def outsider(attacked: Attacked) -> Outsider:
    outsider = Outsider(attacked)
    outsider.settle()
    return outsider


def test_without_faults_all_passes_through(attacked: Attacked) -> None:
    """Records, transactions, groups with members and admin requests work as without it."""
    topic, group = attacked.topics.create(partitions=2), unique("g")
    for settings in ({}, {"acks": "0"}, {"transactional.id": unique("x")}):
        producer = Producer({"bootstrap.servers": attacked.servers, "log_level": "0", **settings})
        if "transactional.id" in settings:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in range(50):
            producer.produce(topic, str(number) * 1000)
        assert producer.flush(30) == 0
        if "transactional.id" in settings:
            producer.commit_transaction(30)
    settings = {"bootstrap.servers": attacked.servers, "group.id": group, **QUIET}
    settings["session.timeout.ms"] = "6000"  # the least that a broker allows a member
    reader = Consumer({**settings, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    read = 0
    deadline = time.monotonic() + 60
    while read < 150 and time.monotonic() < deadline:
        message = reader.poll(0.5)
        read += message is not None and message.error() is None
    assert read == 150
    reader.commit(asynchronous=False)
    reader.close()
    admin = AdminClient({"bootstrap.servers": attacked.servers, "log_level": "0"})
    assert topic in admin.list_topics(timeout=10).topics
    counts = attacked.proxy.counts()
    assert {"Produce", "Fetch", "JoinGroup", "OffsetCommit", "EndTxn"} <= set(counts)
    assert not any(count.faulted for count in counts.values())
    assert sum(attacked.offsets.held(group).values()) >= 150


def test_nothing_but_the_request_that_is_meant_is_met(outsider: Outsider) -> None:
    """The second commit from now on is refused; the first, the third and all else are not."""
    attacked = outsider.attacked
    fault = attacked.proxy.arm("OffsetCommit", Refuse(ERRORS["GROUP_AUTHORIZATION_FAILED"]), nth=2)
    answers = [outsider.commit(offset) for offset in (1, 2, 3)]
    assert answers == [None, "GROUP_AUTHORIZATION_FAILED", None]
    assert outsider.landed() == [1, 3]
    assert fault.fired == 1
    counts = attacked.proxy.counts()
    assert (counts["OffsetCommit"].seen, counts["OffsetCommit"].faulted) == (3, 1)


def test_a_choice_narrows_down(outsider: Outsider) -> None:
    """Only commits of a certain offset count, read from the request itself."""
    messages = outsider.attacked.proxy.messages

    def of_two(request: Request) -> bool:
        (topic,) = request.fields(messages)["Topics"]
        return bool(topic["Partitions"][0]["CommittedOffset"] == 2)

    fault = outsider.attacked.proxy.arm(
        "OffsetCommit", Refuse(ERRORS["GROUP_AUTHORIZATION_FAILED"]), times=None, choice=of_two
    )
    for offset in (1, 2, 2, 3):
        outsider.commit(offset)
    assert outsider.landed() == [1, 3]
    assert fault.fired == 2


@pytest.mark.parametrize(
    ("action", "landed", "answered"),
    [
        (Drop(Way.REQUEST), 0, False),
        (Drop(Way.REPLY), 1, False),
        (Duplicate(), 2, True),
        (Hold(Way.REPLY, 0.3), 1, True),
        (Hold(Way.REQUEST, 0.3), 1, True),
    ],
    ids=str,
)
def test_one_fault_has_the_effect_it_says(
    attacked: Attacked, action: Action, landed: int, answered: bool
) -> None:
    """Of one commit the broker sees none, one or two, and the client an answer or not."""
    # Asked once: librdkafka itself repeats a commit that was not answered.
    outsider = Outsider(attacked, **{"retries": "0", "socket.max.fails": "0"})
    outsider.settle()
    fault = attacked.proxy.arm("OffsetCommit", action)
    answers: list[str | None] = []
    asking = threading.Thread(target=lambda: answers.append(outsider.commit(5)))
    asking.start()
    assert fault.wait(10)
    until(lambda: len(outsider.landed()) >= landed, 10)
    if answered:
        until(lambda: answers == [None], 10)
    else:
        time.sleep(0.7)
        assert answers == []
    count = attacked.proxy.counts()["OffsetCommit"].seen
    assert outsider.landed()[:landed] == [5] * landed
    if count == 1:
        assert len(outsider.landed()) == landed
    asking.join(30)
    outsider.client.close()


@pytest.mark.parametrize("moment", list(Moment), ids=lambda moment: moment.name)
def test_a_cut_closes_the_connection(outsider: Outsider, moment: Moment) -> None:
    """The client sees its connection fail; the broker has the commit unless it was cut before."""
    fault = outsider.attacked.proxy.arm("OffsetCommit", Cut(moment), times=None)
    asking = threading.Thread(target=outsider.commit, args=(5,))
    asking.start()
    assert fault.wait(10)
    if moment is Moment.BEFORE:
        time.sleep(0.3)
        assert outsider.landed() == []
    else:
        until(lambda: outsider.landed() != [], 10)
    outsider.attacked.proxy.disarm()
    asking.join(30)
    assert outsider.commit(6) is None
    assert outsider.landed()[-1] == 6


def test_a_request_arrives_after_its_client_and_its_successor(outsider: Outsider) -> None:
    """Held until its client has gone and a newer commit has landed, it lands after that."""
    proxy = outsider.attacked.proxy
    fault = proxy.arm("OffsetCommit", Hold(Way.REQUEST))
    asking = threading.Thread(target=outsider.commit, args=(5,))
    asking.start()
    assert fault.wait(10)
    asking.join(30)  # librdkafka has repeated it on a connection of its own
    assert not asking.is_alive()
    assert outsider.commit(6) is None
    outsider.client.close()
    assert outsider.landed()[-1] == 6
    fault.release()
    until(lambda: outsider.landed()[-2:] == [6, 5], 10)


@pytest.mark.parametrize("api", ["FindCoordinator", "Metadata", "ListOffsets", "OffsetFetch"])
def test_reads_are_refused_and_recover(outsider: Outsider, api: str) -> None:
    """An error code in what only reads is believed by the client, and the next time it is right."""
    proxy = outsider.attacked.proxy
    partition = TopicPartition(outsider.topic, 0)
    fault = proxy.arm(api, Refuse(ERRORS["GROUP_AUTHORIZATION_FAILED"]), times=None)
    admin = AdminClient({"bootstrap.servers": proxy.address, "log_level": "0"})
    ask: dict[str, Callable[[], object]] = {
        "FindCoordinator": lambda: admin.describe_consumer_groups([outsider.group])[
            outsider.group
        ].result(10),
        "Metadata": lambda: outsider.client.list_topics(outsider.topic, timeout=5),
        "ListOffsets": lambda: outsider.client.get_watermark_offsets(partition, timeout=5),
        "OffsetFetch": lambda: outsider.client.committed([partition], timeout=5),
    }
    problem = ""
    try:
        problem = str(_errors(ask[api]()))
    except KafkaException as error:
        problem = str(error)
    assert "GROUP_AUTHORIZATION" in problem or api == "ListOffsets", problem
    assert fault.fired >= 1
    proxy.disarm()
    assert not any(_errors(ask[api]()))


def _errors(answer: object) -> list[object]:
    """The errors in an answer of confluent-kafka, one partition or topic each."""
    topics = getattr(answer, "topics", None)
    parts = list(topics.values()) if topics is not None else answer
    return [part.error for part in parts] if isinstance(parts, list) else []


def test_cut_closes_every_connection_at_once(outsider: Outsider) -> None:
    """After all connections were cut the clients connect again and go on."""
    outsider.attacked.proxy.cut()
    assert outsider.commit(5) is None
    assert outsider.landed()[-1] == 5
