"""Readings that take several requests, one of which is refused."""

from __future__ import annotations

from contextlib import closing

import pytest

from eo_listener.errors import KafkaError
from eo_listener.kafka.logs import ClusterReader
from eo_listener.kafka.simple_groups import SimpleGroups
from eo_listener.kafka.source_logs import SourceLogs
from eo_listener.offsets import TopicPartition
from tests.attack.conftest import Attacked
from tests.attack.replies import ERRORS
from tests.attack.wire_faults import Refuse
from tests.groups import insist
from tests.store_facts import at
from tests.topics import unique

pytestmark = pytest.mark.kafka

PARTITIONS = 5


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes two partitions, so that each reading needs three."""
    monkeypatch.setattr("eo_listener.kafka.logs._AT_ONCE", 2)


def partitions_of(attacked: Attacked) -> list[TopicPartition]:
    topic = attacked.topics.create(partitions=PARTITIONS)
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


@pytest.mark.parametrize("nth", [2, 6])
def test_a_leader_that_is_away_for_one_of_them(attacked: Attacked, nth: int) -> None:
    """All are asked again, and no log is missing from the answer or only half reported."""
    partitions = partitions_of(attacked)
    attacked.topics.fill(partitions[0].topic, 20)
    options = {"kafka.bootstrap.servers": attacked.servers}
    with closing(SourceLogs(timeout=20.0)) as logs:
        logs.snapshot(options, partitions)
        refusal = Refuse(ERRORS["NOT_LEADER_OR_FOLLOWER"])
        fault = attacked.proxy.arm("ListOffsets", refusal, nth=nth)
        snapshot = logs.snapshot(options, partitions)
    assert fault.fired == 1
    assert snapshot.starts == dict.fromkeys(partitions, 0)
    assert snapshot.ends.keys() == snapshot.starts.keys()
    assert sum(snapshot.ends.values()) == 20


def test_a_coordinator_that_moves_between_them(attacked: Attacked) -> None:
    """The group is read again, and all that it holds is returned."""
    group, held = unique("g"), at(7, *partitions_of(attacked))
    with closing(SimpleGroups({"bootstrap.servers": attacked.direct})) as store:
        insist(store, group, held)
    fault = attacked.proxy.arm("OffsetFetch", Refuse(ERRORS["NOT_COORDINATOR"]), nth=2)
    with closing(ClusterReader({"bootstrap.servers": attacked.servers})) as reader:
        assert reader.group(group, held) == held
    assert fault.fired == 1


def test_a_refusal_of_one_of_them(attacked: Attacked) -> None:
    """No part of the group is returned as if it were all of it."""
    group, held = unique("g"), at(7, *partitions_of(attacked))
    with closing(SimpleGroups({"bootstrap.servers": attacked.direct})) as store:
        insist(store, group, held)
    refusal = Refuse(ERRORS["GROUP_AUTHORIZATION_FAILED"])
    attacked.proxy.arm("OffsetFetch", refusal, nth=2, times=None)
    with (
        closing(ClusterReader({"bootstrap.servers": attacked.servers})) as reader,
        pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"),
    ):
        reader.group(group, held)
