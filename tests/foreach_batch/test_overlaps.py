"""A restart that overlaps its predecessor, and what else may have moved the ledger meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.model.errors import ForeignWriterError, OverlapError, SettingsError, SinkError
from eo_listener.model.events import BatchApplied, BatchReplayed
from eo_listener.testing import MemorySink, MemoryStore, SinkFault
from tests.foreach_batch.overlap import Overlap
from tests.foreach_batch.stage import P0, P1, TWO, ListFrames, Plans, Stage, frame_of


@pytest.mark.parametrize("number", [0, 1])
def test_a_predecessor_about_to_end(number: int) -> None:
    """It commits after its successor has read the ledger: the batch is a replay, and there once."""
    store, plans = MemoryStore(), Plans(TWO)
    if number:
        Stage(plans, [MemorySink(store)]).run(0)
    overlap = Overlap(plans, ListFrames())
    overlap.run([MemorySink(store)], [MemorySink(store)], frame_of(TWO[number]), number)
    assert overlap.failed == []
    assert [type(event) for event in overlap.events] == [BatchReplayed]
    assert len(store.rows["rows"]) == (7 if number else 3)


class Meanwhile(MemorySink):
    """Something happens between the reading of its ledger and its first write."""

    def __init__(self, store: MemoryStore, *acts: Any, **how: Any) -> None:
        super().__init__(store, **how)
        self.acts = list(acts)

    def apply(self, frame: Any, entry: Any, plan: Any) -> Any:
        if self.acts:
            self.acts.pop(0)()
        return super().apply(frame, entry, plan)


def other(store: MemoryStore, number: int, **how: Any) -> Any:
    """Another driver's batch, to be run."""
    return lambda: Stage(Plans(TWO, run_id="other", **how), [MemorySink(store)]).run(number)


def test_a_stateful_batch_that_a_predecessor_wrote_is_run_for_its_state() -> None:
    """Nothing of it was computed here, and Spark's state must be written all the same."""
    store = MemoryStore()
    stage = Stage(Plans(TWO, stateful=True), [Meanwhile(store, other(store, 0, stateful=True))])
    frame = stage.run(0)
    assert stage.last(BatchReplayed).discarded
    assert stage.frames.log == ["discard"]
    assert frame.computed > 0
    assert len(store.rows["rows"]) == 3


def test_a_batch_of_another_query_is_no_replay() -> None:
    """The same range under another query id is another driver's, and said to be."""
    store = MemoryStore()
    stage = Stage(Plans(TWO), [Meanwhile(store, other(store, 0, query_id="another"))])
    with pytest.raises(ForeignWriterError) as raised:
        stage.run(0)
    assert isinstance(raised.value.__cause__, OverlapError)
    assert len(store.rows["rows"]) == 3


def test_a_ledger_of_a_newer_topic_is_not_judged_by_an_older_plan() -> None:
    """A plan from before the topic was recreated does not put the old topic in its place."""
    store = MemoryStore()
    stage = Stage(Plans(TWO), [Meanwhile(store, other(store, 0, topic_id="T2"))])
    with pytest.raises(ForeignWriterError):
        stage.run(0, on_recreated="restart")
    assert len(store.rows["rows"]) == 3


def test_a_partition_that_another_has_written_is_left_out() -> None:
    """With a transaction for each, the rest of the batch is written, whoever wrote the others."""
    store = MemoryStore()

    def half() -> None:
        sink = MemorySink(store, per_partition=True)
        sink.faults.extend([None, SinkFault.REFUSED])
        with pytest.raises(SinkError):
            Stage(Plans(TWO, run_id="other"), [sink]).run(0)

    stage = Stage(Plans(TWO), [Meanwhile(store, half, per_partition=True)])
    stage.run(0)
    told = stage.last(BatchApplied)
    assert (list(told.replayed), list(told.ranges)) == ([P0], [P1])
    assert len(store.rows["rows"]) == 3


def test_it_is_judged_once_more_and_not_for_ever() -> None:
    """A ledger that is moved again and again is another driver's."""
    store = MemoryStore()

    def lose() -> None:
        store.heads["rows", "flights"] = {}

    stage = Stage(Plans(TWO), [MemorySink(store)])
    stage.run(0)
    moving = Meanwhile(store, other(store, 1), lose)

    class Twice(Meanwhile):
        def apply(self, frame: Any, entry: Any, plan: Any) -> Any:
            raise ForeignWriterError("moved")

    stage.sinks[:] = [Twice(store)]
    with pytest.raises(ForeignWriterError):
        stage.run(1)
    stage.sinks[:] = [moving]
    stage.run(1)
    stage.last(BatchReplayed)
    assert len(store.rows["rows"]) == 7


def test_two_sinks_that_turn_out_to_be_one_are_reported() -> None:
    """One table by two ways in: the second would see the batch as applied, and write nothing."""
    store = MemoryStore()

    class Spelt(MemorySink):
        label = "another way to it"  # a property there

    stage = Stage(Plans(TWO), [MemorySink(store), Spelt(store)])
    with pytest.raises(SettingsError, match="in this run already"):
        stage.run(0)
    assert len(store.rows["rows"]) == 3


def test_two_sinks_whose_keys_turn_out_to_be_one_are_reported() -> None:
    """A key may be certain only when the store was asked, and then nothing was written yet."""
    store = MemoryStore()

    class Located(MemorySink):
        def applied(self, query: str) -> Any:
            self._key = "public.rows"
            return super().applied(query)

    stage = Stage(Plans(TWO), [Located(store, key="rows"), Located(store, key="public.rows")])
    with pytest.raises(SettingsError, match="named twice"):
        stage.run(0)
    assert not store.rows
