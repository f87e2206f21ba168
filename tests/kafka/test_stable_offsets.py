"""Where readers stand, also while some brokers are away; a stand-in for the cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from eo_listener.kafka.open_transactions import StableOffsets, stable_offsets
from eo_listener.model.errors import KafkaError
from eo_listener.model.offsets import OffsetRange, TopicPartition

T0, T1, T2, T3 = (TopicPartition("delays", number) for number in range(4))
AWAY = KafkaError("no answer", code="_TIMED_OUT")


@dataclass
class Cluster:
    """Every log ends at 9, and is stable up to 5; what a broker in `away` leads is not answered."""

    led: Mapping[TopicPartition, int]
    away: Collection[int] = ()
    stable: int = 5
    asked: list[int] = field(default_factory=list)

    def leaders(self, topics: Collection[str]) -> Mapping[TopicPartition, int]:
        assert set(topics) == {"delays"}
        return self.led

    def ranges(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetRange]:
        self.asked.append(len(partitions))
        assert all(self.led[tp] >= 0 for tp in partitions), "one without a leader is not asked for"
        if any(self.led[tp] in self.away for tp in partitions):
            raise AWAY
        return dict.fromkeys(partitions, OffsetRange(self.stable, 9))


def read(cluster: Cluster, partitions: Collection[TopicPartition]) -> StableOffsets:
    return stable_offsets(cluster, partitions)  # type: ignore[arg-type]  # stands in for the reader


def test_one_without_a_leader_does_not_hold_up_the_others() -> None:
    """It is named as that."""
    found = read(Cluster({T0: 1, T1: -1, T2: 2}), [T0, T1, T2])
    assert found.held == {T0: OffsetRange(5, 9), T2: OffsetRange(5, 9)}
    assert set(found.errors) == {T1}
    assert "partition delays-1 has no leader" in str(found.errors[T1])


def test_a_broker_that_does_not_answer() -> None:
    """The others are asked by themselves; all are asked at once where each answers."""
    cluster = Cluster({T0: 1, T1: 2, T2: 1, T3: -1}, away={2})
    found = read(cluster, [T0, T1, T2, T3])
    assert set(found.held) == {T0, T2}
    assert found.errors[T1] is AWAY
    assert set(found.errors) == {T1, T3}
    assert cluster.asked == [3, 2, 1]
    whole = Cluster({T0: 1, T1: 2})
    assert len(read(whole, [T0, T1]).ranges) == 2
    assert whole.asked == [2]


@pytest.mark.parametrize("led", [{T0: 1, T1: 1}, {T0: 1, T1: 2}, {T0: 1, T1: -1}])
def test_kafka_is_away(led: Mapping[TopicPartition, int]) -> None:
    """That is one error, and not one a partition."""
    with pytest.raises(KafkaError, match="no answer"):
        read(Cluster(led, away={1, 2}), [T0, T1])


def test_what_is_gone_or_free() -> None:
    """A deleted partition is left out; one that is stable up to its end is not held."""
    cluster = Cluster({T0: 1}, stable=9)
    found = read(cluster, [T0, T1])
    assert (found.ranges, found.held, found.errors) == ({T0: OffsetRange(9, 9)}, {}, {})
    assert not read(cluster, []).ranges
    lost = read(Cluster({T0: -1}), [T0])
    assert (set(lost.ranges), set(lost.errors)) == (set(), {T0})
