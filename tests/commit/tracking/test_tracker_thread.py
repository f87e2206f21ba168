"""The thread between Spark's events and the committer: when it works, and how it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from eo_listener.commit.groups.committer import Committer
from eo_listener.commit.tracking.routing import GroupRouting
from eo_listener.commit.tracking.tracker_thread import TrackerThread
from eo_listener.model.errors import FormatError
from eo_listener.model.events import Event, InternalError
from eo_listener.model.observers import Observers
from eo_listener.testing import MemoryGroups, MemoryQueries
from tests.commit.tracking.memory_tracking import OPTIONS, P0, event, position


class Routed:
    """A router with a committer behind it."""

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

    def left(self) -> list[str]:
        """What was said to be lost."""
        return [told.problem for told in self.events if isinstance(told, InternalError)]


@pytest.fixture
def routed(queries: MemoryQueries) -> Iterator[Routed]:
    made = Routed(queries)
    yield made
    made.tracker.close(time.monotonic() + 2.0)
    made.committer.close(2.0)


def soon(seconds: float = 10.0) -> float:
    """A time limit, on the monotonic clock."""
    return time.monotonic() + seconds


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    limit = soon()
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_query_that_has_started_is_checked_without_any_event(
    routed: Routed, queries: MemoryQueries
) -> None:
    """What it has restored is committed within moments, though nobody says a word."""
    queries.positions["r1"] = position(3, 40)
    routed.tracker.started("q1", "r1", None)
    until(lambda: routed.at() == 40)


def test_it_sleeps_while_nothing_is_due(
    routed: Routed, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two checks its thread takes no processor time."""
    asked = []
    due = routed.tracker._tracker.due

    def counted() -> float | None:
        asked.append(due())
        return asked[-1]

    monkeypatch.setattr(routed.tracker._tracker, "due", counted)
    queries.positions["r1"] = position(3, 40)
    routed.tracker.started("q1", "r1", None)
    until(lambda: routed.at() == 40)
    assert len(asked) < 20


def test_flush_waits_for_what_is_being_served(
    routed: Routed, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that was taken from the buffer and is not yet offered keeps flush waiting."""
    working, release = threading.Event(), threading.Event()

    def options(query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        working.set()
        release.wait(10.0)
        return OPTIONS

    monkeypatch.setattr(queries, "options", options)
    routed.tracker.progressed(event(0, None, 5))
    assert working.wait(10.0)
    assert not routed.tracker.flush(soon(0.05))
    release.set()
    assert routed.tracker.flush(soon())


def test_each_batch_that_is_left_at_a_close_is_named(
    routed: Routed, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being served, what was taken with it, and what came since."""
    working, release = threading.Event(), threading.Event()

    def options(query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        working.set()
        release.wait(10.0)
        return OPTIONS

    monkeypatch.setattr(queries, "options", options)
    with routed.tracker._changed:  # all of them are taken at one time
        for run in ("r1", "r2", "r3"):
            routed.tracker._buffer.progressed(event(7, 0, 5, run=run, query=run))
        routed.tracker._changed.notify_all()
    assert working.wait(10.0)
    routed.tracker.progressed(event(8, 5, 9, run="r4", query="r4"))
    routed.tracker.close(soon(0.05))
    release.set()
    reported = routed.left()
    assert sorted(text[:8] for text in reported) == ["batch 7 ", "batch 7 ", "batch 7 ", "batch 8 "]
    assert all("did not answer" in text for text in reported)


def test_what_was_served_before_the_close_is_not_named(
    routed: Routed, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several taken at one time only those are left that come after the one that hangs."""
    working, release = threading.Event(), threading.Event()

    def options(query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        if run_id == "r2":
            working.set()
            release.wait(10.0)
        return OPTIONS

    monkeypatch.setattr(queries, "options", options)
    with routed.tracker._changed:  # all of them are taken at one time
        for run in ("r1", "r2", "r3"):
            routed.tracker._buffer.progressed(event(7, 0, 5, run=run, query=run))
        routed.tracker._changed.notify_all()
    assert working.wait(10.0)
    routed.tracker.close(soon(0.05))
    release.set()
    left = [told.where for told in routed.events if isinstance(told, InternalError)]
    assert sorted(left) == ["query r2", "query r3"]


def test_what_is_served_is_not_left(routed: Routed) -> None:
    """A close that is in time names no batch as left behind."""
    for batch in range(3):
        routed.tracker.progressed(event(batch, 5 * batch, 5 * batch + 5))
    routed.tracker.close(soon())
    assert routed.committer.flush(10.0)
    assert routed.at() == 15
    assert routed.left() == []


def test_an_open_one_has_nothing_to_say(routed: Routed, caplog: pytest.LogCaptureFixture) -> None:
    """Batches that come in time are no line in the log."""
    with caplog.at_level(logging.WARNING, "eo_listener"):
        for batch in range(3):
            routed.tracker.progressed(event(batch, 5 * batch, 5 * batch + 5))
        assert routed.tracker.flush(soon())
    assert not caplog.records


def test_a_closed_one_that_is_called_for_ever_says_so_once(
    routed: Routed, caplog: pytest.LogCaptureFixture
) -> None:
    """Still registered with Spark, it keeps nothing and logs one line."""
    routed.tracker.close(soon())
    with caplog.at_level(logging.INFO):
        for batch in range(100):
            routed.tracker.started("q1", f"r{batch}", None)
            routed.tracker.progressed(event(batch, 5, 10, run=f"r{batch}"))
            routed.tracker.unreadable(FormatError("no JSON"))
            routed.tracker.ended(f"r{batch}")
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
    routed.tracker.progressed(event(0, None, None))
    assert not routed.tracker._buffer
    assert routed.tracker.flush(soon())
    assert routed.at() is None
