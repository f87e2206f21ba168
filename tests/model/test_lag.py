"""Lag is log end minus committed, and unknown where one of them is."""

from __future__ import annotations

from eo_listener.model import lag
from eo_listener.model.offsets import Position, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_lag_of_each_partition() -> None:
    """Behind, ahead (a recreated topic), never committed, and gone: each is told apart."""
    rows = lag.compare(
        {A0: Position(offset=5), A1: Position(offset=9), B0: Position(offset=1)},
        {A0: 8, A1: 2, TopicPartition("a", 2): 4},
    )
    assert [(row.partition.topic, row.partition.partition, row.lag) for row in rows] == [
        ("a", 0, 3),
        ("a", 1, -7),
        ("a", 2, None),
        ("b", 0, None),
    ]
    assert lag.total(rows) is None
    assert lag.total(rows[:2]) == -4


def test_foreign_metadata_names_nobody() -> None:
    """A commit that is not ours has no writer."""
    (row,) = lag.compare({A0: Position(offset=5, metadata="theirs")}, {A0: 5})
    assert row.writer is None
    assert row.lag == 0
