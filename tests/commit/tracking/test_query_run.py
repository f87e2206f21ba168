"""When a run is looked at, and what of it counts before its events have come."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from eo_listener.commit.tracking.query_run import QueryRun
from eo_listener.events import ViolationKind
from eo_listener.model.progress import Progress
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets, TopicPartition
from tests.commit.tracking.memory_tracking import HOUR, P0, event, position


def run(**how: Any) -> QueryRun:
    """A run whose first check is due at once; `how` are other fields of it."""
    return QueryRun(query_id="q1", run_id="r1", name=None, due=0.0, **{"options": {0: {}}, **how})


def test_until_the_checkpoint_is_restored_it_is_asked_often() -> None:
    """The query is asked at least each second, and its first position is committed whole."""
    one, now = run(), 0.0
    for _ in range(20):
        assert not one.on_position(None, now, HOUR, early=False)
        assert now < one.next_check <= now + 1.0
        now = one.next_check
    assert one.on_position(position(3), now, HOUR, early=False)
    assert one.next_check <= now + 5.0  # Spark restores in two steps
    now = one.next_check
    assert not one.on_position(position(4), now, HOUR, early=False)
    assert one.next_check > now + HOUR / 2


def test_a_query_that_never_restores_is_asked_often_for_some_minutes_only() -> None:
    """After 600 checks it is asked once a recommit interval."""
    one, now, times = run(), 0.0, 0
    while one.next_check <= now + 1.0:
        now = one.next_check
        one.on_position(None, now, HOUR, early=False)
        times += 1
    assert (times, one.next_check) == (600, now + HOUR)


def test_the_recommit_keeps_its_time_whatever_comes_between() -> None:
    """Events and the checks after them do not delay the recommit."""
    one, now, beats = run(), 0.0, []
    while now < 5 * HOUR:
        if one.on_position(position(3), now, HOUR, early=False):
            beats.append(now)
        now = one.next_check
        one.on_event(now)
    gaps = [after - before for before, after in itertools.pairwise(beats)]
    assert gaps
    assert all(gap <= HOUR + 1 for gap in gaps)


def test_events_that_fall_silent_lead_to_a_snapshot() -> None:
    """The last event of a busy time may have been dropped: a minute later the query is asked."""
    one = run()
    one.on_position(position(3), 0.0, HOUR, early=False)
    one.on_position(position(3), 2.0, HOUR, early=False)
    for now in (10.0, 20.0, 30.0):
        one.on_event(now)
        assert one.next_check == now + 60.0
    one.on_position(position(4), 90.0, HOUR, early=False)
    assert one.next_check == HOUR


def test_a_position_waits_for_its_event_but_not_for_ever() -> None:
    """What is ahead of the newest event is not judged yet; a dropped event holds it up once."""
    one = run()
    assert not one.is_early(position(7))  # no event at all so far: the catch-up at the start
    one.newest = event(6)
    assert one.is_early(position(7))
    one.newest = event(8)
    assert one.is_early(position(9))
    assert not one.is_early(position(10))  # the event of batch 9 should be here by now
    one.newest = event(10)
    assert not one.is_early(position(10))


def test_a_position_that_the_newest_event_has_reported_has_passed_nothing() -> None:
    """What comes below it is no late event but a step back, which must be judged as one."""
    one = run()
    assert one.take(event(6, 0, 5), 0.0)
    one.offered(position(6, 5))
    assert one.take(event(7, 3, 4), 1.0)
    one.offered(position(8, 9))
    assert not one.take(event(8, 4, 6), 2.0)


def test_an_event_that_lacks_a_partition_and_is_not_behind_is_not_late() -> None:
    """What it lacks has vanished, which is to be judged and not to be passed over."""
    one = run()
    both = Offsets({P0: 5, TopicPartition("t", 1): 7})
    one.offered(LivePosition(batch_id=3, committed={0: both}))
    assert one.take(event(4, 3, 5), 0.0)


def test_a_run_that_is_over_is_kept_for_a_minute_after_each_late_event() -> None:
    """More of them may be on their way, and each is to be judged."""
    one = run()
    one.offered(position(8, 9))
    one.finished, one.due = True, 5.0
    assert not one.take(event(7, 5, 7), 4.0)
    assert one.due == 64.0


def test_a_full_map_that_is_overdue_and_has_nothing_to_send_is_tried_once_a_second() -> None:
    """An overdue recommit without offsets is tried each second, not in a busy loop."""
    one = run()
    assert one.on_position(position(3), 0.0, HOUR, early=False)
    assert not one.on_position(None, HOUR + 10.0, HOUR, early=False)
    assert one.next_check == HOUR + 11.0


def test_what_is_polled() -> None:
    """Queries whose checkpoint lags behind events, or that may skip losses, are asked often."""
    for one in (run(mode=QueryMode.CONTINUOUS), run(options={0: {"failondataloss": "false"}})):
        one.on_position(position(1), 0.0, HOUR, early=False)
        one.on_position(position(1), 2.0, HOUR, early=False)
        assert one.next_check <= 10.0


@pytest.mark.parametrize(
    ("skipping", "watched"), [((), False), ((0,), True), ((1,), True), ((0, 1), True)]
)
def test_one_source_that_skips_losses_is_enough(skipping: tuple[int, ...], watched: bool) -> None:
    """One source with failOnDataLoss=false has the whole query asked often."""
    given = {one: {"failondataloss": str(one not in skipping).lower()} for one in range(2)}
    assert run(options=given).is_polled is watched
    assert not run(options=None).is_polled


@pytest.mark.parametrize(
    ("restored", "first", "kinds"),
    [
        (position(3, 10), event(4, 10, 15), []),
        (position(3, 10), event(4, 12, 15), [ViolationKind.GAP]),
        (position(3, 10), event(4, 8, 15), [ViolationKind.REPEAT]),
        (position(3, 10), event(4, 10, 8), [ViolationKind.BACKWARD]),
        (position(3, 15), event(4, 10, 15), []),  # where batch 4 ended: the number is too low
        (position(4, 15), event(4, 10, 15), []),
        (position(2, 10), event(4, 12, 15), []),  # nothing is known of batch 3
        (position(3, 10), event(4, 12, None), []),
        (None, event(4, 12, 15), []),
    ],
)
def test_the_first_event_is_judged_by_what_was_restored(
    restored: LivePosition | None, first: Progress, kinds: list[ViolationKind]
) -> None:
    """Where a run begins is compared with its checkpoint, if that is known for certain."""
    one = run()
    if restored is not None:
        one.on_position(restored, 0.0, HOUR, early=False)
    found = one.judge_first(first)
    assert [violation.kind for violation in found.get(0, ())] == kinds


def test_a_position_that_waits_for_its_event_is_asked_for_soon() -> None:
    """Five seconds, not a recommit: the event may have been dropped."""
    one = run()
    one.on_position(position(3), 0.0, HOUR, early=False)
    one.on_position(position(3), 2.0, HOUR, early=False)
    one.on_position(position(4), 100.0, HOUR, early=True)
    assert one.next_check == 105.0
    one.on_position(position(4), 105.0, 2.0, early=True)
    assert one.next_check == 107.0


def test_the_full_map_is_due_with_each_recommit_alone() -> None:
    """Checks that come more often recommit nothing; one that is a little early does."""
    one = run(mode=QueryMode.CONTINUOUS)
    assert one.on_position(position(1), 0.0, 100.0, early=False)
    recommitted_at = [
        now for now in range(1, 301) if one.on_position(position(1), float(now), 100.0, early=False)
    ]
    assert recommitted_at == [90, 180, 270]
