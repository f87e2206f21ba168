"""The steps of a batch, over a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from eo_listener.errors import (
    ForeignWriterError,
    GapError,
    KafkaError,
    OutcomeUnknownError,
    OverlapError,
    PartitionVanishedError,
    RegressionError,
    RetriableSinkError,
    SettingsError,
    SinkError,
    SinkLockedError,
    TopicRecreatedError,
)
from eo_listener.events import BatchApplied, BatchFailed, BatchReplayed, QueryStateLost
from eo_listener.foreach_batch.sink_writer import RetryLimits
from eo_listener.model.ledger import Unexpected, UnexpectedRecords
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink, MemoryStore, SinkFault
from tests.foreach_batch.stage import (
    NAME,
    P0,
    P1,
    TWO,
    Crash,
    Frame,
    InDoubt,
    Plans,
    Stage,
    crashing,
    frame_of,
    rows_of,
    stage_of,
)

WHOLE = [(0, offset) for offset in range(5)] + [(1, offset) for offset in range(2)]
POINTS = (
    "batch.planned",
    "batch.judged",
    "sink.begun",
    "sink.rows-written",
    "sink.ledger-moved",
    "sink.commit-sent",
    "sink.committed",
    "batch.applied",
)


def offsets(sink: MemorySink) -> list[tuple[int, int]]:
    """Partition and offset of each row that is there."""
    return sorted((row["partition"], row["offset"]) for row in sink.rows)


def one(stage: Stage) -> MemorySink:
    sink = stage.sinks[0]
    assert isinstance(sink, MemorySink)
    return sink


def test_each_batch_is_applied_once_and_reported() -> None:
    """Two batches and a repetition of the second: all rows once, and an event for each."""
    stage = stage_of()
    for number in (0, 1, 1):
        stage.run(number)
    assert offsets(one(stage)) == WHOLE
    first, second, third = stage.events
    assert isinstance(first, BatchApplied)
    assert isinstance(second, BatchApplied)
    assert (first.batch_id, first.rows, first.dead_letters, first.attempts) == (0, 3, 0, 1)
    assert (second.query, second.sink, second.gaps) == (NAME, "memory rows", {})
    assert isinstance(third, BatchReplayed)
    assert not third.discarded


@pytest.mark.parametrize("stateful", [False, True])
def test_a_replay_is_computed_only_for_its_state(stateful: bool) -> None:
    """A stateless replay is not even planned; a stateful one is run, and its rows are dropped."""
    stage = stage_of(stateful=stateful)
    stage.run(0)
    frame = stage.run(0, transform=lambda frame, plan: pytest.fail("transformed"))
    assert frame.computed == int(stateful)
    assert stage.frames.log == (["discard"] if stateful else [])
    assert len(one(stage).rows) == 3
    assert stage.last(BatchReplayed).discarded is stateful


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_crash_anywhere_loses_and_doubles_nothing(point: str, number: int) -> None:
    """The driver dies at a step; its successor repeats the batch, and all rows are there once."""
    stage = stage_of()
    if number:
        stage.run(0)
    with crashing(point), pytest.raises(Crash):
        stage.run(number)
    for batch in range(number, 2):
        stage.run(batch)
    assert offsets(one(stage)) == WHOLE


@pytest.mark.parametrize("per_partition", [False, True])
@pytest.mark.parametrize("fault", [SinkFault.TRY_AGAIN, SinkFault.LOST, SinkFault.ANSWER_LOST])
def test_a_conflict_or_a_lost_answer_is_dealt_with(fault: SinkFault, per_partition: bool) -> None:
    """The batch is repeated, or found to be there, and the query goes on."""
    for place in (0, 1):
        stage = stage_of(MemorySink(per_partition=per_partition))
        one(stage).faults.extend([None] * place + [fault])
        stage.run(0)
        stage.run(1)
        assert offsets(one(stage)) == WHOLE


def test_what_a_conflict_left_over_is_written_and_nothing_twice() -> None:
    """Of a batch in several transactions those that were committed are found in the ledger."""
    stage = stage_of(MemorySink(per_partition=True))
    one(stage).faults.extend([None, SinkFault.TRY_AGAIN])
    stage.run(0)
    assert len(stage.events) == 1
    told = stage.last(BatchApplied)
    assert (told.rows, told.attempts) == (None, 2)
    assert len(one(stage).rows) == 3


def test_a_conflict_asks_no_ledger_that_moves_as_a_whole() -> None:
    """Nothing of one transaction can have been committed: it is repeated as it was."""
    stage = stage_of()
    one(stage).faults.append(SinkFault.TRY_AGAIN)
    applied = Mock(wraps=one(stage).applied)
    one(stage).applied = applied  # type: ignore[method-assign]  # to count its calls
    stage.run(0)
    applied.assert_called_once_with(NAME)


def test_a_lost_answer_is_found_in_the_ledger() -> None:
    """Committed and unanswered: nothing is written again, and the number of rows is unknown."""
    stage = stage_of()
    one(stage).faults.append(SinkFault.ANSWER_LOST)
    one(stage).unreadable = 0
    stage.run(0)
    told = stage.last(BatchApplied)
    assert (told.rows, told.dead_letters, told.attempts) == (None, None, 1)
    assert stage.slept == []


def test_a_commit_that_lands_late_is_recognised_as_our_own() -> None:
    """It was not there when the ledger was read, and is when the next attempt gets the lock."""
    stage = stage_of()
    one(stage).faults.append(SinkFault.LATE)
    stage.run(0)
    stage.run(1)
    assert offsets(one(stage)) == WHOLE
    told = next(event for event in stage.events if isinstance(event, BatchApplied))
    assert (told.rows, told.attempts) == (None, 2)


def test_a_store_that_is_away_is_asked_again_within_bounds() -> None:
    """The ledger is read until it answers; after the last try the outcome stays unknown."""
    sink = InDoubt()
    stage = stage_of(sink)
    sink.faults.append(SinkFault.ANSWER_LOST)
    sink.is_away(3)
    stage.run(0)
    assert stage.slept == [1.0, 2.0, 3.0]
    sink.faults.append(SinkFault.ANSWER_LOST)
    sink.is_away(4)
    with pytest.raises(OutcomeUnknownError):
        stage.run(1)
    stage.run(1)
    assert offsets(one(stage)) == WHOLE


@pytest.mark.parametrize(
    ("fault", "error", "timeout", "slept"),
    [
        (SinkFault.TRY_AGAIN, RetriableSinkError, 6.0, [1.0, 2.0, 3.0]),
        (SinkFault.BUSY, SinkLockedError, 6.0, [1.0, 2.0, 3.0]),
        (SinkFault.LOST, OutcomeUnknownError, 6.0, [1.0, 2.0, 3.0]),
        (SinkFault.TRY_AGAIN, RetriableSinkError, 0.0, []),  # the user wants no second try
        (SinkFault.REFUSED, SinkError, 6.0, []),  # what repeating does not solve
    ],
)
def test_what_does_not_pass_is_given_up(
    fault: SinkFault, error: type[SinkError], timeout: float, slept: list[float]
) -> None:
    """When the time is over the error goes up; the batch can be repeated."""
    stage = stage_of()
    one(stage).faults.extend([fault] * (len(slept) + 1))
    with pytest.raises(error):
        stage.run(0, retry=RetryLimits(timeout=timeout, first=1.0, longest=3.0))
    assert stage.slept == slept
    assert one(stage).rows == []
    assert stage.last(BatchFailed).sink == "memory rows"
    stage.run(0)
    assert len(one(stage).rows) == 3


class Slow(MemorySink):
    """A store that takes an hour for each attempt."""

    stage: Stage

    def apply(self, frame: Any, entry: Any, plan: Any) -> Any:
        self.stage.took += 3600
        return super().apply(frame, entry, plan)


def test_the_time_to_repeat_begins_with_the_first_failure() -> None:
    """A batch that took long before it failed is repeated, and once only if that takes long too."""
    stage = stage_of(Slow())
    stage.sinks[0].stage = stage  # type: ignore[attr-defined]  # of the class above
    one(stage).faults.append(SinkFault.TRY_AGAIN)
    stage.run(0)
    assert stage.slept == [1.0]
    one(stage).faults.extend([SinkFault.TRY_AGAIN] * 2)
    with pytest.raises(RetriableSinkError):
        stage.run(1)
    assert stage.slept == [1.0, 1.0]


def begin_with(method: Callable[..., Any], *first: object) -> Any:
    """The method, whose first calls give or raise these instead."""
    return Mock(wraps=method, side_effect=chain(first, repeat(DEFAULT)))


def test_a_store_that_is_away_when_a_batch_begins_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The ledger is read again until it answers, and each time the log says why."""
    stage = stage_of()
    ledger = one(stage).applied
    away = RetriableSinkError("starting up"), SinkLockedError("locked"), RetriableSinkError("full")
    one(stage).applied = begin_with(ledger, *away)  # type: ignore[method-assign]  # it is away
    stage.run(0)
    assert stage.slept == [1.0, 2.0, 3.0]
    assert len(one(stage).rows) == 3
    assert [word in caplog.text for word in ("starting up", "locked", "full")] == [True] * 3
    still = [RetriableSinkError("still away")] * 4
    one(stage).applied = begin_with(ledger, *still)  # type: ignore[method-assign]  # and again
    with pytest.raises(RetriableSinkError, match="still away"):
        stage.run(1)
    wrong = SinkError("wrong password")
    one(stage).applied = begin_with(ledger, wrong)  # type: ignore[method-assign]  # for good
    with pytest.raises(SinkError, match="wrong password"):
        stage.run(1)
    failed = stage.last(BatchFailed)
    assert failed.sink == "memory rows"
    assert len(stage.slept) == 6


def test_a_zombie_writes_nothing() -> None:
    """A driver that has judged a batch finds it moved by its successor, and says so."""
    store = MemoryStore()
    zombie, successor = stage_of(MemorySink(store)), stage_of(MemorySink(store))
    successor.plans.run_id = "r2"

    def overtake(frame: Frame, plan: Any) -> Frame:
        successor.run(0)
        successor.run(1)
        return frame

    with pytest.raises(ForeignWriterError):
        zombie.run(0, transform=overtake)
    assert offsets(one(successor)) == WHOLE
    with pytest.raises(RegressionError):
        zombie.run(0)


def test_what_a_successor_wrote_is_not_taken_for_a_late_commit() -> None:
    """A driver in doubt finds its own batch written by another: a replay, and not its own rows."""
    store = MemoryStore()
    successor = stage_of(MemorySink(store), run_id="r2")
    overtaken = InDoubt(store)
    overtaken.faults.append(SinkFault.LOST)
    overtaken.act = lambda entry: successor.run(0)
    zombie = stage_of(overtaken)
    zombie.run(0)
    zombie.last(BatchReplayed)
    assert len(one(successor).rows) == 3


def test_half_of_an_entry_in_the_ledger_is_another_driver_s() -> None:
    """In one transaction all heads move or none: what lies between is not written once more."""
    store = MemoryStore()
    halved = InDoubt(store)
    halved.faults.append(SinkFault.LOST)
    halved.act = lambda entry: store.heads.update({("rows", NAME): {P0: entry.head(P0)}})
    stage = stage_of(halved)
    with pytest.raises(ForeignWriterError):
        stage.run(0)
    assert store.rows == {}


def test_only_the_sink_that_lacks_a_batch_gets_it() -> None:
    """A crash between two sinks repeats the missing one alone."""
    sinks = MemorySink(key="a"), MemorySink(key="b")
    stage = stage_of(*sinks)
    with crashing("batch.applied"), pytest.raises(Crash):
        stage.run(0)
    assert (len(sinks[0].rows), len(sinks[1].rows)) == (3, 0)
    frame = stage.run(0)
    assert (len(sinks[0].rows), len(sinks[1].rows)) == (3, 3)
    assert frame.computed == 1
    assert stage.frames.log == ["compute", "release"]  # of the first run; the second needs none
    assert [type(event).__name__ for event in stage.events] == ["BatchReplayed", "BatchApplied"]


def test_two_sinks_compute_the_frame_once() -> None:
    """Its rows are kept while both are written, and released also after an error."""
    stage = stage_of(MemorySink(key="a"), MemorySink(key="b"))
    made: list[Frame] = []

    def transform(frame: Frame, plan: Any) -> Frame:
        made.append(Frame(frame.collect()))
        return made[-1]

    stage.run(0, transform=transform)
    assert made[0].computed == 1
    stage.sinks[1].faults.append(SinkFault.REFUSED)  # type: ignore[attr-defined]  # a MemorySink
    with pytest.raises(SinkError):
        stage.run(1, transform=transform)
    assert stage.frames.log == ["compute", "release"] * 2


def test_a_transform_may_make_a_frame_for_each_sink() -> None:
    """A list goes to the sinks in their order; each is computed before the first is written."""
    stage = stage_of(MemorySink(key="a"), MemorySink(key="b"))

    def transform(frame: Frame, plan: Any) -> list[Frame]:
        return [Frame(frame.rows[:1]), Frame(frame.rows[1:])]

    frame = frame_of(TWO[0])
    stage.batches(transform=transform).run(frame, 0)
    assert rows_of(stage) == [1, 2]
    assert stage.frames.log == ["cache", "compute", "compute", "release", "release", "release"]
    wrong: Any
    for wrong in ([frame], (frame,) * 3, None, "rows", [frame, None], [frame, [1]], iter([])):
        with pytest.raises(SettingsError, match="2 sinks"):
            stage.run(1, transform=lambda frame, plan, made=wrong: made)
    assert rows_of(stage) == [1, 2]


def test_nothing_is_written_anywhere_when_one_sink_must_not_get_a_batch() -> None:
    """All sinks are judged before the first is written."""
    sinks = MemorySink(key="a"), MemorySink(key="b")
    stage = stage_of(*sinks)
    ahead = Stage(Plans({0: {P0: (0, 9)}}), [sinks[1]])
    ahead.run(0)
    with pytest.raises(RegressionError):
        stage.run(0)
    assert sinks[0].rows == []
    failed = stage.last(BatchFailed)
    assert (failed.sink, failed.error) == ("memory b", "RegressionError")


def test_what_a_sink_finds_in_its_target_is_reported() -> None:
    """In the event of the batch that it was found in."""
    out = {TopicPartition("out", 0): OffsetRange(3, 9)}
    found = (UnexpectedRecords(Unexpected.FOREIGN, 2, out),)
    stage = stage_of()
    apply = one(stage).apply
    one(stage).apply = lambda *given: replace(apply(*given), unexpected=found)  # type: ignore[method-assign]
    stage.run(0)
    assert len(stage.events) == 1
    assert stage.last(BatchApplied).unexpected == found


def test_an_accepted_gap_is_reported() -> None:
    """The gap stands in the event and in the ledger's history."""
    stage = stage_of()
    stage.run(0)
    stage.plans.ranges = {1: {P0: (4, 5), P1: (1, 1)}}
    with pytest.raises(GapError):
        stage.run(1)
    stage.run(1, on_gap="accept")
    told = stage.last(BatchApplied)
    assert told.gaps == {P0: (2, 4)}
    entry, _ = one(stage).store.history["rows"][-1]
    assert entry.moves[P0].gap == (2, 4)


def test_partitions_alone_continue_from_their_heads() -> None:
    """After a crash between two partitions' transactions only the other is written."""
    stage = stage_of(MemorySink(per_partition=True))
    with crashing("sink.committed"), pytest.raises(Crash):
        stage.run(0)
    assert offsets(one(stage)) == [(0, 0), (0, 1)]
    stage.run(0)
    stage.run(1)
    assert offsets(one(stage)) == WHOLE
    told = next(event for event in stage.events if isinstance(event, BatchApplied))
    assert told.replayed == {P0: (0, 2)}


def test_state_that_is_left_behind_is_reported_once() -> None:
    """A stateful query that goes on in the ledger with a new checkpoint has an empty state."""
    for stateful, told in ((True, 1), (False, 0)):
        stage = stage_of(stateful=stateful)
        stage.run(0)
        stage.plans.query_id = "anew"
        stage.run(1)
        stage.run(1)
        assert [type(event) for event in stage.events].count(QueryStateLost) == told


def test_a_stateful_batch_that_nothing_would_mark_fails() -> None:
    """With no partition left its rows are not dropped in silence."""
    stage = stage_of(stateful=True)
    stage.run(0)
    stage.plans.ranges = {1: {}}
    with pytest.raises(PartitionVanishedError):
        stage.run(1)
    assert stage.frames.log == []
    stage.last(BatchFailed)


def test_every_error_is_reported() -> None:
    """Of planning, naming, the transform and Spark too; a stranger's words are not repeated."""

    def failed(stage: Stage, error: type[Exception], **how: Any) -> BatchFailed:
        with pytest.raises(error):
            stage.run(0, **how)
        told = stage.last(BatchFailed)
        assert told.error == error.__name__
        return told

    stage = stage_of()
    away = KafkaError("Kafka does not answer", code="_TRANSPORT")
    stage.plans.plan = Mock(side_effect=away)  # type: ignore[method-assign]  # it is away
    told = failed(stage, KafkaError, name="flights")
    assert (told.query, told.run_id, told.problem) == ("flights", "", "Kafka does not answer")
    assert failed(stage_of(query=None), SettingsError).run_id == "r1.1"
    broken = Mock(side_effect=LookupError("password=hunter2"))
    told = failed(stage_of(), LookupError, transform=broken)
    assert (told.query, told.sink) == ("flights", None)
    assert "hunter2" not in str(told)


def test_consent_to_a_recreated_topic_reaches_the_judgement() -> None:
    """Without it the batch is refused; with it the new topic's rows come after the old one's."""
    stage = stage_of()
    stage.run(0)
    stage.plans.topic_id = "T2"
    with pytest.raises(TopicRecreatedError):
        stage.run(0)
    stage.run(0, on_recreated="restart")
    stage.run(1)
    assert len(one(stage).rows) == 3 + len(WHOLE)


def test_a_plan_older_than_the_ledger_takes_no_topic_back() -> None:
    """Suspended before the topic was recreated, a driver asks Kafka again, and is refused."""
    stage = stage_of()
    zombie = stage.batches(on_recreated="restart")
    plan, began = zombie._plans.plan, zombie._plans.began
    # It was stopped when it had planned.
    zombie._plans = SimpleNamespace(plan=begin_with(plan, plan(None, 0)), began=began)
    stage.plans.topic_id, stage.plans.query_id = "T2", "anew"
    stage.run(0, on_recreated="restart")
    stage.plans.query_id = "q"
    with pytest.raises(OverlapError):
        zombie.run(frame_of(TWO[0]), 0)
    assert len(one(stage).rows) == 3
    assert {head.topic_id for head in one(stage).applied(NAME).values()} == {"T2"}


def test_a_ledger_needs_a_name() -> None:
    """The query's, or one that is given."""
    stage = stage_of(query=None)
    with pytest.raises(SettingsError, match="queryName"):
        stage.run(0)
    stage.run(0, name="given")
    assert one(stage).applied("given").keys() == {P0, P1}


def paused(retry: RetryLimits, attempt: float = 0.0) -> list[float]:
    """The waits of `retry`, where each attempt takes so long."""
    now = [0.0]
    waits = []
    for pause in retry.pauses(lambda: now[0]):
        waits.append(pause)
        now[0] += pause + attempt
    return waits


def test_pauses_double_up_to_a_limit() -> None:
    """Each wait is twice the last, none is too long, and the last one ends with the time."""
    retry = RetryLimits(timeout=20.0, first=1.0, longest=5.0)
    assert paused(retry) == [1.0, 2.0, 4.0, 5.0, 5.0, 3.0]
    assert paused(retry, attempt=6.0) == [1.0, 2.0, 4.0]
    assert paused(retry, attempt=60.0) == [1.0]
    assert paused(RetryLimits(timeout=0.0)) == []
    assert sum(paused(RetryLimits(timeout=0.5))) == pytest.approx(0.5)
    usual = paused(RetryLimits())
    assert (sum(usual), usual[0], max(usual)) == (60.0, 0.1, 5.0)
