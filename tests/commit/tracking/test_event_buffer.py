"""What is kept of the events that wait, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eo_listener.commit.tracking.event_buffer import Ended, EventBuffer, Started
from eo_listener.errors import FormatError
from eo_listener.events import ViolationKind
from eo_listener.model.batch_metrics import BatchMetrics
from eo_listener.model.progress import Progress
from tests.commit.tracking.memory_tracking import event


def test_the_first_of_those_before_the_newest_are_kept_too() -> None:
    """They are judged for losses with it; a thread that stands still does not fill the memory."""
    buffer = EventBuffer()
    for batch in range(100):
        buffer.add(event(batch, 5 * batch, 5 * batch + 5))
    (events,) = buffer.take().runs
    assert [one.batch_id for one in events.earlier] == list(range(20))
    assert events.newest.batch_id == 99
    buffer.add(event(100, 500, 505))
    (events,) = buffer.take().runs
    assert events.earlier == []


def test_nothing_is_taken_twice() -> None:
    """What was taken from the buffer is no longer in it, and an empty buffer says so."""
    buffer = EventBuffer()
    assert not buffer
    buffer.add(Started(query_id="q1", run_id="r1", name=None))
    buffer.add(event(0, None, 5))
    buffer.add(event(0, None, 5))
    buffer.add(Ended("r1"))
    buffer.add(FormatError("no JSON"))
    assert buffer.waiting() == (event(0, None, 5),)
    buffered = buffer.take()
    assert (len(buffered.started), len(buffered.runs), buffered.ended) == (1, 1, ["r1"])
    assert buffered.unreadable is not None
    assert buffered.repeated == event(0, None, 5)
    assert not buffer
    assert buffer.waiting() == ()
    buffered = buffer.take()
    assert (buffered.started, buffered.runs, buffered.ended) == ([], (), [])
    assert (buffered.unreadable, buffered.repeated) == (None, None)


@pytest.mark.parametrize("of", ["started", "progressed", "ended", "unreadable", "repeated"])
def test_whatever_waits_is_worth_a_snapshot(of: str) -> None:
    """The tracker's thread is woken by each kind of event."""
    buffer = EventBuffer()
    if of == "started":
        buffer.add(Started(query_id="q1", run_id="r1", name=None))
    elif of == "ended":
        buffer.add(Ended("r1"))
    elif of == "unreadable":
        buffer.add(FormatError("no JSON"))
    else:
        buffer.add(event(0, None, 5))
    if of == "repeated":
        buffer.take()
        buffer.add(event(0, None, 5))
    assert buffer


@pytest.mark.parametrize(
    "again",
    [
        event(1, 5, 10),
        replace(event(1, 5, 10), timestamp="later", metrics=BatchMetrics(rows=5)),
        event(0, None, 5),  # in no order at all
    ],
)
def test_an_event_that_comes_twice_is_one_event(again: Progress) -> None:
    """Added twice, a listener is given each event twice: nothing is wrong with the query."""
    buffer = EventBuffer()
    buffer.add(event(0, None, 5))
    buffer.add(event(1, 5, 10))
    buffer.add(again)
    buffer.add(event(2, 10, 15))
    buffered = buffer.take()
    (events,) = buffered.runs
    assert events.newest == event(2, 10, 15)
    assert (events.wrong, events.missed) == ([], [])
    assert buffered.repeated == again


def test_a_batch_of_the_same_number_with_other_offsets_is_judged() -> None:
    """Only what was seen before is left out."""
    buffer = EventBuffer()
    buffer.add(event(0, None, 5))
    buffer.add(event(0, 3, 8))
    buffered = buffer.take()
    ((batch, source, violations),) = buffered.runs[0].wrong
    assert (batch, source, [one.kind for one in violations]) == (0, 0, [ViolationKind.REPEAT])
    assert buffered.repeated is None


def test_of_a_run_with_nothing_but_faults_the_first_are_kept() -> None:
    """A thousand violations before the tracker's thread runs do not fill the memory."""
    buffer = EventBuffer()
    for batch in range(100):
        buffer.add(event(batch, 0, 5))
        buffer.add(event(2 * batch, 10 * batch, 10 * batch + 5, run="r2"))
    wrong, missed = buffer.take().runs
    assert [batch for batch, _, _ in wrong.wrong] == list(range(1, 21))
    assert len(missed.missed) == 20


def test_the_first_event_of_a_run_id_that_had_ended_is_a_first_one() -> None:
    """With a run all that was kept for judging it goes."""
    buffer = EventBuffer()
    buffer.add(event(0, None, 5))
    buffer.add(Ended("r1"))
    buffer.take()
    assert not buffer._sequences
    buffer.add(event(7, 50, 60))
    (events,) = buffer.take().runs
    assert events.first == event(7, 50, 60)
    assert (events.wrong, events.missed) == ([], [])


def test_runs_whose_end_was_never_reported_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the runs that are judged the oldest make room, one at a time."""
    monkeypatch.setattr("eo_listener.commit.tracking.event_buffer.RUNS_KEPT", 2)
    buffer = EventBuffer()
    for run in ("r1", "r2", "r3"):
        buffer.add(event(0, None, 5, run=run))
    assert list(buffer._sequences) == ["r2", "r3"]
