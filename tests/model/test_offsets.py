"""Offsets are positions: sorted, immutable, never negative."""

from __future__ import annotations

import pytest

from eo_listener.model.offsets import Offsets, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_equal_maps_are_equal_whatever_their_order() -> None:
    """Order of building does not matter, and equal values hash alike."""
    one, two = Offsets({B0: 1, A0: 2}), Offsets.of({"a": {0: 2}, "b": {0: 1}})
    assert one == two
    assert hash(one) == hash(two)
    assert list(one) == [A0, B0]


def test_merge_keeps_the_greater_offset() -> None:
    """Where both name a partition the greater wins, from either side."""
    assert Offsets({A0: 5, A1: 1}).merge({A0: 3, A1: 2, B0: 7}) == Offsets({A0: 5, A1: 2, B0: 7})


def test_narrowing() -> None:
    """`where` and `without` return new maps and do not change the old one."""
    whole = Offsets({A0: 5, A1: 1, B0: 2})
    assert whole.without([A0]) == Offsets({A1: 1, B0: 2})
    assert whole.where(lambda tp: tp.topic == "b") == Offsets({B0: 2})
    assert len(whole) == 3
    assert whole.topics() == ("a", "b")


@pytest.mark.parametrize(("partition", "offset"), [(0, -1), (0, -1001), (-1, 5)])
def test_what_is_no_position_is_refused(partition: int, offset: int) -> None:
    """Spark's -1 and -2 and Kafka's -1001 never become a committed offset."""
    with pytest.raises(ValueError, match="is not a position"):
        Offsets({TopicPartition("a", partition): offset})
