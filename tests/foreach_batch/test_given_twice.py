"""A batch that the user's function gives twice within one run, over a store in memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from eo_listener.model.errors import OutcomeUnknownError, SettingsError, SinkError
from eo_listener.model.events import BatchReplayed
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.testing import MemorySink, SinkFault
from tests.foreach_batch.stage import P0, P1, Frame, Plans, Stage, frame_of

TWO = {0: {P0: (0, 2), P1: (0, 1)}, 1: {P0: (2, 5), P1: (1, 2)}}
REFUSED = "with other rows: they are not written, as memory"
UNKNOWN = "whether the rows that are given now are the same cannot be known"


def stage_of(*sinks: MemorySink) -> Stage:
    return Stage(Plans(TWO), list(sinks))


def whole(*, derived: bool = False) -> Frame:
    """All rows of batch 0, in a DataFrame of its own."""
    return Frame(frame_of(TWO[0]).rows, derived=derived)


def part(*, derived: bool = False) -> Frame:
    """Some rows of batch 0."""
    return Frame(whole().rows[:1], derived=derived)


class Unanswered(MemorySink):
    """It cannot be read any more once the answer to a COMMIT was lost."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        try:
            return super().apply(frame, entry, plan)
        except OutcomeUnknownError:
            self.unreadable = 4
            raise


class WithoutLedger(MemorySink):
    """It takes whatever it is given."""

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        return {}

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]] | None:
        return None

    def _move(self, transaction: Any, entry: Entry) -> None:
        pass


@pytest.mark.parametrize("fault", [SinkFault.ANSWER_LOST, SinkFault.LATE])
def test_rows_given_behind_a_commit_of_unknown_outcome(fault: SinkFault) -> None:
    """It was committed, or is when the next one waits: other rows are refused, its own a replay."""
    sink = Unanswered()
    sink.faults.append(fault)
    stage = stage_of(sink)
    batches = stage.batches()
    with pytest.raises(OutcomeUnknownError):
        batches.run(whole(), 0)
    for _ in range(2):
        with pytest.raises(SettingsError, match=REFUSED):
            batches.run(part(), 0)
    batches.run(whole(), 0)
    assert isinstance(stage.events[-1], BatchReplayed)
    assert sink.rows == whole().rows


def test_rows_given_behind_a_commit_that_was_lost() -> None:
    """Nothing of it is there: other rows are written, and are then what the sink has."""
    sink = Unanswered()
    sink.faults.append(SinkFault.LOST)
    stage = stage_of(sink)
    batches = stage.batches()
    with pytest.raises(OutcomeUnknownError):
        batches.run(whole(), 0)
    batches.run(part(), 0)
    assert sink.rows == part().rows
    batches.run(part(), 0)
    with pytest.raises(SettingsError, match=REFUSED):
        batches.run(whole(), 0)


def test_a_sink_that_has_the_batch_refuses_other_rows_for_all() -> None:
    """Of two sinks one got the batch before the other failed: both are to have the same rows."""
    first, second = sinks = MemorySink(key="a"), MemorySink(key="b")
    second.faults.append(SinkFault.REFUSED)
    stage = stage_of(*sinks)
    batches = stage.batches()
    with pytest.raises(SinkError):
        batches.run(whole(), 0)
    with pytest.raises(SettingsError, match=f"{REFUSED} a has"):
        batches.run(part(), 0)
    assert second.rows == []
    batches.run(whole(), 0)
    assert first.rows == second.rows == whole().rows
    with pytest.raises(SettingsError, match=REFUSED):
        batches.run(part(), 0)


def test_rows_that_cannot_be_compared_behind_a_call_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Derived once more by the function that tries again: a replay, and not in silence."""
    first, second = sinks = MemorySink(key="a"), MemorySink(key="b")
    second.faults.append(SinkFault.REFUSED)
    stage = stage_of(*sinks)
    batches = stage.batches()
    with pytest.raises(SinkError):
        batches.run(whole(derived=True), 0)
    assert UNKNOWN not in caplog.text
    batches.run(whole(derived=True), 0)
    assert "has batch 0, which exactly_once(...) is given once more in this run" in caplog.text
    assert caplog.text.count(UNKNOWN) == 1
    assert first.rows == second.rows == whole().rows
    batches.run(whole(), 1)


def test_rows_that_cannot_be_compared_behind_a_call_that_returned() -> None:
    """They may be a second part, which would be lost: refused, and a replay after a restart."""
    stage = stage_of(MemorySink())
    batches = stage.batches()
    frame = whole(derived=True)
    batches.run(frame, 0)
    batches.run(frame, 0)
    for _ in range(2):
        with pytest.raises(SettingsError, match="cannot be known whether it has them"):
            batches.run(whole(derived=True), 0)
    stage.batches().run(whole(derived=True), 0)
    assert isinstance(stage.events[-1], BatchReplayed)


def test_what_an_earlier_run_was_given_is_not_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Spark gives a batch again in a new run: a replay, whatever its DataFrame is."""
    stage = stage_of(MemorySink())
    batches = stage.batches()
    batches.run(whole(), 0)
    stage.plans.run_id = "r2"
    batches.run(part(), 0)
    assert isinstance(stage.events[-1], BatchReplayed)
    assert caplog.text == ""


def test_a_part_that_is_there_is_logged_where_the_rest_has_other_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With a transaction for each partition: of the one that is there only the whole differs."""
    sink = MemorySink(per_partition=True)
    sink.faults.extend([None, SinkFault.REFUSED])
    stage = stage_of(sink)
    batches = stage.batches()
    with pytest.raises(SinkError):
        batches.run(whole(), 0)
    batches.run(Frame(whole().rows[1:]), 0)
    assert caplog.text.count(UNKNOWN) == 1
    assert sink.rows == whole().rows


def test_a_sink_without_a_ledger_gets_a_batch_by_one_frame() -> None:
    """Its first one is refused other rows, and takes the same ones again."""
    sink = WithoutLedger()
    batches = stage_of(sink).batches()
    batches.run(whole(), 0)
    with pytest.raises(SettingsError, match=REFUSED):
        batches.run(part(), 0)
    batches.run(whole(), 0)
    assert sink.rows == 2 * whole().rows


def test_a_frame_is_let_go_with_the_next_batch() -> None:
    """Before that one is computed; what its rows are held by is free by then."""
    kept: list[weakref.ref[Frame]] = []
    alive: list[bool] = []

    def transform(frame: Frame, plan: PlannedBatch) -> Frame:
        gc.collect()
        alive.extend(one() is not None for one in kept)
        kept.append(weakref.ref(frame))
        return frame

    batches = stage_of(MemorySink()).batches(transform=transform)
    for number, ranges in TWO.items():
        batches.run(frame_of(ranges), number)
    assert alive == [False]


def test_a_frame_is_let_go_when_the_function_is_closed() -> None:
    """A call after that has rows that may be others: a replay behind one that failed only."""
    stage = stage_of(MemorySink())
    batches = stage.batches()
    frame = whole()
    kept = weakref.ref(frame)
    batches.run(frame, 0)
    del frame
    gc.collect()
    assert kept() is not None
    batches.close()
    gc.collect()
    assert kept() is None
    with pytest.raises(SettingsError, match="cannot be known whether it has them"):
        batches.run(part(), 0)
