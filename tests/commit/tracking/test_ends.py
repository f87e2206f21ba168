"""Runs that end, events that come late, and what starts after them."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from eo_listener.commit.groups.policy import OnRewind
from eo_listener.commit.tracking.event_buffer import Ended
from eo_listener.commit.tracking.query_run import QueryRun
from eo_listener.errors import JvmError
from eo_listener.events import (
    CommitRefused,
    GuardViolation,
    RunGroupsChanged,
    SourceIgnored,
)
from eo_listener.model.protocols import LivePosition
from eo_listener.testing import MemoryQueries
from tests.commit.positions import metadata_of
from tests.commit.tracking.memory_tracking import (
    HOUR,
    OPTIONS,
    P0,
    P1,
    MemoryTracking,
    event,
    position,
)


def test_one_that_dies_holds_another_up_for_a_minute_at_most(tracking: MemoryTracking) -> None:
    """Whoever waits for a slower query has it asked each minute whether it is there at all."""
    tracking.queries.positions["slow"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10, run="slow", query="q2"), event(0, None, 10, run="fast"))
    for now in (300.0, 301.0):
        tracking.serve(now)
    tracking.queries.ended_runs.add("slow")
    tracking.hear(310.0, event(1, 10, 50, run="fast"))
    assert tracking.held == 10
    tracking.pass_until(375.0, since=310.0)
    assert tracking.held == 50


def test_a_run_that_was_heard_of_again_is_kept(tracking: MemoryTracking) -> None:
    """An event after its end puts off the forgetting, until it is quiet."""
    tracking.buffer.add(event(0, None, 5))
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.queries.ended_runs.add("r1")
    tracking.serve(0.0)
    tracking.serve(0.2)
    tracking.hear(59.0, event(1, 5, 10))
    assert tracking.held == 10
    tracking.serve(61.0)
    assert not tracking.queries.forgotten_runs
    tracking.pass_until(400.0, since=61.0)
    assert tracking.queries.forgotten_runs == ["r1"]


def test_flush_ends_what_is_over(tracking: MemoryTracking) -> None:
    """Before the answer of a flush every query is asked whether it is there."""
    tracking.queries.positions["r1"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10), event(0, None, 50, run="r2", query="q2"))
    assert tracking.held == 10
    tracking.queries.ended_runs.add("r1")
    assert tracking.serve(1.0, check_all=True)
    assert tracking.held == 50


def test_unknown_is_not_ended(tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is not ended: in a client of Spark Connect no query can be asked."""
    unknown = JvmError("it runs elsewhere")
    monkeypatch.setattr(tracking.queries, "has_ended", Mock(side_effect=unknown))
    tracking.hear(0.0, event(0, None, 10), event(0, None, 50, run="r2", query="q2"))
    tracking.pass_until(2 * HOUR)
    assert tracking.held == 10
    assert not tracking.queries.forgotten_runs


LOSSY = {0: {**OPTIONS[0], "failondataloss": "false"}}


Begun = Callable[..., MemoryTracking]


@pytest.fixture
def begun(opened: list[MemoryTracking]) -> Begun:
    """Begin a query that has done one batch, whose bus stands still from then on."""

    def begin(on_rewind: OnRewind = OnRewind.REFUSE, *, lossy: bool = False) -> MemoryTracking:
        tracking = MemoryTracking(MemoryQueries(LOSSY if lossy else OPTIONS), on_rewind=on_rewind)
        opened.append(tracking)
        tracking.queries.positions["r1"] = position(0, 10)
        tracking.buffer.add(event(0, None, 10))
        tracking.pass_until(4.0)
        return tracking

    return begin


def restarted(tracking: MemoryTracking, ended: LivePosition, begun: LivePosition) -> None:
    """A run is over, and its successor has begun; nobody was told of the end."""
    tracking.queries.positions |= {"r1": ended, "r2": begun}
    tracking.queries.ended_runs.add("r1")
    tracking.begin("r2")
    tracking.pass_until(20.0, since=12.0)


def late(tracking: MemoryTracking, now: float, *batches: int) -> list[int]:
    """Let events of ten records each come; where the group is after each of them."""
    held = []
    for batch in batches:
        tracking.hear(now + batch / 10, event(batch, 10 * batch, 10 * batch + 10))
        held.append(tracking.held)
    return held


@pytest.mark.parametrize("on_rewind", [OnRewind.REFUSE, OnRewind.ALLOW])
@pytest.mark.parametrize("lossy", [True, False])
def test_passed_events_move_no_group(begun: Begun, on_rewind: OnRewind, *, lossy: bool) -> None:
    """Nothing is refused and nothing goes back; what comes after the position is committed."""
    tracking = begun(on_rewind, lossy=lossy)
    tracking.queries.positions["r1"] = position(5, 60)
    tracking.pass_until(80.0, since=4.0)
    assert tracking.held == 60
    assert late(tracking, 80.0, 1, 2, 3, 4, 5, 6) == [60, 60, 60, 60, 60, 70]
    assert not tracking.of(CommitRefused)


@pytest.mark.parametrize("on_rewind", [OnRewind.REFUSE, OnRewind.ALLOW])
def test_events_of_a_restarted_run_come_late(begun: Begun, on_rewind: OnRewind) -> None:
    """They are judged, hold up nobody, and bring no run back."""
    tracking = begun(on_rewind)
    restarted(tracking, position(4, 50), position(4, 50))
    assert tracking.held == 50
    assert late(tracking, 20.0, 1, 2, 3) == [50, 50, 50]
    tracking.hear(20.5, event(5, 50, 60, run="r2"))
    assert tracking.held == 60
    tracking.buffer.add(event(4, 41, 50))
    tracking.end(21.0, "r1")
    assert [reported.batch_id for reported in tracking.of(GuardViolation)] == [4]
    tracking.pass_until(500.0, since=21.0)
    assert tracking.queries.forgotten_runs == ["r1"]
    assert not tracking.of(CommitRefused)


@pytest.mark.parametrize("on_rewind", [OnRewind.REFUSE, OnRewind.ALLOW])
def test_the_last_event_of_a_run_that_has_ended_takes_no_successor_back(
    begun: Begun, on_rewind: OnRewind
) -> None:
    """It ends where its run's last position was, which was offered when the run had ended."""
    tracking = begun(on_rewind)
    restarted(tracking, position(1, 20), position(2, 30))
    assert tracking.held == 30
    assert late(tracking, 20.0, 1) == [30]
    assert not tracking.of(CommitRefused)


def test_an_event_of_a_run_that_was_forgotten_ends_no_other(begun: Begun) -> None:
    """The run that goes on keeps its groups; the end that comes at last is nothing new."""
    tracking = begun()
    tracking.queries.positions |= {"r1": position(2, 30), "r2": position(2, 30)}
    tracking.begin("r2")
    tracking.pass_until(80.0, since=12.0)
    assert tracking.queries.forgotten_runs == ["r1"]
    late(tracking, 90.0, 1)
    tracking.pass_until(95.0, since=91.0)
    tracking.buffer.add(event(3, 30, 40, run="r2"))
    tracking.queries.positions["r2"] = position(3, 40)
    tracking.serve(100.0)
    tracking.buffer.add(Ended("r1"))
    tracking.start(101.0, "r1")
    tracking.pass_until(4000.0, since=101.0)
    assert tracking.held == 40
    assert tracking.queries.forgotten_runs == ["r1"]
    assert [reported.run_id for reported in tracking.of(RunGroupsChanged) if reported.ended] == [
        "r1"
    ]


def test_a_late_event_of_a_run_that_is_kept_ends_no_other(begun: Begun) -> None:
    """Only a run with batches above those of the newest is newer than that."""
    tracking = begun()
    tracking.start(5.0, "r2")
    late(tracking, 6.0, 1)
    tracking.hear(7.0, event(2, 20, 30, run="r2"))
    tracking.hear(8.0, event(1, 10, 20, run="never heard of"))
    tracking.pass_until(500.0, since=8.0)
    assert "r2" not in tracking.queries.forgotten_runs


def test_a_run_that_goes_on_after_it_was_taken_for_ended_is_heard(begun: Begun) -> None:
    """Of a run whose start was not told the batches count, once they are above all others."""
    tracking = begun()
    del tracking.queries.positions["r1"]
    tracking.begin("r2")
    tracking.pass_until(80.0, since=5.0)
    assert "r1" in tracking.queries.forgotten_runs
    tracking.hear(81.0, event(1, 10, 20, run="r2"))
    assert late(tracking, 82.0, 2) == [30]
    tracking.pass_until(300.0, since=83.0)
    assert late(tracking, 301.0, 3) == [40]


@pytest.mark.parametrize(
    ("batch", "start", "end", "is_late"),
    [
        (4, {P0: 40}, {P0: 50}, True),
        (5, {P0: 50}, {P0: 60}, False),
        (5, {P0: 55, P1: 5}, {P0: 60, P1: 5}, False),
        (6, {P0: 60}, {P0: 70}, False),
        (6, {P0: 40}, {P0: 50}, True),  # the number of the position was too low
        (6, {P0: 60}, {P0: 50}, False),  # begins at the position, and goes back
        (6, {P0: 40}, {P0: 50, P1: 5}, False),  # a partition that the position does not know
    ],
)
def test_what_is_late(
    batch: int, start: dict[object, int], end: dict[object, int], *, is_late: bool
) -> None:
    """An event is late that the position has passed, by number or, if that may lag, by offsets."""
    run = QueryRun(query_id="q1", run_id="r1", name=None, due=0.0, options={0: {}})
    run.offered(position(5, 60))
    if len(end) == len(start) == 2:
        run.offered(position(5, {P0: 60, P1: 5}))
    assert run.is_late(event(batch, start, end)) == is_late  # type: ignore[arg-type]  # of partitions


def test_a_position_lower_than_before_counts() -> None:
    """A query may truly go back, with a topic made anew: then the newest position is compared."""
    run = QueryRun(query_id="q1", run_id="r1", name=None, due=0.0, options={0: {}})
    run.offered(position(5, 60))
    run.offered(position(6, 5))
    assert not run.is_late(event(7, 5, 8))
    assert run.take(event(7, 5, 8), 1.0)
    assert run.furthest == event(7, 5, 8)


def rewound_from(tracking: MemoryTracking) -> list[int | None]:
    """What the commits say, in their order, each value once."""
    reported = [metadata_of(landed[P0]).rewound_from for _, landed in tracking.store.history]
    return list(dict.fromkeys(reported))


def test_a_new_checkpoint_takes_its_group_back_where_that_is_allowed(
    queries: MemoryQueries, opened: list[MemoryTracking]
) -> None:
    """The run that has committed more is over: what the new one has read counts, recorded."""
    allowing = MemoryTracking(queries, on_rewind=OnRewind.ALLOW)
    opened.append(allowing)
    assert allowing.hear(0.0, event(0, None, 100))
    allowing.buffer.add(Ended("r1"))
    allowing.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert allowing.hear(2.0, event(1, 30, 40, run="r2", query="q2"))
    assert allowing.held == 40
    assert rewound_from(allowing) == [None, 100]
    assert not allowing.of(CommitRefused)


def test_the_last_events_of_a_run_may_come_after_it_has_ended(tracking: MemoryTracking) -> None:
    """Spark's bus may be late: what it still brings is judged and committed as ever."""
    tracking.begin("r1")
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.serve(0.0)
    tracking.serve(0.2)
    tracking.queries.ended_runs.add("r1")
    tracking.serve(3.0)  # seen to be over
    assert not tracking.queries.forgotten_runs
    tracking.queries.positions["r1"] = position(2, 20)
    tracking.buffer.add(event(1, 5, 10))
    tracking.buffer.add(event(2, 12, 20))
    tracking.end(4.0, "r1")
    (reported,) = tracking.of(GuardViolation)
    assert reported.batch_id == 2
    assert tracking.queries.forgotten_runs == ["r1"]
    assert not tracking.of(SourceIgnored)


def test_the_committer_hears_of_each_end(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told, or seen: what it could not commit of the run ends with it."""
    ended: list[str] = []
    monkeypatch.setattr(tracking.committer, "end_run", ended.append)
    tracking.hear(0.0, event(0, None, 10), event(0, None, 10, run="r2", query="q2"))
    tracking.end(1.0, "r1")
    tracking.queries.ended_runs.add("r2")
    tracking.pass_until(HOUR, 1.0)
    assert {*ended} == {"r1", "r2"}


def test_by_default_nothing_goes_back(tracking: MemoryTracking) -> None:
    """A new checkpoint is refused until it has passed what its group holds."""
    tracking.hear(0.0, event(0, None, 100))
    tracking.buffer.add(Ended("r1"))
    tracking.hear(1.0, event(0, None, 30, run="r2", query="q2"))
    assert tracking.held == 100
    assert len(tracking.of(CommitRefused)) == 1
    tracking.hear(2.0, event(1, 30, 130, run="r2", query="q2"))
    assert tracking.held == 130
