"""When a run is looked at, and what of it counts before its events have come."""

from __future__ import annotations

import itertools

from eo_listener.committer.runs import Run
from eo_listener.offsets import Offsets, TopicPartition
from eo_listener.progress import Progress
from eo_listener.protocols import LivePosition, QueryMode

HOUR = 3600.0
P0 = TopicPartition("t", 0)


def run() -> Run:
    return Run(query_id="q", run_id="r", name=None, due=0.0, options={0: {}})


def at(batch: int, offset: int = 5) -> LivePosition:
    return LivePosition(batch_id=batch, committed={0: Offsets({P0: offset})})


def event(batch: int) -> Progress:
    return Progress(query_id="q", run_id="r", name=None, batch_id=batch, timestamp="", sources=())


def test_until_the_checkpoint_is_restored_it_is_asked_often() -> None:
    """At most a second passes between two looks, and the first position is the full map."""
    one, now = run(), 0.0
    for _ in range(20):
        assert not one.looked(None, now, HOUR, early=False)
        assert now < one.next_look <= now + 1.0
        now = one.next_look
    assert one.looked(at(3), now, HOUR, early=False)
    assert one.next_look <= now + 5.0  # Spark restores in two steps
    now = one.next_look
    assert not one.looked(at(4), now, HOUR, early=False)
    assert one.next_look > now + HOUR / 2


def test_the_heartbeat_keeps_its_time_whatever_comes_between() -> None:
    """Events and the looks after them do not put the full map off."""
    one, now, beats = run(), 0.0, []
    while now < 5 * HOUR:
        if one.looked(at(3), now, HOUR, early=False):
            beats.append(now)
        now = one.next_look
        one.heard(now)
    gaps = [after - before for before, after in itertools.pairwise(beats)]
    assert gaps
    assert all(gap <= HOUR + 1 for gap in gaps)


def test_events_that_fall_silent_lead_to_a_look() -> None:
    """The last event of a busy time may have been dropped: a minute later the query is asked."""
    one = run()
    one.looked(at(3), 0.0, HOUR, early=False)
    one.looked(at(3), 2.0, HOUR, early=False)
    for now in (10.0, 20.0, 30.0):
        one.heard(now)
        assert one.next_look == now + 60.0
    one.looked(at(4), 90.0, HOUR, early=False)
    assert one.next_look == HOUR


def test_a_position_waits_for_its_event_but_not_for_ever() -> None:
    """What is ahead of the newest event is not judged yet; a dropped event holds it up once."""
    one = run()
    assert not one.is_early(at(7))  # no event at all so far: the catch-up at the start
    one.newest = event(6)
    assert one.is_early(at(7))
    one.newest = event(8)
    assert one.is_early(at(9))
    assert not one.is_early(at(10))  # the event of batch 9 should be here by now
    one.newest = event(10)
    assert not one.is_early(at(10))


def test_what_is_polled() -> None:
    """Checkpoints that run ahead of events, and logs Spark may skip in, are looked at often."""
    for one in (
        Run(query_id="q", run_id="r", name=None, due=0.0, mode=QueryMode.CONTINUOUS),
        Run(query_id="q", run_id="r", name=None, due=0.0, options={0: {"failondataloss": "false"}}),
    ):
        one.looked(at(1), 0.0, HOUR, early=False)
        one.looked(at(1), 2.0, HOUR, early=False)
        assert one.next_look <= 10.0


def test_a_checkpoint_that_cannot_be_read_for_once_is_asked_again_soon() -> None:
    """One failed look at a continuous query does not leave its group alone for an hour."""
    one = Run(query_id="q", run_id="r", name=None, due=0.0, mode=QueryMode.CONTINUOUS)
    one.looked(at(1), 0.0, HOUR, early=False)
    one.looked(None, 2.0, HOUR, early=False)
    assert one.next_look <= 10.0
