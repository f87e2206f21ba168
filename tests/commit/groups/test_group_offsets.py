"""Parts of a query that go to the same group, made one."""

from __future__ import annotations

import pytest

from eo_listener.client_config.cluster import Cluster
from eo_listener.commit.groups.group_offsets import GroupOffsets, combine, positions_by_topic
from eo_listener.offsets import Offsets, Position, TopicPartition

K, L = (Cluster.from_properties({"bootstrap.servers": servers}) for servers in ("k:9092", "l:9092"))
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def part(
    offsets: dict[TopicPartition, int],
    *,
    group: str = "g",
    cluster: Cluster = K,
    lossy: bool = False,
    metadata: str = "",
) -> GroupOffsets:
    positions = {tp: Position(offset=offset, metadata=metadata) for tp, offset in offsets.items()}
    return GroupOffsets(cluster=cluster, group=group, positions=positions, lossy=lossy)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_lower_offset_counts_in_whatever_order(order: tuple[int, ...]) -> None:
    """In each partition by itself, with the metadata of the part that is there."""
    parts = (
        part({T0: 5, T1: 9}, metadata="a"),
        part({T0: 8, T1: 3}, metadata="b"),
        part({T0: 7, U0: 1}, metadata="c"),
    )
    (whole,) = combine(parts[index] for index in order)
    assert whole.positions == {
        T0: Position(offset=5, metadata="a"),
        T1: Position(offset=3, metadata="b"),
        U0: Position(offset=1, metadata="c"),
    }


def test_a_group_of_that_name_elsewhere_is_another_one() -> None:
    """Cluster and group together say where a part goes; the first part gives the order."""
    parts = (
        part({T0: 5}, cluster=L),
        part({T0: 8}),
        part({T0: 3}, group="h"),
        part({T1: 2}, cluster=L),
    )
    assert combine(parts) == (
        part({T0: 5, T1: 2}, cluster=L),
        part({T0: 8}),
        part({T0: 3}, group="h"),
    )


@pytest.mark.parametrize("first", [True, False])
def test_one_part_that_skips_losses_is_enough(first: bool) -> None:
    """For its own group, and for no other."""
    parts = (part({T0: 5}, lossy=first), part({U0: 5}, lossy=not first), part({T0: 5}, group="h"))
    assert [one.lossy for one in combine(parts)] == [True, False]


def test_what_was_combined_is_left_as_it_was() -> None:
    """A part may be combined again, with fewer others."""
    low, high = part({T0: 5}), part({T0: 8, T1: 1})
    combine((high, low))
    assert combine((high,)) == (part({T0: 8, T1: 1}),)


def test_each_topic_has_its_own_positions() -> None:
    """All with the metadata of the batch."""
    found = positions_by_topic(Offsets({U0: 4, T0: 5, T1: 0}), "m")
    assert found == {
        "t": {T0: Position(offset=5, metadata="m"), T1: Position(offset=0, metadata="m")},
        "u": {U0: Position(offset=4, metadata="m")},
    }
