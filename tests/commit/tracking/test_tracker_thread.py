"""The thread between Spark's events and the committer: when it works, and how it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.event_buffer import Ended, Started
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.errors import FormatError
from eo_listener.events import Event, InternalError, Observers
from eo_listener.testing import MemoryGroups, MemoryQueries
from tests.commit.tracking.memory_tracking import OPTIONS, P0, event, position
from tests.waiting import until


class Hanging(MemoryQueries):
    """Queries of which one is asked in vain until `release` is set."""

    def __init__(self, run: str) -> None:
        super().__init__(OPTIONS)
        self.working, self.release, self._run = threading.Event(), threading.Event(), run

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        if run_id == self._run:
            self.working.set()
            self.release.wait(10.0)
        return super().options(query_id, run_id)


class Routed:
    """A tracker's thread with a committer behind it."""

    def __init__(self, queries: MemoryQueries) -> None:
        self.store = MemoryGroups()
        self.events: list[Event] = []
        observers = Observers(self.events.append)
        self.committer = Committer(lambda cluster: self.store, observers=observers)
        self.tracker = TrackerThread(GroupRouting(), queries, self.committer, observers)

    def at(self) -> int | None:
        """Where the group stands."""
        held = self.store.groups.get("g", {}).get(P0)
        return None if held is None else held.offset

    def left(self) -> set[tuple[str, str]]:
        """The query and the batch of what was said to be lost."""
        lost = [told for told in self.events if isinstance(told, InternalError)]
        assert all("did not answer" in told.problem for told in lost)
        return {(told.where, told.problem[:8]) for told in lost}


def soon(seconds: float = 10.0) -> float:
    """A time limit, on the monotonic clock."""
    return time.monotonic() + seconds


@contextmanager
def routing(queries: MemoryQueries) -> Iterator[Routed]:
    made = Routed(queries)
    try:
        yield made
    finally:
        made.tracker.close(soon(2.0))
        made.committer.close(2.0)


@pytest.fixture
def routed(queries: MemoryQueries) -> Iterator[Routed]:
    with routing(queries) as made:
        yield made


def test_a_query_that_has_started_is_checked_and_the_thread_sleeps_meanwhile(
    routed: Routed, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has restored is committed within moments, though nobody says a word.

    Between two checks the thread takes no processor time.
    """
    due = Mock(side_effect=routed.tracker._tracker.due)
    monkeypatch.setattr(routed.tracker._tracker, "due", due)
    queries.positions["r1"] = position(3, 40)
    routed.tracker.put(Started("q1", "r1", None))
    until(lambda: routed.at() == 40)
    assert 0 < due.call_count < 20


def test_flush_waits_for_what_is_being_served() -> None:
    """An event that was taken from the buffer and is not yet offered keeps flush waiting."""
    queries = Hanging("r1")
    with routing(queries) as routed:
        routed.tracker.put(event(0, None, 5))
        assert queries.working.wait(10.0)
        assert not routed.tracker.flush(soon(0.05))
        queries.release.set()
        assert routed.tracker.flush(soon())


@pytest.mark.parametrize(
    ("hanging", "left"),
    [
        ("r1", {("r1", 7), ("r2", 7), ("r3", 7), ("r4", 8)}),
        ("r2", {("r2", 7), ("r3", 7), ("r4", 8)}),
    ],
)
def test_each_batch_left_at_a_close_is_named(hanging: str, left: set[tuple[str, int]]) -> None:
    """What hangs, what was taken with it and comes after it, and what came since."""
    queries = Hanging(hanging)
    with routing(queries) as routed:
        with routed.tracker._changed:  # all of them are taken at one time
            for run in ("r1", "r2", "r3"):
                routed.tracker._buffer.add(event(7, 0, 5, run=run, query=run))
            routed.tracker._changed.notify_all()
        assert queries.working.wait(10.0)
        routed.tracker.put(event(8, 5, 9, run="r4", query="r4"))
        routed.tracker.close(soon(0.05))
        queries.release.set()
        assert routed.left() == {(f"query {run}", f"batch {batch} ") for run, batch in left}


def test_a_run_is_asked_once_and_its_newest_event_is_committed(
    routed: Routed, queries: MemoryQueries, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is forgotten; a close that is in time leaves no batch, and has nothing to say."""
    with caplog.at_level(logging.WARNING, "eo_listener"):
        for batch in range(50):
            routed.tracker.put(event(batch, None, 100 + batch))
        routed.tracker.put(event(50))
        routed.tracker.put(Ended("r1"))
        routed.tracker.close(soon())
        assert routed.committer.flush(10.0)
    assert routed.at() == 149
    assert (queries.requests, queries.forgotten_runs) == (1, ["r1"])
    assert (routed.left(), caplog.records) == (set(), [])


def test_a_closed_one_says_so_once(routed: Routed, caplog: pytest.LogCaptureFixture) -> None:
    """Still registered with Spark, it keeps nothing and logs one line."""
    routed.tracker.close(soon())
    with caplog.at_level(logging.INFO):
        for batch in range(100):
            routed.tracker.put(Started("q1", f"r{batch}", None))
            routed.tracker.put(event(batch, 5, 10, run=f"r{batch}"))
            routed.tracker.put(FormatError("no JSON"))
            routed.tracker.put(Ended(f"r{batch}"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "batch 0 " in line
    assert "removeListener" in line
    assert not routed.tracker._buffer


def test_flush_does_not_wait_for_a_thread_that_is_gone(routed: Routed) -> None:
    """After a close the answer comes at once."""
    routed.tracker.close(soon())
    began = time.monotonic()
    assert not routed.tracker.flush(soon(30.0))
    assert time.monotonic() - began < 20.0


def test_an_event_in_which_no_source_has_an_end_is_left_out(routed: Routed) -> None:
    """Spark tells of a batch before any source has an offset: nothing is durable by that."""
    routed.tracker.put(event(0, None, None))
    assert not routed.tracker._buffer
    assert routed.tracker.flush(soon())
    assert routed.at() is None
