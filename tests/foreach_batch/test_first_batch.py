"""A first batch that is none, over a store in memory."""

from __future__ import annotations

from typing import Any

import pytest

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.model.errors import NotInLedgerError
from eo_listener.model.events import BatchApplied
from eo_listener.model.offsets import TopicPartition
from eo_listener.testing import MemorySink, MemoryStore
from tests.foreach_batch.stage import (
    P0,
    P1,
    TWO,
    Crash,
    Plans,
    Run,
    Stage,
    crashing,
    frame_of,
    rows_of,
    stage_of,
)

P2 = TopicPartition("t", 2)
READ = frozenset([P0, P1])


QUIET = {1: {P0: (100, 103), P1: (7, 7)}, 2: {P0: (103, 105), P1: (7, 9)}}
BEGAN = {P0: 100, P1: 7}


def test_batches_without_offsets_need_no_ledger() -> None:
    """A function may return by itself while nothing has come: asked once, and only in doubt."""
    sink = MemorySink()
    stage = Stage(Plans(QUIET, continued=READ, initial=BEGAN), [sink])
    stage.run(1)
    stage.run(2)
    assert len(sink.rows) == 7
    assert stage.plans.asked == 1
    told = stage.events[0]
    assert isinstance(told, BatchApplied)
    assert (told.gaps, told.skipped) == ({}, {})


def test_each_sink_is_judged_by_where_the_query_began() -> None:
    """Two that begin with the batch; one that is emptied later has lost the first of two."""
    store = MemoryStore()
    sinks = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = Stage(Plans(QUIET, continued=READ, initial=BEGAN), list(sinks))
    stage.run(1)
    store.heads["two", "flights"] = {}
    with pytest.raises(NotInLedgerError) as raised:
        stage.run(2)
    assert raised.value.ranges == {P0: (0, 103)}
    assert rows_of(stage) == [3, 3]


@pytest.mark.parametrize("initial", [{P1: 7}, {P0: 0, P1: 7}, {P0: 101, P1: 7}])
def test_what_began_elsewhere_is_doubted(initial: dict[TopicPartition, int]) -> None:
    """A partition that came later, one that was read, and one that Spark went back in."""
    stage = Stage(Plans(QUIET, continued=READ, initial=initial), [MemorySink()])
    with pytest.raises(NotInLedgerError) as raised:
        stage.run(1)
    assert raised.value.ranges == {P0: (0, 100)}


def test_a_beginning_that_cannot_be_read_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is doubted as ever, and the log says why that is all that can be done."""
    stage = Stage(Plans(QUIET, continued=READ, unreadable=True), [MemorySink()])
    with pytest.raises(NotInLedgerError):
        stage.run(1)
    assert "sources/0/0 cannot be read" in caplog.text
    stage.run(1, on_first="accept")
    assert stage.plans.asked == 2


def test_a_name_that_had_no_row_is_left_without_consent() -> None:
    """The query was renamed before its first record: nothing is under the old name but heads."""
    sink = MemorySink()
    ranges = {0: {P0: (100, 100), P1: (7, 7)}, **QUIET}
    stage = Stage(Plans(ranges, initial=BEGAN), [sink])
    stage.run(0)
    stage.plans.continued = READ
    stage.run(1, name="new")
    assert len(sink.rows) == 3
    with pytest.raises(NotInLedgerError, match="has it already"):
        stage.run(1)


def test_a_sink_that_is_added_is_taken_up_by_consent_alone() -> None:
    """Beside one that has the query, in the same store, it begins in the middle."""
    store = MemoryStore()
    one, two = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(one)
    stage.run(0)
    stage.sinks.append(two)
    stage.plans.continued = READ
    with pytest.raises(NotInLedgerError, match="new to a query"):
        stage.run(1)
    assert rows_of(stage) == [3, 0]
    stage.run(1, on_first="accept")
    assert rows_of(stage) == [7, 4]
    stage.run(1)  # the consent is needed no more


def test_a_crash_between_two_sinks_accuses_nobody() -> None:
    """In the first batch the one that lacks it is first, though the store has the query."""
    store = MemoryStore()
    sinks = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(*sinks)
    with crashing("batch.applied"), pytest.raises(Crash):
        stage.run(0)
    stage.run(0)
    assert rows_of(stage) == [3, 3]


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_a_crash_between_two_functions_accuses_nobody(names: tuple[str, str]) -> None:
    """Two exactly_once(...) of one sink, a name each: after a crash the second is not renamed."""
    sink = MemorySink()
    stage = stage_of(sink)

    def both(number: int) -> None:
        run = Run(stage.plans, number)
        for name in names:
            each = BatchRunner(run, stage.sinks, stage.frames, name=name, process=stage.process)
            each.run(frame_of(TWO[0]), 0)

    with crashing("batch.applied"), pytest.raises(Crash):
        both(1)
    both(2)
    both(3)
    assert len(sink.rows) == 6


def test_a_sink_beside_one_that_has_the_batch_is_taken_up() -> None:
    """Added when the last batch was not in Spark's commits: both are of one run."""
    store = MemoryStore()
    one, two = MemorySink(store, key="one"), MemorySink(store, key="two")
    stage = stage_of(one)
    for batch in range(2):
        stage.run(batch)
        stage.plans.continued = READ
    stage.sinks[:] = [two, one]
    stage.run(1, on_first="accept")
    assert (len(one.rows), len(two.rows)) == (7, 4)


def test_the_other_names_are_asked_for_only_where_a_head_is_missing() -> None:
    """Once in a run, and once more for a partition that is new; never again."""
    asked: list[str] = []

    class Asked(MemorySink):
        def moved_by(self, query_id: str) -> Any:
            asked.append(query_id)
            return super().moved_by(query_id)

    more = {2: {P0: (5, 6), P1: (2, 2), P2: (0, 1)}, 3: {P0: (6, 7), P1: (2, 2), P2: (1, 1)}}
    stage = Stage(Plans({**TWO, **more}), [Asked()])
    for numbers, times in (((0, 1), 1), ((1, 2, 3), 3), ((3,), 4)):
        batches = stage.batches()
        for number in numbers:
            batches.run(frame_of(stage.plans.ranges[number]), number)
        assert len(asked) == times
    assert set(asked) == {"q"}


def test_a_query_that_is_renamed_back_doubles_nothing() -> None:
    """Its first name has heads too, at which the batch would continue."""
    sink = MemorySink()
    stage = stage_of(sink)
    stage.run(0, name="one")
    stage.plans.continued = READ
    stage.run(1, name="two", on_first="accept")
    for on_first in ("fail", "accept"):
        with pytest.raises(NotInLedgerError, match='name="two"'):
            stage.run(1, name="one", on_first=on_first)
    assert len(sink.rows) == 7
