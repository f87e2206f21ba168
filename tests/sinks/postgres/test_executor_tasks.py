"""What a task does: it is repeated where that helps, looks first, and keeps its connection."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.ledger_sql import LedgerSql
from eo_listener.sinks.postgres import PostgresSink, executor_tasks
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.executor_tasks import (
    NoConnectionError,
    TaskAttempt,
    TaskResult,
    borrowed,
    connection,
)
from eo_listener.sinks.postgres.executor_writers import PartitionTask
from eo_listener.sinks.postgres.transaction import TransactionWriter, begin
from eo_listener.testing.made_up_entries import QUERY, heads_of
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import ALL_TABLES, USAGE, Database, next_entry
from tests.sinks.programs import run_program
from tests.waiting import until

SCHEMA = {"fields": [{"name": "id", "type": "long"}]}
FIRST = TaskAttempt(task=0, number=1, is_first=True, is_last=False)
AGAIN = replace(FIRST, number=2, is_first=False)
KEPT = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'eo_listener%t'"


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Each test ends without connections of tasks."""
    yield
    close_kept()


def close_kept() -> None:
    for key, one in list(executor_tasks._kept.items()):
        one.closing.cancel()
        executor_tasks._kept.pop(key).link.close()


@pytest.fixture
def db(db: Database) -> Database:
    """With sinks whose tasks write."""
    return replace(db, given={"atomicity": "partition"})


def writer_of(db: Database, **more: Any) -> TransactionWriter:
    """What tasks of a sink write with, on a ledger that is there."""
    sink = db.sink(**more)
    sink.applied(QUERY)
    return sink._writer(QUERY)


@pytest.fixture
def task(db: Database) -> PartitionTask:
    """A task of the first batch, into a table that is there."""
    db.script("CREATE TABLE t (id bigint)")
    return task_of(db.sink(lock_timeout=0.3))


def batches() -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": pa.array(range(10), pa.int64())})]


def task_of(sink: PostgresSink) -> PartitionTask:
    entry = next_entry(sink)  # which makes the ledger
    layout = ColumnLayout.from_schema(SCHEMA, None, sink._target, direct=True)
    writer = replace(sink._writer(QUERY), alone=False)
    return PartitionTask(writer=writer, layout=layout, entries={0: entry})


def test_a_task_that_was_written_writes_nothing_again(db: Database, task: PartitionTask) -> None:
    """A repeated attempt finds its own head before it computes a row; one that is late, after."""
    assert task(FIRST, batches()) == (10, 0)
    computed = iter(batches())
    assert task(AGAIN, computed) == (0, 0)
    assert len(list(computed)) == 1
    assert task(FIRST, batches()) == (0, 0)
    assert db.ask("SELECT count(*) FROM t") == [10]


@pytest.mark.parametrize("point", ["sink.copying", "sink.ledger-moved", "sink.commit-sent"])
def test_a_task_whose_connection_is_lost(db: Database, point: str) -> None:
    """Wherever that happens, COMMIT included: repeated, it has written its rows once."""
    db.script("CREATE TABLE t (id bigint)")
    sink = db.sink()
    task = task_of(sink)

    def lose() -> None:
        db.script(f"SELECT pg_terminate_backend(pid) FROM ({KEPT} AND pid <> {mine}) x")

    mine = sink._kept.connection(sink._writer(QUERY)).backend
    try:
        with once(point, lose):
            task(FIRST, batches())
        was_lost = False
    except (RetriableSinkError, OutcomeUnknownError):  # which Spark repeats
        was_lost = True
    assert was_lost or point == "sink.commit-sent"  # whose answer may be quicker
    task(AGAIN, batches())
    assert db.ask("SELECT count(*), count(DISTINCT id) FROM t") == [(10, 10)]
    assert sink.applied(QUERY) == heads_of(task.entries[0])


def test_a_task_whose_predecessor_stands_still(db: Database, task: PartitionTask) -> None:
    """An attempt that was stopped in its transaction holds its head until the next one ends it."""
    with task.writer.open() as stopped:
        begin(stopped, task.writer.access)
        task.writer.ledger.move(stopped, task.entries[0], rows=0)
        assert task(AGAIN, batches()) == (10, 0)
        with pytest.raises(psycopg.Error):
            stopped.execute("SELECT 1")
    assert db.ask("SELECT count(*) FROM t") == [10]


REPEATED = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from eo_listener.errors import OutcomeUnknownError, SinkError, RetriableSinkError
from eo_listener.sinks.postgres.executor_tasks import outcomes
from tests.spark_session import builder
folder = Path(sys.argv[1])
spark = builder({"spark.master": "local[2,3]", "spark.log.level": "OFF"}).getOrCreate()

def work(attempt, batches):
    Path(folder, f"{kind}-{attempt.task}-{attempt.number}").touch()
    rows = sum(batch.num_rows for batch in batches)
    if attempt.task == 1 and kind == "once" and attempt.is_first:
        raise OutcomeUnknownError("lost")
    if attempt.task == 1 and kind == "always":
        raise OutcomeUnknownError("lost")
    if attempt.task == 1 and kind == "never":
        raise SinkError("wrong")
    return rows, 0

frame = spark.range(0, 40, 1, 4)
for kind in ("once", "always", "never"):
    try:
        said = sum(one.rows for one in outcomes(frame, work))
    except Exception as error:
        said = f"{type(error).__name__} {error}"
    tried = len(list(folder.glob(f"{kind}-1-*"))), len(list(folder.glob(f"{kind}-[023]-*")))
    print(kind, said, *tried)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_repeats_a_task_for_what_may_pass(tmp_path: Path) -> None:
    """That task alone, as often as Spark repeats tasks; what stays wrong is told at once."""
    answer = run_program(REPEATED, tmp_path)
    assert answer.stdout.splitlines() == [
        "once 40 2 3",
        "always RetriableSinkError lost 3 3",
        "never SinkError wrong 1 3",
    ], answer.stderr[-3000:]


def backend(writer: TransactionWriter) -> int:
    with borrowed(writer) as link:
        return link.backend


def test_a_connection_is_kept_from_task_to_task(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the same way in and the same process; it is closed when nobody has asked for a while."""
    writer = writer_of(db)
    first = backend(writer)
    assert backend(writer) == first
    other = replace(writer, access=replace(writer.access, dsn=db.dsn + "&connect_timeout=7"))
    assert backend(other) != first
    assert backend(replace(writer, query="another")) != first  # it has a name of its own
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)  # as after a fork
    assert backend(writer) != first
    monkeypatch.setattr(os, "getpid", lambda: here)
    assert backend(writer) == first
    monkeypatch.setattr(executor_tasks, "IDLE", 0.1)
    backend(writer)
    until(lambda: not db.ask(f"{KEPT} AND pid = {first}"), 20)
    assert backend(writer) != first


def test_what_is_not_fit_to_be_kept_is_closed(db: Database) -> None:
    """After an error, within a transaction, and where the server has ended it."""
    writer = writer_of(db)
    first = backend(writer)
    with pytest.raises(KeyError), borrowed(writer):
        raise KeyError
    second = backend(writer)
    assert second != first
    with borrowed(writer) as link:
        link.execute("BEGIN")
    third = backend(writer)
    assert third != second
    db.script(f"SELECT pg_terminate_backend({third})")
    assert backend(writer) != third


def test_with_a_bound_no_connection_is_kept(db: Database) -> None:
    """The next task may have another worker, which would open one more."""
    writer = writer_of(db, max_connections=2)
    assert backend(writer) != backend(writer)
    assert executor_tasks._kept == {}


def test_a_head_that_cannot_be_read_is_an_error_of_ours(db: Database, task: PartitionTask) -> None:
    """What the server says in a task, before it computes a row, comes back with the sink's name."""
    db.script("DROP TABLE eo_ledger")
    with pytest.raises(SinkError, match="eo_ledger"):
        task(AGAIN, batches())


def test_one_task_prunes_for_all(task: PartitionTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others would wait until it commits."""
    pruned: list[object] = []
    monkeypatch.setattr(LedgerSql, "prune", lambda *given: pruned.append(given))
    entry = task.entries[0]
    two = replace(task, entries={0: entry, 1: replace(entry, query="another")})
    for number in (1, 0):
        two(replace(FIRST, task=number), batches())
        assert len(pruned) == 1 - number


def test_a_task_waits_for_a_free_connection(db: Database) -> None:
    """While the role has none left; what waiting does not cure is told at once."""
    schema = db.schema
    writer = writer_of(db, schema=schema)
    with db.role(USAGE, ALL_TABLES, options="CONNECTION LIMIT 1") as role:
        lonely = replace(writer, access=replace(writer.access, dsn=role, connect_timeout=2))
        held = psycopg.connect(role)
        threading.Timer(0.5, held.close).start()
        with connection(lonely) as link:
            assert link.execute("SELECT 1").fetchone() == (1,)
        hasty = replace(lonely, access=replace(lonely.access, connect_timeout=0.1))
        for number, (altered, said, again) in enumerate(
            [
                ("CONNECTION LIMIT 0", "too many connections", True),
                ("NOLOGIN", "not permitted to log in", False),
            ]
        ):
            db.script(f"ALTER ROLE role_{schema} {altered}")
            with pytest.raises(NoConnectionError, match=said) as caught:
                connection(replace(hasty, query=f"q{number}"))
            assert caught.value.again is again
        close_kept()


@pytest.mark.parametrize("again", [True, False])
def test_what_a_task_tells_comes_back_as_it_was(again: bool) -> None:
    """Whether a connection may come later travels with the error."""
    told = NoConnectionError.from_error(SettingsError("p", cause="c", fix="f"), again=again)  # type: ignore[arg-type]  # any of ours
    back = pickle.loads(pickle.dumps(TaskResult(task=1, attempt=2, failure=told))).failure  # noqa: S301  # ours
    assert isinstance(back, NoConnectionError)
    assert (back.again, back.problem, back.cause, back.fix) == (again, "p", "c", "f")
