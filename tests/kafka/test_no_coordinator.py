"""What is done and reported if a group has no coordinator: yet, for a while, or for good."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.groups.policy import Backoff
from eo_listener.events import CommitFailed, Event, Observers
from eo_listener.kafka.group_stores import open_groups
from eo_listener.offsets import Position, TopicPartition
from tests.broker import Broker
from tests.conftest import StartBroker, kafka_version
from tests.topics import Topics
from tests.waiting import until

pytestmark = pytest.mark.kafka

OFFSETS_TOPIC = "__consumer_offsets"


def committer(
    broker: Broker, events: list[Event], mode: str = "simple", retry: Backoff | None = None
) -> tuple[Committer, Callable[[int], None]]:
    """A committer, and what offers an offset of a new topic to it."""
    topics = Topics(broker.bootstrap_servers)
    tp = TopicPartition(topics.create(partitions=1), 0)
    topics.fill(tp.topic, 2)
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    made = Committer(
        lambda _: open_groups(properties, mode),
        observers=Observers(events.append),
        retry=retry or Backoff(),
    )

    def offer(offset: int) -> None:
        positions = {tp: Position(offset=offset)}
        made.offer(
            GroupOffsets(
                cluster=Cluster.from_properties(properties), group="g", positions=positions
            )
        )

    return made, offer


@pytest.mark.parametrize(
    "mode",
    [
        "simple",
        pytest.param("member", marks=pytest.mark.slow),
        pytest.param("transactional", marks=pytest.mark.slow),
    ],
)
def test_a_missing_coordinator_is_reported(start_broker: StartBroker, mode: str) -> None:
    """As with too few brokers for the offsets topic; its first failure is as one that passes."""
    broker = start_broker(properties={"offsets.topic.replication.factor": "3"})
    events: list[Event] = []
    made, offer = committer(broker, events, mode, Backoff(persistent_after=1.0))
    offer(0)
    until(lambda: any(OFFSETS_TOPIC in one.fix for one in failures(events)))
    made.close(0.0)
    first, *_, last = failures(events)
    assert OFFSETS_TOPIC not in first.cause + first.fix
    assert "offsets.topic.replication.factor" in last.cause
    assert f"kafka-topics.sh --describe --topic {OFFSETS_TOPIC}" in last.fix
    assert not last.refused


def failures(events: list[Event]) -> list[CommitFailed]:
    return [event for event in events if isinstance(event, CommitFailed)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["group", "seed", "g", "--from-offsets", '{"flights":{"0":0}}'],
        ["preflight", "--group", "g"],
    ],
)
def test_no_command_ends_by_a_signal(command: list[str]) -> None:
    """librdkafka ends a process whose AdminClient asks another broker for a group's offsets."""
    with Broker(version=kafka_version()) as broker:
        Topics(broker.bootstrap_servers).create_as("flights", 1)
        ran = subprocess.run(
            [sys.executable, "-m", "eo_listener", *command, "-b", broker.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
