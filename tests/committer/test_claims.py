"""Several runs on one partition of one group."""

from __future__ import annotations

from eo_listener.committer.claims import Claims
from eo_listener.offsets import Position, TopicPartition
from eo_listener.routing import Cluster, Commit

K = Cluster.of({"bootstrap.servers": "k:9092"})
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def commit(**offsets: int) -> Commit:
    positions = {
        TopicPartition("t", int(name[1:])): Position(offset=offset)
        for name, offset in offsets.items()
    }
    return Commit(cluster=K, group="g", positions=positions)


def offsets(found: Commit) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in found.positions.items()}


def test_the_least_counts_and_is_told_once() -> None:
    """Two runs that share a partition: the slower decides there; elsewhere each for itself."""
    claims = Claims()
    first, told = claims.least("r1", "fast", commit(p0=9, p1=9))
    assert (offsets(first), told) == ({P0: 9, P1: 9}, None)
    second, told = claims.least("r2", "slow", commit(p0=4))
    assert offsets(second) == {P0: 4}
    assert told is not None
    assert (told.readers, told.partitions) == (("fast", "slow"), (P0,))
    again, told = claims.least("r1", "fast", commit(p0=20, p1=20))
    assert (offsets(again), told) == ({P0: 4, P1: 20}, None)


def test_a_run_that_ended_holds_nobody_up() -> None:
    """What a run had reached is forgotten with it."""
    claims = Claims()
    claims.least("r1", "fast", commit(p0=9))
    claims.least("r2", "slow", commit(p0=4))
    (freed,) = claims.drop("r2")
    assert offsets(freed) == {P0: 9}  # though it has nothing new to say
    found, _ = claims.least("r1", "fast", commit(p0=10))
    assert offsets(found) == {P0: 10}
