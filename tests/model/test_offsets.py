"""Offsets are positions: sorted, immutable, never negative; a batch has ranges of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.errors import SettingsError
from eo_listener.model.planned_batch import CountedSources, PlannedBatch, offset_ranges
from eo_listener.offsets import OffsetRange, Offsets, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_equal_maps_are_equal_whatever_their_order() -> None:
    """Order of building does not matter, and equal values hash alike."""
    one, two = Offsets({B0: 1, A0: 2}), Offsets.of({"a": {0: 2}, "b": {0: 1}})
    assert one == two
    assert hash(one) == hash(two)
    assert list(one) == [A0, B0]


@pytest.mark.parametrize(("partition", "offset"), [(0, -1), (0, -1001), (-1, 5)])
def test_what_is_no_position_is_refused(partition: int, offset: int) -> None:
    """Spark's -1 and -2 and Kafka's -1001 never become a committed offset."""
    with pytest.raises(ValueError, match="is not a position"):
        Offsets({TopicPartition("a", partition): offset})


A, B, C = (TopicPartition("t", number) for number in range(3))
PLAN = PlannedBatch(
    query_id="q",
    run_id="r",
    query=None,
    batch_id=1,
    sources={1: {C: OffsetRange(0, 1), A: OffsetRange(4, 5)}, 0: {B: OffsetRange(2, 2)}},
    topic_ids={},
    log_starts={},
    log_ends={},
)


def test_ranges_are_those_of_all_sources() -> None:
    """In order of the partitions, those without new records among them."""
    assert list(PLAN.ranges().items()) == [
        (A, OffsetRange(4, 5)),
        (B, OffsetRange(2, 2)),
        (C, OffsetRange(0, 1)),
    ]


def test_what_reads_nothing_of_kafka_has_no_ranges() -> None:
    """A batch of counted sources has a number alone; one without any source cannot be judged."""
    files = replace(PLAN, sources={}, counted=CountedSources(indices=(0,), plan_id="b", before="a"))
    assert files.ranges() == {}
    assert files.count == OffsetRange(1, 2)
    with pytest.raises(SettingsError, match="batch 1 has no source"):
        replace(PLAN, sources={}).ranges()


def test_a_partition_that_two_sources_read_is_refused() -> None:
    """The first of them is named: a ledger has one head for it."""
    whole = {TopicPartition("t", number): OffsetRange(0, 1) for number in reversed(range(50))}
    with pytest.raises(SettingsError, match=r"read t-0 \(the second is source 3\)"):
        replace(PLAN, sources={1: whole, 3: whole}).ranges()


def test_a_new_partition_begins_at_zero() -> None:
    """One that ended before goes on there; one that is read no more has no range."""
    found = offset_ranges({A: 3, C: 9}, {B: 2, A: 5})
    assert list(found.items()) == [(A, OffsetRange(3, 5)), (B, OffsetRange(0, 2))]
