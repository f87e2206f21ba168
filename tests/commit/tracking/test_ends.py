"""Runs that end, with and without a word of Spark: none of them holds up another for ever."""

from __future__ import annotations

import pytest

from eo_listener.commit.tracking.event_buffer import Started
from eo_listener.model.errors import JvmError
from eo_listener.model.events import CommitRefused, GuardViolation, RunGroupsChanged, SourceIgnored
from tests.commit.tracking.memory_tracking import HOUR, MemoryTracking, event, position


def ended(tracking: MemoryTracking) -> list[str]:
    return [reported.run_id for reported in tracking.of(RunGroupsChanged) if reported.ended]


def test_a_query_that_died_in_silence_holds_up_no_later_one(tracking: MemoryTracking) -> None:
    """With its SparkContext nobody tells of its end: the first word of another query finds out."""
    tracking.buffer.progressed(event(0, None, 10))
    tracking.queries.positions["r1"] = position(0, 10)
    tracking.serve(0.0)
    tracking.serve(2.0)
    tracking.queries.over.add("r1")
    assert tracking.hear(100.0, event(0, None, 50, run="r2", query="q2"))
    assert tracking.held == 50
    assert not tracking.of(CommitRefused)


def test_one_that_dies_while_it_holds_another_up_does_so_for_a_minute_at_most(
    tracking: MemoryTracking,
) -> None:
    """Whoever waits for a slower query has it asked each minute whether it is there at all."""
    tracking.queries.positions["slow"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10, run="slow", query="q2"), event(0, None, 10, run="fast"))
    for now in (300.0, 301.0):
        tracking.serve(now)
    tracking.queries.over.add("slow")
    tracking.hear(310.0, event(1, 10, 50, run="fast"))
    assert tracking.held == 10
    tracking.pass_until(375.0, since=310.0)
    assert tracking.held == 50


def test_a_slower_query_that_is_alive_goes_on_deciding(tracking: MemoryTracking) -> None:
    """To be asked does not cost a query its say."""
    tracking.queries.positions["slow"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10, run="slow", query="q2"), event(0, None, 50, run="fast"))
    tracking.pass_until(600.0)
    assert tracking.held == 10


def test_what_ended_in_silence_is_committed_no_more_and_forgotten(tracking: MemoryTracking) -> None:
    """Its last position counts; a minute later nothing is kept of it, and no recommit comes."""
    tracking.hear(0.0, event(0, None, 10))
    tracking.queries.positions["r1"] = position(1, 15)  # the event of batch 1 was lost
    tracking.queries.over.add("r1")
    tracking.pass_until(5 * HOUR)
    assert tracking.held == 15
    assert tracking.queries.forgotten == ["r1"]
    assert ended(tracking) == ["r1"]
    assert tracking.tracker.due() is None


def test_the_last_events_of_a_run_may_come_after_it_has_ended(tracking: MemoryTracking) -> None:
    """Spark's bus may be late: what it still brings is judged and committed as ever."""
    tracking.buffer.started(Started(query_id="q1", run_id="r1", name=None))
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.serve(0.0)
    tracking.serve(0.2)
    tracking.queries.over.add("r1")
    tracking.serve(3.0)  # seen to be over
    assert not tracking.queries.forgotten
    tracking.queries.positions["r1"] = position(2, 20)
    tracking.buffer.progressed(event(1, 5, 10))
    tracking.buffer.progressed(event(2, 12, 20))
    tracking.end(4.0, "r1")
    (reported,) = tracking.of(GuardViolation)
    assert reported.batch_id == 2
    assert tracking.queries.forgotten == ["r1"]
    assert not tracking.of(SourceIgnored)


def test_a_run_that_was_heard_of_again_is_kept(tracking: MemoryTracking) -> None:
    """An event after its end puts off the forgetting, until it is quiet."""
    tracking.buffer.progressed(event(0, None, 5))
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.queries.over.add("r1")
    tracking.serve(0.0)
    tracking.serve(0.2)
    tracking.hear(59.0, event(1, 5, 10))
    assert tracking.held == 10
    tracking.serve(61.0)
    assert not tracking.queries.forgotten
    tracking.pass_until(400.0, since=61.0)
    assert tracking.queries.forgotten == ["r1"]


def test_flush_ends_what_is_over(tracking: MemoryTracking) -> None:
    """Before the answer of a flush every query is asked whether it is there."""
    tracking.queries.positions["r1"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10), event(0, None, 50, run="r2", query="q2"))
    assert tracking.held == 10
    tracking.queries.over.add("r1")
    assert tracking.serve(1.0, check_all=True)
    assert tracking.held == 50


def test_a_query_that_cannot_be_asked_is_not_over(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown is not ended: in a client of Spark Connect no query can be asked."""

    def unknown(query_id: str, run_id: str) -> bool:
        raise JvmError("it runs elsewhere")

    monkeypatch.setattr(tracking.queries, "has_ended", unknown)
    tracking.hear(0.0, event(0, None, 10), event(0, None, 50, run="r2", query="q2"))
    tracking.pass_until(2 * HOUR)
    assert tracking.held == 10
    assert not tracking.queries.forgotten


def test_an_end_that_is_reported_twice_is_one_end(tracking: MemoryTracking) -> None:
    """A listener that was added twice is told of each end twice too."""
    tracking.queries.positions["r1"] = position(0, 10)
    tracking.hear(0.0, event(0, None, 10))
    for now in (1.0, 2.0):
        tracking.end(now, "r1")
    assert ended(tracking) == ["r1"]
    assert tracking.held == 10
