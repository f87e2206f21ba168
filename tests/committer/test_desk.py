"""What becomes of events and of live queries."""

from __future__ import annotations

import pytest

from eo_listener.committer.inbox import Started
from eo_listener.errors import JvmError
from eo_listener.events import Breach, GuardViolation, Malfunction, SourceIgnored
from eo_listener.offsets import Offsets
from eo_listener.protocols import LivePosition, QueryMode
from eo_listener.testing import MemoryQueries
from tests.committer.office import P0, Office, event


def test_a_query_that_cannot_be_looked_at_is_left_in_peace_for_a_while(
    office: Office, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that fails in a way that nobody thought of is not repeated at once, and for ever."""

    def broken(query_id: str, run_id: str) -> LivePosition | None:
        raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(queries, "position", broken)
    office.inbox.started(Started(query_id="q1", run_id="r1", name=None))
    office.serve(0.0)
    office.serve(1.0)
    assert len(office.of(Malfunction)) == 1
    due = office.desk.due()
    assert due is not None
    assert due >= 10.0


def test_a_run_whose_end_was_never_told_holds_up_its_successor_a_minute_at_most(
    office: Office, queries: MemoryQueries
) -> None:
    """Spark drops the word of an end too when its bus is full; the query's next run goes on."""
    office.inbox.progressed(event(0, None, 5))
    office.serve(0.0)
    office.inbox.progressed(event(1, 5, 10, run="r2"))
    office.serve(1.0)
    office.inbox.progressed(event(2, 10, 15, run="r2"))
    office.serve(62.0)
    assert office.held == 15
    assert queries.forgotten == ["r1"]


def test_who_was_held_up_goes_on_when_the_slower_query_ends(office: Office) -> None:
    """The group of two queries moves on at the end of one, though the other has nothing new."""
    office.inbox.progressed(event(0, None, 5, run="slow", query="q2"))
    office.inbox.progressed(event(0, None, 9, run="fast"))
    office.serve(0.0)
    assert office.held == 5
    office.inbox.ended("slow")
    office.serve(1.0)
    assert office.held == 9


def test_a_checkpoint_without_a_batch_is_no_query_without_kafka(
    office: Office, queries: MemoryQueries
) -> None:
    """With asynchronous progress the first event comes before anything is durable."""
    queries.modes["r1"] = QueryMode.ASYNC_PROGRESS
    queries.positions["r1"] = LivePosition(batch_id=-1, committed={})
    office.inbox.progressed(event(0, None, 5))
    office.serve(0.0)
    office.serve(2.0)
    assert not office.of(SourceIgnored)
    queries.positions["r1"] = LivePosition(batch_id=0, committed={0: Offsets({P0: 5})})
    office.serve(8.0)
    assert office.held == 5


def test_a_checkpoint_that_cannot_be_read_is_told_once(
    office: Office, queries: MemoryQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continuous query whose checkpoint cannot be read is told: its group stays behind."""

    def unreadable(query_id: str, run_id: str) -> LivePosition | None:
        raise JvmError("Spark's JVM could not say how far the query has come")

    monkeypatch.setattr(queries, "position", unreadable)
    queries.modes["r1"] = QueryMode.CONTINUOUS
    office.inbox.started(Started(query_id="q1", run_id="r1", name=None))
    for now in range(300):
        office.serve(float(now))
    (told,) = office.of(Malfunction)
    assert isinstance(told, Malfunction)
    assert "stays where it is" in told.problem


def test_a_source_that_has_lost_all_its_partitions_is_told(office: Office) -> None:
    """The end of the last topic is an event with no offsets at all, and a violation."""
    office.inbox.progressed(event(0, None, 5))
    office.serve(0.0)
    office.inbox.progressed(event(1, 5, {}))
    office.serve(1.0)
    (told,) = office.of(GuardViolation)
    assert isinstance(told, GuardViolation)
    assert [one.breach for one in told.findings] == [Breach.VANISHED]
    assert office.held == 5


def test_an_end_hurries_the_groups_of_its_own_run(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits there is tried now; another group, in trouble for long, is left to its time."""
    hurried: list[set[str]] = []
    monkeypatch.setattr(
        office.committer, "hurry", lambda groups: hurried.append({group for _, group in groups})
    )
    office.inbox.progressed(event(0, None, 10))
    office.inbox.progressed(event(0, None, 10, run="r2", query="q2"))
    office.serve(0.0)
    assert hurried == []
    office.inbox.ended("r1")
    office.inbox.ended("never heard of")
    office.serve(1.0)
    assert hurried == [{"g"}]
