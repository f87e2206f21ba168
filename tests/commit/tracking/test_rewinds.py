"""Queries that start below what this committer has committed itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.model.commit_metadata import CommitMetadata
from eo_listener.model.events import CommitRefused, Refusal
from eo_listener.testing import MemoryQueries
from tests.commit.tracking.memory_tracking import P0, MemoryTracking, event, position


@pytest.fixture
def allowing(queries: MemoryQueries) -> Iterator[MemoryTracking]:
    """The tracker of a listener with on_rewind="allow"."""
    made = MemoryTracking(queries, on_rewind=OnRewind.ALLOW)
    yield made
    made.committer.close(2.0)


def rewound_from(tracking: MemoryTracking) -> list[int | None]:
    """What the commits say, in their order, each value once."""
    reported: dict[int | None, None] = {}
    for _, landed in tracking.store.history:
        metadata = CommitMetadata.parse(landed[P0].metadata)
        assert metadata is not None
        reported[metadata.rewound_from] = None
    return list(reported)


def test_a_new_checkpoint_takes_its_group_back_where_that_is_allowed(
    allowing: MemoryTracking,
) -> None:
    """The run that has committed more is over: what the new one has read counts, recorded."""
    assert allowing.hear(0.0, event(0, None, 100))
    allowing.buffer.ended("r1")
    allowing.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert allowing.hear(2.0, event(1, 30, 40, run="r2", query="q2"))
    assert allowing.held == 40
    assert rewound_from(allowing) == [None, 100]
    assert not allowing.of(CommitRefused)


def test_one_whose_end_was_never_reported_is_no_obstacle(allowing: MemoryTracking) -> None:
    """At the new query's first event the old run is asked, and found to have ended."""
    allowing.buffer.progressed(event(0, None, 100))
    allowing.queries.positions["r1"] = position(0, 100)
    assert allowing.serve(0.0)
    allowing.queries.over.add("r1")
    assert allowing.hear(200.0, event(0, None, 30, run="r2", query="q2"))
    assert allowing.held == 30


def test_what_waits_of_a_run_that_is_over_is_not_sent_any_more(allowing: MemoryTracking) -> None:
    """Kafka was away when it ended: the one that was started instead decides."""
    allowing.store.faults.extend([lambda group, at: dict.fromkeys(at, "_TRANSPORT")] * 3)
    allowing.buffer.progressed(event(0, None, 100))
    allowing.tracker.serve(allowing.buffer.take(), allowing.moment(0.0))
    allowing.buffer.ended("r1")
    assert allowing.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert allowing.held == 30


def test_a_slower_query_beside_another_is_no_rewind(allowing: MemoryTracking) -> None:
    """Both are alive, and the faster was first to report: its group is not taken back."""
    allowing.hear(0.0, event(0, None, 100))
    allowing.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert allowing.held == 100
    assert {told.refusal for told in allowing.of(CommitRefused)} == {Refusal.BELOW_COMMITTED}


def test_by_default_nothing_goes_back(tracking: MemoryTracking) -> None:
    """A new checkpoint is refused until it has passed what its group holds."""
    tracking.hear(0.0, event(0, None, 100))
    tracking.buffer.ended("r1")
    tracking.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert tracking.held == 100
    assert len(tracking.of(CommitRefused)) == 1
    tracking.hear(2.0, event(1, 30, 130, run="r2", query="q2"))
    assert tracking.held == 130
