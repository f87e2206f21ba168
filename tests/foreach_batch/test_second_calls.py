"""A batch that is written twice: in one run, by two drivers, by several exactly_once(...)."""

from __future__ import annotations

import multiprocessing
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from eo_listener.errors import (
    ForeignWriterError,
    OverlapError,
    SettingsError,
    SinkError,
)
from eo_listener.events import BatchApplied, BatchFailed, BatchReplayed, Observers
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.exactly_once import QueryPlanReader
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.model.ledger import LedgerKey
from eo_listener.spark.checkpoint.checkpoint import Checkpoint
from eo_listener.testing import MemorySink, MemoryStore, SinkFault
from tests.attack import surgery
from tests.foreach_batch.stage import (
    P0,
    P1,
    TWO,
    Frame,
    InDoubt,
    ListFrames,
    Plans,
    Run,
    Stage,
    frame_of,
    stage_of,
)
from tests.spark.checkpoint.recorded import unpack

PART = {P0: (0, 2)}


def whole(number: int = 0) -> Frame:
    return frame_of(TWO[number])


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
    sink = InDoubt()
    sink.is_away(4)
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
            with pytest.raises(SettingsError, match="memory rows already got batch"):
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
    with pytest.raises(SettingsError, match="memory rows already got batch 0"):
        first.run(whole(), 0)
    assert sink.rows == frame_of(PART).rows


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
    moved = Mock(side_effect=ForeignWriterError("moved"))
    stage.sinks[:] = [Meanwhile(store, *[moved] * 9)]
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
    with pytest.raises(SettingsError, match="already got batch"):
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
    with pytest.raises(SettingsError, match="appears twice"):
        stage.run(0)
    assert not store.rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint whose newest batch is being written."""
    folder = unpack("4.0.0", "plain", tmp_path)
    surgery.before_commit(folder)
    return folder


def function(folder: Path, *parts: tuple[MemorySink, str], process: ProcessWrites) -> None:
    """Run the newest batch by an exactly_once(...) for each sink and name."""
    newest = Checkpoint(str(folder)).batches().planned[-1]
    for number, (sink, name) in enumerate(parts):
        spelled = f"file:{folder}/" if number else str(folder)
        each = BatchRunner(
            QueryPlanReader(spelled, {}),
            [sink],
            ListFrames(),
            name=name,
            on_first="accept",
            process=process,
        )
        each.run(Frame([{"value": 1}]), newest)


@pytest.mark.parametrize("tables", [("one", "two"), ("one", "one")])
def test_two_of_one_function_accuse_nobody(folder: Path, tables: tuple[str, str]) -> None:
    """With a table or a name each, both get the batch, however the checkpoint is spelled."""
    store, process = MemoryStore(), ProcessWrites()
    names = ("a", "a") if tables[0] != tables[1] else ("a", "b")
    parts = [(MemorySink(store, key=key), name) for key, name in zip(tables, names, strict=True)]
    function(folder, *parts, process=process)
    assert sum(len(rows) for rows in store.rows.values()) == 2


def test_two_for_one_sink_and_name_are_refused_where_the_checkpoint_is_asked(folder: Path) -> None:
    """The second would see the batch as applied, and write nothing."""
    sink = MemorySink()
    with pytest.raises(SettingsError, match=r"from another exactly_once\(\.\.\.\)"):
        function(folder, (sink, "a"), (sink, "a"), process=ProcessWrites())
    assert len(sink.rows) == 1


def tell_run(folder: str, batch: int, told: Connection) -> None:
    told.send(QueryPlanReader(folder, {}).plan("far", batch).run_id)


def test_each_process_is_a_run(folder: Path) -> None:
    """Spark Connect starts one with each start of a query; a fork is another one too."""
    newest = Checkpoint(str(folder)).batches().planned[-1]
    found = {QueryPlanReader(str(folder), {}).plan("far", newest).run_id for _ in range(2)}
    assert len(found) == 1
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        here, there = context.Pipe()
        process = context.Process(target=tell_run, args=(str(folder), newest, there))  # type: ignore[attr-defined]
        process.start()
        found.add(here.recv())
        process.join()
    assert len(found) == 3


_LONG = 60.0


def test_another_batch_waits_for_the_sink() -> None:
    """The batch of another thread that shares one of several sinks begins when this one is over."""
    process, one, two = ProcessWrites(), MemorySink(key="one"), MemorySink(key="two")
    order: list[str] = []
    asked = threading.Event()

    def other() -> None:
        asked.set()
        with process.exclusive([two, one], _LONG):
            order.append("second")

    thread = threading.Thread(target=other)
    with process.exclusive([one], 0):
        thread.start()
        asked.wait(_LONG)
        with process.exclusive([two], 0):
            order.append("first")
    thread.join(_LONG)
    assert order == ["first", "second"]


def test_a_sink_that_stays_in_use_is_refused() -> None:
    """It alone is named; others are not refused, nor is this one when its batch has failed."""
    process, one, two = ProcessWrites(), MemorySink(key="one"), MemorySink(key="two")

    def fails() -> None:
        with process.exclusive([one], 0):
            with pytest.raises(SettingsError) as raised, process.exclusive([two, one], 0):
                pytest.fail("both have it")
            assert "memory one" in raised.value.problem
            assert "memory two" not in raised.value.problem
            with process.exclusive([two], 0):
                raise LookupError

    with pytest.raises(LookupError):
        fails()
    with process.exclusive([one, two], 0):
        pass


def test_the_newest_runs_are_remembered() -> None:
    """A process that starts queries forever does not grow."""
    process = ProcessWrites()
    keys = [LedgerKey("rows", str(number)) for number in range(3)]
    for key in keys[:2]:
        process.add_name("r", key)
    assert process.names("r") == frozenset(keys[:2])
    assert process.names("other") == frozenset()
    for number in range(1000):
        process.add_name(str(number), keys[2])
    assert process.names("r") == frozenset()
    assert process.names("0") == process.names("999") == frozenset(keys[2:])
    assert len(process._runs) == 1000
