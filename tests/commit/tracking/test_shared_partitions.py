"""Several runs on one partition of one group."""

from __future__ import annotations

from dataclasses import replace

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.group_offsets import GroupOffsets
from eo_listener.commit.tracking.shared_partitions import SharedPartitions
from eo_listener.offsets import Position, TopicPartition

K = Cluster.from_properties({"bootstrap.servers": "k:9092"})
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def commit(**offsets: int) -> GroupOffsets:
    positions = {
        TopicPartition("t", int(name[1:])): Position(offset=offset)
        for name, offset in offsets.items()
    }
    return GroupOffsets(cluster=K, group="g", positions=positions)


def offsets(found: GroupOffsets) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in found.positions.items()}


def test_the_least_counts_and_is_reported_once() -> None:
    """Two runs that share a partition: the slower decides there; elsewhere each for itself."""
    runs = SharedPartitions()
    first, reported = runs.lowest("r1", "fast", commit(p0=9, p1=9))
    assert (offsets(first), reported) == ({P0: 9, P1: 9}, None)
    second, reported = runs.lowest("r2", "slow", commit(p0=4))
    assert offsets(second) == {P0: 4}
    assert reported is not None
    assert (reported.readers, reported.partitions) == (("fast", "slow"), (P0,))
    again, reported = runs.lowest("r1", "fast", commit(p0=20, p1=20))
    assert (offsets(again), reported) == ({P0: 4, P1: 20}, None)


def test_runs_on_other_partitions_or_groups_share_nothing() -> None:
    """Two queries that divide a topic between them feed one group, each for itself."""
    runs = SharedPartitions()
    runs.lowest("r1", "left", commit(p0=9))
    found, reported = runs.lowest("r2", "right", commit(p1=4))
    assert (offsets(found), reported, found.rivals) == ({P1: 4}, None, frozenset())
    assert runs.rivals("r2", commit(p1=4)) == ()
    found, reported = runs.lowest("r3", "other", replace(commit(p0=1), group="h"))
    assert (offsets(found), reported) == ({P0: 1}, None)
    assert runs.drop("r2") == ()


def test_sharing_is_reported_again_when_nobody_was_left_in_between() -> None:
    """A group that was empty begins anew; while one is left it was said."""
    runs = SharedPartitions()
    for round_ in range(2):
        runs.lowest("r1", "one", commit(p0=9))
        assert runs.lowest("r2", "two", commit(p0=4))[1] is not None
        runs.drop("r2")
        assert runs.lowest("r2", "two", commit(p0=4))[1] is None, round_
        runs.drop("r1")
        runs.drop("r2")
    assert not runs._groups
    assert not runs._reported


def test_an_end_frees_those_on_its_partitions_alone() -> None:
    """Who was not held up is not offered again; among those left the least counts still."""
    runs = SharedPartitions()
    runs.lowest("r1", "one", commit(p0=9))
    runs.lowest("r2", "two", commit(p0=7))
    runs.lowest("r3", "three", commit(p1=5))
    runs.lowest("r4", "four", commit(p0=4))
    freed = runs.drop("r4")
    assert [offsets(one) for one in freed] == [{P0: 7}, {P0: 7}]
    assert runs.drop("nobody") == ()
