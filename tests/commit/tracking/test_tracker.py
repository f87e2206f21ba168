"""What becomes of events and of live queries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest

from eo_listener.commit.tracking.event_buffer import RUNS_KEPT, Idle
from eo_listener.commit.tracking.tracker import RunOrder
from eo_listener.errors import JvmError
from eo_listener.events import (
    InternalError,
    OptionsRead,
    PartitionsShared,
    QueryModeDetected,
    QueryProgressed,
    QueryReported,
    RunGroupsChanged,
    SourceIgnored,
)
from eo_listener.model.protocols import LivePosition, QueryMode
from eo_listener.offsets import Offsets
from eo_listener.testing import MemoryQueries
from tests.commit.tracking.memory_tracking import (
    HOUR,
    OPTIONS,
    P0,
    U0,
    MemoryTracking,
    event,
    position,
    source,
)

UNANSWERED = JvmError("no answer")
MISCALLED = TypeError("'JavaPackage' object is not callable")


def test_a_query_that_cannot_be_checked_is_left_in_peace_for_a_while(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that raises an unexpected error is not repeated at once, without end."""
    monkeypatch.setattr(tracking.queries, "position", Mock(side_effect=MISCALLED))
    tracking.start(0.0, "r1")
    tracking.serve(1.0)
    assert len(tracking.of(InternalError)) == 1
    due = tracking.tracker.due()
    assert due is not None
    assert due >= 10.0


def test_an_end_that_is_never_told_holds_up_for_a_minute_at_most(tracking: MemoryTracking) -> None:
    """Spark drops the word of an end too when its bus is full; the query's next run goes on."""
    tracking.hear(0.0, event(0, None, 5))
    tracking.hear(1.0, event(1, 5, 10, run="r2"))
    tracking.hear(62.0, event(2, 10, 15, run="r2"))
    assert tracking.held == 15
    assert tracking.queries.forgotten_runs == ["r1"]


def test_a_run_is_checked_a_minute_after_its_successor_has_begun(tracking: MemoryTracking) -> None:
    """Neither has to feed a group for that, nor to send an event."""
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.begin("r1")
    tracking.pass_until(10.0)
    tracking.start(11.0, "r2")
    tracking.pass_until(70.0, since=11.0)
    assert tracking.queries.forgotten_runs == []
    tracking.pass_until(72.0, since=70.0)
    assert tracking.queries.forgotten_runs == ["r1"]


def test_an_event_of_an_unknown_run_ends_one_without_events(tracking: MemoryTracking) -> None:
    """The word of its start was dropped, and so was that of the other's end."""
    tracking.start(0.0, "r1")
    tracking.hear(0.01, event(0, None, 5, run="r2"))
    tracking.pass_until(2.0, since=0.01)
    assert tracking.queries.forgotten_runs == ["r1"]
    assert tracking.held == 5


def test_a_run_is_the_newest_again_when_its_successor_ends(tracking: MemoryTracking) -> None:
    """It is not taken for one that is over."""
    tracking.hear(0.0, event(0, None, 5))
    tracking.start(0.01, "r2")
    tracking.end(0.02, "r2")
    tracking.pass_until(100.0, since=0.02)
    assert tracking.queries.forgotten_runs == ["r2"]


def test_a_start_told_twice_makes_no_run_the_newest_again(tracking: MemoryTracking) -> None:
    """A listener that was added twice gets each event twice."""
    for run in ("r1", "r2", "r1"):
        tracking.start(0.0, run)
    tracking.pass_until(5.0)
    assert tracking.queries.forgotten_runs == ["r1"]


def test_a_query_without_kafka_and_without_events_is_reported(tracking: MemoryTracking) -> None:
    """Its events are not committed; a position says so only after one of them has."""
    tracking.answer(QueryMode.ASYNC_PROGRESS, LivePosition(batch_id=0, committed={}))
    tracking.begin("r1")
    tracking.pass_until(1.0)
    assert not tracking.of(SourceIgnored)
    tracking.hear(1.0, replace(event(0, None, 5), sources=()))
    tracking.pass_until(60.0, since=1.0)
    assert [reported.source for reported in tracking.of(SourceIgnored)] == [None]


def test_a_checkpoint_without_a_batch_is_no_query_without_kafka(tracking: MemoryTracking) -> None:
    """With asynchronous progress the first event comes before anything is durable."""
    tracking.answer(QueryMode.ASYNC_PROGRESS, LivePosition(batch_id=-1, committed={}))
    tracking.hear(0.0, event(0, None, 5))
    tracking.serve(2.0)
    assert not tracking.of(SourceIgnored)
    tracking.queries.positions["r1"] = LivePosition(batch_id=0, committed={0: Offsets({P0: 5})})
    tracking.serve(8.0)
    assert tracking.held == 5


def test_a_checkpoint_that_cannot_be_read_is_reported_once(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continuous query whose checkpoint cannot be read is told: its group stays behind."""
    monkeypatch.setattr(tracking.queries, "position", Mock(side_effect=UNANSWERED))
    tracking.queries.modes["r1"] = QueryMode.CONTINUOUS
    tracking.begin("r1")
    for now in range(300):
        tracking.serve(float(now))
    (reported,) = tracking.of(InternalError)
    assert "stays where it is" in reported.problem


@pytest.mark.parametrize("mode", QueryMode)
def test_each_sign_of_a_query_is_reported(tracking: MemoryTracking, mode: QueryMode) -> None:
    """Its start, the end of a batch, and that it idles; of continuous processing, none."""
    tracking.queries.modes["r1"] = mode
    tracking.start(0.0, "r1", name="flights")
    signs: tuple[Callable[[], None], ...] = (
        lambda: None,  # its first check
        lambda: tracking.buffer.add(event(0, None, 5)),
        lambda: tracking.buffer.add(Idle("r1")),
        lambda: tracking.buffer.add(Idle("unknown")),
    )
    reported = []
    for number, sign in enumerate(signs, start=1):
        sign()
        tracking.serve(float(number))
        reported.append(len(tracking.of(QueryReported)))
    assert reported == ([0, 0, 0, 0] if mode is QueryMode.CONTINUOUS else [1, 2, 3, 3])
    assert {(one.query, one.run_id) for one in tracking.of(QueryReported)} <= {("flights", "r1")}


def test_an_end_retries_the_groups_of_its_own_run_at_once(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits there is tried now; another group, in trouble for long, is left to its time."""
    hurried: list[set[str]] = []
    monkeypatch.setattr(
        tracking.committer,
        "retry_now",
        lambda groups: hurried.append({group for _, group in groups}),
    )
    tracking.hear(0.0, event(0, None, 10), event(0, None, 10, run="r2", query="q2"))
    assert hurried == []
    tracking.end(1.0, "r1", "never heard of")
    assert hurried == [{"g"}]


# Renewal


def test_what_follows_a_checkpoint_has_no_recommit_by_event(tracking: MemoryTracking) -> None:
    """With asynchronous progress an event may be ahead: no position, no commit."""
    tracking.answer(QueryMode.ASYNC_PROGRESS, position(0, 10))
    tracking.buffer.add(event(0, None, 10))
    tracking.pass_until(10.0)
    assert tracking.held == 10
    tracking.buffer.add(event(1, 10, 15))
    del tracking.queries.positions["r1"]
    tracking.serve(11.0)
    tracking.pass_until(2 * HOUR, since=11.0)
    assert tracking.held == 10


def test_what_is_recommitted_is_sent_each_recommit_and_not_more_often(
    tracking: MemoryTracking,
) -> None:
    """The full map costs a request of every partition: once an hour is enough."""
    tracking.queries.positions["r1"] = position(0, 5)
    tracking.buffer.add(event(0, None, 5))
    tracking.pass_until(10.0)
    del tracking.store.history[:]
    tracking.pass_until(5.5 * HOUR, since=10.0)
    assert len(tracking.store.history) == 5


# What is said of a query


@pytest.mark.parametrize(
    ("mode", "reported"),
    [
        (QueryMode.MICRO_BATCH, []),
        (QueryMode.ASYNC_PROGRESS, ["asynchronous progress tracking"]),
        (QueryMode.CONTINUOUS, ["continuous"]),
        (QueryMode.REAL_TIME, ["real-time"]),
    ],
)
def test_a_query_of_another_kind_is_reported_once(
    tracking: MemoryTracking, mode: QueryMode, reported: list[str]
) -> None:
    """What its kind means for its group is said once a run; an ordinary one is not worth a word."""
    tracking.answer(mode, position(0, 5))
    for batch in range(3):
        tracking.hear(float(batch), event(batch, 5 * batch, 5 * batch + 5))
    assert [told.mode for told in tracking.of(QueryModeDetected)] == reported
    assert all(told.effect for told in tracking.of(QueryModeDetected))


def test_a_query_of_another_kind_without_kafka_is_not_reported(tracking: MemoryTracking) -> None:
    """It has no group that its kind could mean anything for."""
    tracking.queries.source_options = {}
    tracking.queries.modes["r1"] = QueryMode.CONTINUOUS
    tracking.start(0.0, "r1")
    tracking.serve(0.5)
    assert not tracking.of(QueryModeDetected)


# Options that cannot be read


class Planning(MemoryQueries):
    """Queries whose sources Spark plans after the first question about the run."""

    asked = False

    def options(self, query_id: str, run_id: str) -> Mapping[int, Mapping[str, str]]:
        if not self.asked:
            self.asked = True
            raise JvmError("no answer")
        return super().options(query_id, run_id)

    def position(self, query_id: str, run_id: str) -> LivePosition | None:
        found = super().position(query_id, run_id) if self.asked else None
        self.asked = True
        return found


def test_sources_planned_between_two_questions_are_no_mistake(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart commits as soon as it has a position, and reports no source as ignored."""
    queries = Planning(OPTIONS)
    queries.positions["r1"] = position(3, 40)
    monkeypatch.setattr(tracking.tracker, "_queries", queries)
    tracking.start(0.0, "r1")
    tracking.pass_until(0.5)
    assert tracking.held == 40
    assert not tracking.of(SourceIgnored)


@pytest.mark.parametrize(("seconds", "reported"), [(6.0, 0), (8.0, 1), (5000.0, 1)])
def test_options_are_asked_for_until_spark_answers(
    tracking: MemoryTracking, seconds: float, reported: int
) -> None:
    """No further event is needed; a report of unread options is withdrawn, and was no guess."""
    queries = tracking.queries
    queries.source_options = None
    tracking.hear(0.0, event(0, None, 5))
    tracking.pass_until(seconds)
    told = tracking.of(SourceIgnored)
    assert [(one.retried, one.misconfigured) for one in told] == [(True, True)] * reported
    assert all("q1" in one.cause for one in told)
    assert len(tracking.of(QueryModeDetected)) == reported
    assert queries.requests <= 7 + seconds / 60.0
    queries.source_options = OPTIONS
    tracking.pass_until(seconds + 61.0, since=seconds)
    assert tracking.held == 5
    assert len(tracking.of(OptionsRead)) == reported
    assert len(tracking.of(SourceIgnored)) == reported


def test_options_without_a_group_are_reported_after_unread_options(
    tracking: MemoryTracking,
) -> None:
    """The withdrawal says nothing about a source whose options name no group."""
    tracking.queries.source_options = None
    tracking.hear(0.0, event(0, None, 5))
    tracking.pass_until(8.0)
    tracking.queries.source_options = {0: {"kafka.bootstrap.servers": "k:9092"}}
    tracking.pass_until(80.0, since=8.0)
    kept = [one for one in tracking.events if isinstance(one, SourceIgnored | OptionsRead)]
    assert [getattr(one, "retried", None) for one in kept] == [True, None, False]


def test_unread_options_are_reported_when_the_run_ends(tracking: MemoryTracking) -> None:
    """A run may be shorter than the time in which nothing is reported."""
    tracking.queries.source_options = None
    tracking.hear(0.0, event(0, None, 5))
    assert not tracking.of(SourceIgnored)
    tracking.end(1.0, "r1")
    assert [one.retried for one in tracking.of(SourceIgnored)] == [True]


def test_before_its_first_event_a_query_may_not_answer(tracking: MemoryTracking) -> None:
    """Spark plans the sources first, which may take minutes."""
    tracking.queries.source_options = None
    tracking.start(0.0, "r1")
    tracking.pass_until(100.0)
    assert not tracking.of(QueryModeDetected)
    tracking.queries.source_options = OPTIONS
    tracking.hear(101.0, event(0, None, 5))
    assert tracking.held == 5
    assert not tracking.of(OptionsRead)


def test_the_groups_of_a_run_are_reported_when_it_gets_another(tracking: MemoryTracking) -> None:
    """At its first commit, not at each, and once more at its end."""
    tracking.queries.source_options = {0: OPTIONS[0], 1: {**OPTIONS[0], "eo.commit.group": "h"}}
    tracking.hear(0.0, event(0, None, 5))
    tracking.hear(1.0, event(1, 5, 9))
    tracking.hear(2.0, event(2, 9, 12, more=(source(1, None, {U0: 3}),)))
    tracking.end(3.0, "r1")
    reported = [
        (sorted(group for _, group in one.groups), one.ended)
        for one in tracking.of(RunGroupsChanged)
    ]
    assert reported == [(["g"], False), (["g", "h"], False), (["g", "h"], True)]


def test_a_source_without_a_group_is_said_once(tracking: MemoryTracking) -> None:
    """What is wrong with the settings of a query does not change from batch to batch."""
    tracking.queries.source_options = {
        0: OPTIONS[0],
        1: OPTIONS[0],
        2: {"kafka.bootstrap.servers": "k:9092"},
    }
    for batch in range(3):
        more = (source(1, None, 5 + batch), source(2, None, {U0: 5}))
        tracking.hear(float(batch), event(batch, None, 5 + batch, more=more))
    assert [reported.source for reported in tracking.of(SourceIgnored)] == [2]
    assert len(tracking.of(PartitionsShared)) == 1
    shown = [[one.cluster for one in told.sources] for told in tracking.of(QueryProgressed)]
    assert shown == [["k:9092", "k:9092", None]] * 3


def test_two_queries_on_one_partition_are_reported_once(tracking: MemoryTracking) -> None:
    """When the second begins to feed it; one that feeds it alone is not worth a word."""
    for batch in range(2):
        tracking.hear(float(batch), event(batch, None, 10 + batch))
    assert not tracking.of(PartitionsShared)
    for batch in range(2):
        tracking.hear(2.0 + batch, event(batch, None, 5 + batch, run="r2", query="q2"))
    (told,) = tracking.of(PartitionsShared)
    assert (told.group, told.partitions, told.readers) == ("g", (P0,), ("q1", "q2"))
    assert all(tracking.events)  # nothing is told of nothing
    tracking.hear(4.0, event(2, 11, 20))
    assert tracking.held == 11
    tracking.end(5.0, "r2")
    assert tracking.held == 20  # the query that was held up goes on, without news of its own


# Whether all is committed


def misnamed(tracking: MemoryTracking) -> None:
    tracking.queries.source_options = {0: {**OPTIONS[0], "kafka.bootstrap.servers": ""}}


def silent(tracking: MemoryTracking) -> None:
    tracking.queries.mode = Mock(side_effect=UNANSWERED)  # type: ignore[method-assign]  # as the JVM


@pytest.mark.parametrize("trouble", [misnamed, silent])
def test_a_run_whose_offsets_have_no_group_is_no_success(
    tracking: MemoryTracking, trouble: Callable[[MemoryTracking], None]
) -> None:
    """No offset waits, and yet the group lacks the offsets of the query; so also after its end."""
    asked = tracking.queries.mode
    trouble(tracking)
    for batch in range(4):
        assert tracking.hear(float(batch), event(batch, None, 5 + batch))
    assert tracking.at() is None
    tracking.end(5.0, "r1")
    assert not tracking.tracker.complete
    tracking.queries.source_options = dict(OPTIONS)
    tracking.queries.mode = asked  # type: ignore[method-assign]  # it answers again
    tracking.hear(6.0, event(4, 8, 9, run="r2"))
    assert (tracking.held, tracking.tracker.complete) == (9, True)


def test_a_run_that_a_slower_one_holds_up_is_no_success(tracking: MemoryTracking) -> None:
    """The group has the lower offset; when both are there, or the slower one has ended, it is."""
    tracking.hear(0.0, event(0, None, 10), event(0, None, 20, run="r2", query="q2"))
    assert (tracking.held, tracking.tracker.complete) == (10, False)
    tracking.hear(1.0, event(1, 10, 20))
    assert (tracking.held, tracking.tracker.complete) == (20, True)
    tracking.hear(2.0, event(1, 20, 30, run="r2", query="q2"))
    assert not tracking.tracker.complete
    tracking.end(3.0, "r1")
    assert (tracking.held, tracking.tracker.complete) == (30, True)


def test_a_checkpoint_that_cannot_be_read_is_no_success(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group follows the checkpoint, so it may be behind."""
    tracking.answer(QueryMode.ASYNC_PROGRESS, position(0, 10))
    tracking.hear(0.0, event(0, None, 10))
    for readable in (False, True):
        with monkeypatch.context() as patch:
            if not readable:
                patch.setattr(tracking.queries, "position", Mock(side_effect=UNANSWERED))
            tracking.serve(10.0, check_all=True)
        assert tracking.tracker.complete == readable


# Faults of ours, and bounds


def test_a_fault_at_one_query_is_reported_and_stops_no_other(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread outlives it; a flush says that not all is committed, until it goes well."""
    asked = tracking.queries.mode

    def broken(query_id: str, run_id: str) -> QueryMode:
        if query_id == "bad":
            raise TypeError("'JavaPackage' object is not callable")
        return asked(query_id, run_id)

    with monkeypatch.context() as patch:
        patch.setattr(tracking.queries, "mode", broken)
        tracking.hear(0.0, event(0, None, 5, run="r0", query="bad"), event(0, None, 7))
    (reported,) = tracking.of(InternalError)
    assert (reported.where, reported.problem) == ("query bad", "TypeError")
    assert tracking.held == 7
    assert not tracking.tracker.complete
    tracking.hear(1.0, event(1, 5, 7, run="r0", query="bad"))
    assert tracking.tracker.complete


def test_endless_runs_are_bounded(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many that no end was ever told of, the oldest is let go; it holds up nobody."""
    monkeypatch.setattr("eo_listener.commit.tracking.tracker.RUNS_KEPT", 3)
    for number in range(5):
        tracking.hear(
            number / 100.0, event(0, None, 10 + number, run=f"r{number}", query=f"q{number}")
        )
    assert tracking.queries.forgotten_runs == ["r0", "r1"]
    assert len(tracking.tracker._runs) == 3


def test_a_checkpoint_that_is_read_again_ends_the_count_of_failures(
    tracking: MemoryTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven failures, an answer, and eleven more are no trouble worth a word."""
    there, failures = position(0, 5), [UNANSWERED] * 11
    answers = itertools.chain(failures, [there], failures, itertools.repeat(there))
    tracking.answer(QueryMode.CONTINUOUS, there)
    monkeypatch.setattr(tracking.queries, "position", Mock(side_effect=answers))
    tracking.begin("r1")
    tracking.pass_until(300.0)
    assert not tracking.of(InternalError)
    assert tracking.held == 5


def test_of_runs_that_have_ended_the_oldest_are_forgotten() -> None:
    """As many as are kept: an event of theirs may still be late."""
    succession = RunOrder({})
    for number in range(RUNS_KEPT + 1):
        succession.end(f"r{number}", None)
    assert not succession.has_ended("r0")
    assert succession.has_ended("r1")
    assert succession.has_ended(f"r{RUNS_KEPT}")


def test_what_a_run_has_reached_is_committed_at_its_end(tracking: MemoryTracking) -> None:
    """Its last event may have been dropped, and it is asked for the last time then."""
    tracking.hear(0.0, event(0, None, 5))
    tracking.queries.positions["r1"] = position(1, 9)
    tracking.end(0.05, "r1")
    assert tracking.held == 9
    assert tracking.queries.forgotten_runs == ["r1"]
