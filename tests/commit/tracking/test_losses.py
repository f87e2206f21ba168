"""Records that Kafka had deleted before a batch read them, where Spark skips them in silence."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eo_listener.commit.tracking.tracker import Moment
from eo_listener.model.events import GuardViolation, ViolationKind
from tests.commit.tracking.memory_tracking import (
    OPTIONS,
    P0,
    MemoryTracking,
    event,
    kinds,
    source,
    tracker,
)

LOSSY = {0: {**OPTIONS[0], "failondataloss": "false"}}


@pytest.mark.parametrize(
    ("planned", "start", "end", "options", "reported"),
    [
        (0.5, 10, 40, LOSSY, [(1, ViolationKind.LOST)]),
        (-1e9, 10, 40, LOSSY, []),  # nobody had looked by then
        (None, 10, 40, LOSSY, []),
        (0.5, 10, 10, LOSSY, []),  # nothing was read
        (0.5, 10, 40, OPTIONS, []),  # Spark itself fails the query then
    ],
)
def test_records_that_were_gone_when_a_batch_was_planned(
    opened: list[MemoryTracking],
    monkeypatch: pytest.MonkeyPatch,
    planned: float | None,
    start: int,
    end: int,
    options: Mapping[int, Mapping[str, str]],
    reported: list[tuple[int, ViolationKind]],
) -> None:
    """With failOnDataLoss=false Spark skips them in silence; what was known before counts."""
    tracking = tracker(opened, options=options)
    tracking.store.starts[P0] = 25
    tracking.hear(0.0, event(0, None, 10))
    known = tracking.committer.log_starts
    monkeypatch.setattr(
        tracking.committer, "log_starts", lambda commit, by: known(commit, by + 1e9)
    )  # the worker's clock is the real one
    tracking.hear(1.0, event(1, start, end, planned=planned))
    assert kinds(tracking) == reported
    assert tracking.held == (10 if reported else end)


def test_where_a_log_begins_is_asked_of_the_cluster_that_the_source_reads(
    opened: list[MemoryTracking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic of that name elsewhere says nothing, though records were deleted there."""
    other = {**LOSSY[0], "kafka.bootstrap.servers": "other:9092", "eo.commit.group": "h"}
    tracking = tracker(opened, options={0: LOSSY[0], 1: other})
    starts = {"k:9092": 0, "other:9092": 25}
    monkeypatch.setattr(
        tracking.committer, "log_starts", lambda commit, by: {P0: starts[str(commit.cluster)]}
    )
    more = (source(1, 10, 40),)
    tracking.hear(0.0, event(0, 10, 40, more=more, planned=0.0))
    assert [reported.source for reported in tracking.of(GuardViolation)] == [1]
    assert (tracking.held, tracking.at(P0, "h")) == (40, None)


def test_the_moment_of_planning_is_taken_from_the_wall_to_the_monotonic_clock(
    opened: list[MemoryTracking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives that time by the wall clock; snapshots are timed by the monotonic one."""
    tracking = tracker(opened, options=LOSSY)
    asked: list[float] = []

    def starts(commit: object, by: float) -> Mapping[object, int]:
        asked.append(by)
        return {}

    monkeypatch.setattr(tracking.committer, "log_starts", starts)
    tracking.buffer.progressed(event(0, None, 10, planned=1_000_040.0))
    tracking.tracker.serve(tracking.buffer.take(), Moment(now=50.0, wall=1_000_047.0))
    assert asked == [43.0]


def test_losses_are_looked_for_in_all_batches_whose_events_waited(
    opened: list[MemoryTracking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest event holds all offsets, but the loss may be in the batch of another one.

    Each is judged by what was known when its own batch was planned, and not by what came later.
    """
    tracking = tracker(opened, options=LOSSY)
    monkeypatch.setattr(
        tracking.committer, "log_starts", lambda commit, by: {P0: 25 if by >= 2.0 else 0}
    )
    tracking.hear(0.0, event(0, None, 10, planned=0.0))
    tracking.hear(
        4.0,
        event(1, 10, 20, planned=1.0),
        event(2, 20, 40, planned=2.0),
        event(3, 40, 50, planned=3.0),
    )
    assert kinds(tracking) == [(2, ViolationKind.LOST)]
    assert tracking.held == 10
