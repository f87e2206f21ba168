"""What is in the way of handing a group over."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.commit.groups.handover import HandoverReading, PartitionReading
from eo_listener.model.offsets import TopicPartition

TP = TopicPartition("t", 0)


def reading(committed: int | None = 9, **given: Any) -> HandoverReading:
    beside = {name: given.pop(name) for name in ("members", "in_doubt", "unknown") if name in given}
    fields = {"start": 2, "stable": 9, "end": 9, **given}
    return HandoverReading(
        partitions={TP: PartitionReading(committed=committed, **fields)}, **beside
    )


def test_a_group_that_is_drained_and_free() -> None:
    """Nothing is in the way; markers of transactions alone are no lag."""
    for one in (reading(), reading(7, unread=False), reading(durable=9)):
        assert one.obstacles() == ()
        assert one.lag == 0


@pytest.mark.parametrize(
    ("found", "obstacle", "lag"),
    [
        (reading(7), "2 offsets are not read yet: t-0", 2),
        (reading(None), "nothing is committed for t-0", 7),
        (reading(end=12), "a transaction is open in t-0", 0),
        (reading(10), "beyond the end", 0),
        (reading(durable=8), "the checkpoint is not", 0),
        (reading(in_doubt=4), "batch 4 of", 0),
        (reading(unknown="no batch is committed"), "no batch is committed", 0),
        (reading(members=("a at h",)), "the group has members: a at h", 0),
        (HandoverReading(partitions={}), "holds no offsets", 0),
    ],
)
def test_each_obstacle(found: HandoverReading, obstacle: str, lag: int) -> None:
    """Is named, and is the only one."""
    (said,) = found.obstacles()
    assert obstacle in said
    assert found.lag == lag


def test_all_obstacles_are_named() -> None:
    """Not the first alone."""
    assert len(reading(7, end=12, durable=8, in_doubt=4, members=("a",)).obstacles()) == 5
