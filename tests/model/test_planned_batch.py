"""What a batch was planned to read, of all its sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.model.counted_sources import CountedSources
from eo_listener.model.errors import SettingsError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.planned_batch import PlannedBatch, offset_ranges

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


def test_a_plan_is_believed_where_nobody_was_asked() -> None:
    """Spark says of few plans that they are not deterministic, and Kafka may not be there."""
    assert (PLAN.deterministic, PLAN.asked, PLAN.stateful) == (True, False, False)


def test_a_new_partition_begins_at_zero() -> None:
    """One that ended before goes on there; one that is read no more has no range."""
    found = offset_ranges({A: 3, C: 9}, {B: 2, A: 5})
    assert list(found.items()) == [(A, OffsetRange(3, 5)), (B, OffsetRange(0, 2))]
