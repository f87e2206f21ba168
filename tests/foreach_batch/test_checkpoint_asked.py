"""Several exactly_once(...) in one function under Spark Connect, where the checkpoint is asked."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.plan_reader import QueryPlanReader
from eo_listener.foreach_batch.process_writes import ProcessWrites
from eo_listener.model.errors import SettingsError
from eo_listener.spark.checkpoint import Checkpoint
from eo_listener.testing import MemorySink, MemoryStore
from tests.attack import surgery
from tests.foreach_batch.stage import Frame, ListFrames
from tests.spark.checkpoint.recorded import unpack


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


def test_two_for_one_sink_and_name_are_refused(folder: Path) -> None:
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
