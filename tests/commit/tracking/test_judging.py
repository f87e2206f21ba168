"""What the guard makes of events and positions, and what is committed then."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import Mock

import pytest

from eo_listener.commit.tracking.sequence_guard import GuardMode
from eo_listener.commit.tracking.tracker import Moment
from eo_listener.errors import FormatError
from eo_listener.events import (
    GuardViolation,
    InternalError,
    PartitionsShared,
    ProgressEventsDuplicated,
    ProgressEventsMissed,
    QueryProgressed,
    SourceIgnored,
    ViolationKind,
)
from tests.commit.tracking.memory_tracking import (
    HOUR,
    OPTIONS,
    P0,
    P1,
    U0,
    MemoryTracking,
    event,
    kinds,
    marked,
    position,
    source,
    tracker,
)

TWO = {0: OPTIONS[0], 1: OPTIONS[0]}


@pytest.mark.parametrize(
    ("guard", "reported", "held", "mark"),
    [
        (GuardMode.WITHHOLD, [(1, ViolationKind.GAP)], 5, True),
        (GuardMode.WARN, [(1, ViolationKind.GAP)], 12, False),
    ],
)
def test_what_each_guard_does_with_a_gap(
    opened: list[MemoryTracking],
    guard: GuardMode,
    reported: list[tuple[int, ViolationKind]],
    held: int,
    mark: bool,
) -> None:
    """It withholds and marks the source, or only reports the gap."""
    tracking = tracker(opened, guard)
    tracking.hear(0.0, event(0, None, 5))
    tracking.hear(1.0, event(1, 7, 9), event(2, 9, 12))
    assert kinds(tracking) == reported
    assert [one.withheld for one in tracking.of(GuardViolation)] == [mark] * len(reported)
    assert (tracking.held, marked(tracking)) == (held, mark)


def test_the_first_event_of_a_run_is_judged_by_its_checkpoint(tracking: MemoryTracking) -> None:
    """A query whose first batch does not begin where its checkpoint ended is withheld."""
    tracking.queries.positions["r1"] = position(4, 10)
    tracking.start(0.0, "r1")
    tracking.serve(0.2)
    assert tracking.held == 10
    tracking.hear(1.0, event(5, 12, 15), event(6, 15, 20))
    assert kinds(tracking) == [(5, ViolationKind.GAP)]
    assert tracking.held == 10


def test_missing_events_are_reported_and_are_no_gap(tracking: MemoryTracking) -> None:
    """Spark drops events when its bus is full: the batches around the gap are named."""
    tracking.hear(0.0, event(5, 0, 10), event(9, 30, 40))
    (reported,) = tracking.of(ProgressEventsMissed)
    assert (reported.after_batch, reported.before_batch, reported.run_id) == (5, 9, "r1")
    assert not tracking.of(GuardViolation)
    assert tracking.held == 40


def test_events_that_come_twice_are_reported_once(tracking: MemoryTracking) -> None:
    """A listener that was added twice is one mistake, however many queries there are."""
    for run in ("r1", "r2"):
        for number in range(3):
            for _ in range(2):
                tracking.buffer.add(event(number, 5 * number, 5 * number + 5, run, run))
            tracking.serve(float(number))
    (reported,) = tracking.of(ProgressEventsDuplicated)
    assert (reported.query, reported.run_id, reported.batch_id) == ("r1", "r1", 0)
    assert not tracking.of(GuardViolation)
    assert len(tracking.of(QueryProgressed)) == 6


def test_an_event_that_cannot_be_read_is_an_internal_error(tracking: MemoryTracking) -> None:
    """An event that cannot be read is reported as InternalError, and stops nothing."""
    tracking.buffer.add(FormatError("no JSON"))
    tracking.hear(0.0, event(0, None, 5))
    (reported,) = tracking.of(InternalError)
    assert (reported.where, "no JSON" in reported.problem) == ("a progress event", True)
    assert tracking.held == 5


def test_a_withheld_source_holds_up_no_other_in_a_new_partition(
    opened: list[MemoryTracking],
) -> None:
    """The lower offset is that of the sources that are committed; marks come with the recommit."""
    tracking = tracker(opened, options=TWO)
    tracking.hear(0.0, event(0, None, 5, more=(source(1, None, {U0: 5}),)))
    tracking.hear(1.0, event(1, 7, 9, more=(source(1, {U0: 5}, {U0: 9}),)))
    both = (source(1, {U0: 9}, {U0: 12, P1: 7}),)
    tracking.hear(2.0, event(2, 9, {P0: 12, P1: 3}, more=both))
    assert (tracking.at(P0), tracking.at(P1), tracking.at(U0)) == (5, 7, 12)
    assert kinds(tracking) == [(1, ViolationKind.GAP)]
    assert not tracking.of(PartitionsShared)


def test_a_withheld_source_holds_up_its_own_cluster_alone(opened: list[MemoryTracking]) -> None:
    """Two sources on two clusters: one is marked, the other goes on and is renewed."""
    other = {"kafka.bootstrap.servers": "other:9092", "eo.commit.group": "h"}
    tracking = tracker(opened, options={0: OPTIONS[0], 1: other})
    tracking.hear(0.0, event(0, None, 5, more=(source(1, None, {U0: 5}),)))
    tracking.hear(1.0, event(1, 7, 9, more=(source(1, {U0: 5}, {U0: 9}),)))
    assert marked(tracking)
    assert (tracking.held, tracking.at(U0, "h")) == (5, 9)
    shown = [[one.cluster for one in told.sources] for told in tracking.of(QueryProgressed)]
    assert shown == [["k:9092", "other:9092"]] * 2
    del tracking.store.history[:]
    tracking.pass_until(1.5 * HOUR, since=1.0)
    landed = {
        (group, tp): one.offset
        for group, positions in tracking.store.history
        for tp, one in positions.items()
    }
    assert landed == {("g", P0): 5, ("h", U0): 9}


def test_a_source_withheld_before_its_group_is_known(opened: list[MemoryTracking]) -> None:
    """The options came later: the other source is committed, and of this one nothing."""
    tracking = tracker(opened, options=TWO)
    tracking.queries.source_options = None
    tracking.hear(
        0.0,
        event(0, None, 5, more=(source(1, None, {U0: 5}),)),
        event(1, 7, 9, more=(source(1, {U0: 5}, {U0: 9}),)),
    )
    assert kinds(tracking) == [(1, ViolationKind.GAP)]
    tracking.pass_until(8.0)
    assert [why.source for why in tracking.of(SourceIgnored)] == [1]
    tracking.queries.source_options = TWO
    tracking.hear(9.0, event(2, 9, 12, more=(source(1, {U0: 9}, {U0: 12}),)))
    tracking.pass_until(1.5 * HOUR, since=9.0)
    assert (tracking.at(P0), tracking.at(U0)) == (None, 12)
    assert [why.source for why in tracking.of(SourceIgnored)] == [1]


# What the query itself says


def test_one_whose_event_was_dropped_is_committed_later(tracking: MemoryTracking) -> None:
    """Waiting is for once: what Spark has dropped never comes."""
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.buffer.add(event(0, None, 5))
    tracking.pass_until(10.0)
    tracking.queries.positions["r1"] = position(1, 9)
    tracking.serve(61.0)
    assert tracking.held == 5
    tracking.pass_until(70.0, since=61.0)
    assert tracking.held == 9


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
    starts = Mock(return_value={})
    monkeypatch.setattr(tracking.committer, "log_starts", starts)
    tracking.buffer.add(event(0, None, 10, planned=1_000_040.0))
    tracking.tracker.serve(tracking.buffer.take(), Moment(now=50.0, wall=1_000_047.0))
    assert [asked.args[1] for asked in starts.call_args_list] == [43.0]


def test_losses_are_looked_for_in_all_batches_whose_events_waited(
    opened: list[MemoryTracking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is judged by what was known when its own batch was planned, not by what came later."""
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


def test_a_withheld_source_is_recommitted_where_it_stands(tracking: MemoryTracking) -> None:
    """Its mark and its offset outlive the retention of the group, newer offsets do not come."""
    tracking.queries.positions["r1"] = position(2, 20)
    tracking.hear(0.0, event(0, None, 5))
    tracking.hear(1.0, event(1, 7, 9))
    del tracking.store.history[:]
    tracking.pass_until(2.5 * HOUR, since=1.0)
    assert len(tracking.store.history) >= 2
    assert {landed[P0].offset for _, landed in tracking.store.history} == {5}
    assert marked(tracking)
