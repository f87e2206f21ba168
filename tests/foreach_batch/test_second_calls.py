"""A batch that a user's function gives twice within one run, over a store in memory."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.model.errors import OutcomeUnknownError, SettingsError, SinkError
from eo_listener.model.events import BatchApplied, BatchFailed, BatchReplayed
from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.observers import Observers
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.testing import MemorySink, SinkFault
from tests.foreach_batch.stage import P0, TWO, Frame, Run, frame_of, stage_of

PART = {P0: (0, 2)}


def whole(number: int = 0) -> Frame:
    return frame_of(TWO[number])


class Unanswered(MemorySink):
    """It cannot be read any more once the answer to a COMMIT was lost."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        try:
            return super().apply(frame, entry, plan)
        except OutcomeUnknownError:
            self.unreadable = 4
            raise


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("again", [whole, lambda: frame_of(PART)], ids=["whole", "part"])
def test_behind_a_call_that_returned_it_is_refused(replayed: bool, again: Any) -> None:
    """Whatever its rows are, and whether the first call wrote or skipped: nothing is computed."""
    sink = MemorySink()
    stage = stage_of(sink)
    if replayed:
        stage.run(0)
    batches = stage.batches()
    frame = whole()
    batches.run(frame, 0)
    told = len(stage.events)
    for second in (frame, again()):
        computed = second.computed
        with pytest.raises(SettingsError, match="second time with batch 0"):
            batches.run(second, 0)
        assert second.computed == computed
    assert [type(event) for event in stage.events[told:]] == [BatchFailed, BatchFailed]
    assert len(sink.rows) == 3
    batches.run(whole(1), 1)
    assert len(sink.rows) == 7


def test_another_run_may_have_what_a_call_has_returned_for() -> None:
    """Spark gives it again to the same function after a restart whose commit log lacks it."""
    stage = stage_of(MemorySink())
    batches = stage.batches()
    for run in ("r1", "r2", "r3"):
        stage.plans.run_id = run
        batches.run(whole(), 0)
        with pytest.raises(SettingsError):
            batches.run(whole(), 0)
    kinds = [type(event) for event in stage.events if not isinstance(event, BatchFailed)]
    assert kinds == [BatchApplied, BatchReplayed, BatchReplayed]


@pytest.mark.parametrize("per_partition", [False, True])
def test_behind_a_call_that_failed_it_is_a_retry(per_partition: bool) -> None:
    """Sinks that have the batch, or a part of it, are left out; the others get it."""
    sinks = [MemorySink(key=key, per_partition=per_partition) for key in "ab"]
    sinks[1].faults.extend([None, SinkFault.REFUSED] if per_partition else [SinkFault.REFUSED])
    batches = stage_of(*sinks).batches()
    with pytest.raises(SinkError):
        batches.run(whole(), 0)
    for number in (0, 1):
        batches.run(whole(number), number)
    assert sinks[0].rows == whole(0).rows + whole(1).rows
    assert sorted(map(str, sinks[1].rows)) == sorted(map(str, sinks[0].rows))


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (SinkFault.REFUSED, PART),
        (SinkFault.LOST, PART),
        (SinkFault.ANSWER_LOST, TWO[0]),
        (SinkFault.LATE, TWO[0]),  # it lands when the retry wants the lock
    ],
)
def test_a_retry_with_other_rows(fault: SinkFault, left: Any) -> None:
    """The ledger decides: they are written if the sink has nothing of the batch, else skipped."""
    sink = Unanswered()
    sink.faults.append(fault)
    stage = stage_of(sink)
    batches = stage.batches()
    with pytest.raises(SinkError):
        batches.run(whole(), 0)
    batches.run(frame_of(PART), 0)
    assert sink.rows == frame_of(left).rows
    assert isinstance(stage.events[-1], BatchReplayed if left == TWO[0] else BatchApplied)


@pytest.mark.parametrize("restarts", [1, 2])
def test_two_for_one_sink_and_name_are_refused(restarts: int) -> None:
    """The second's rows would be taken for applied, in a replay too; a third name is served."""
    sink = MemorySink()
    stage = stage_of(sink)
    for number in range(restarts):
        run = Run(stage.plans, number)
        first, second, other = (
            BatchRunner(run, stage.sinks, stage.frames, name=name, process=stage.process)
            for name in ("one", "one", "two")
        )
        for batch in (0, 1) if restarts == 1 else (0,):
            first.run(whole(batch), batch)
            with pytest.raises(SettingsError, match="memory rows got batch"):
                second.run(whole(batch), batch)
            other.run(whole(batch), batch)
    assert len(sink.rows) == (14 if restarts == 1 else 6)


def test_another_may_take_over_from_one_that_failed() -> None:
    """A function that falls back to a second one; the first is refused from then on."""
    sink = MemorySink()
    sink.faults.append(SinkFault.REFUSED)
    stage = stage_of(sink)
    run = Run(stage.plans, 0)
    first, second = (
        BatchRunner(run, stage.sinks, stage.frames, process=stage.process, observers=Observers())
        for _ in range(2)
    )
    with pytest.raises(SinkError):
        first.run(whole(), 0)
    second.run(frame_of(PART), 0)
    with pytest.raises(SettingsError, match="memory rows got batch 0"):
        first.run(whole(), 0)
    assert sink.rows == frame_of(PART).rows
