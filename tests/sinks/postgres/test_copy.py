"""Lines of COPY, and chunks that are sent before the last one is answered for: without Spark."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest

from eo_listener.errors import PoisonRowError, SinkError
from eo_listener.model.ledger import Applied
from eo_listener.sinks.postgres import PostgresSink, copy
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.copy import Lines, RefusedLateError
from eo_listener.sinks.postgres.executor_tasks import TaskAttempt
from eo_listener.sinks.postgres.executor_writers import PartitionTask, StageTask, Staging
from eo_listener.sinks.postgres.transaction import TransactionWriter
from eo_listener.sinks.postgres.types import ColumnFormat, Encoding
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.store import once
from tests.sinks.postgres.course import TP, Database, link_of, next_entry, write

KINDS = {"n": pa.int32(), "v": pa.string(), "topic": pa.string(), "partition": pa.int32()}
SCHEMA = pa.schema({**KINDS, "offset": pa.int64()})
FIELDS = dict(zip(SCHEMA.names, ("integer", "string", "string", "integer", "long"), strict=True))
COUNT = "SELECT count(*) FROM t"


@pytest.fixture
def db(db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """With the table t, and a COPY of its own for each record batch."""
    monkeypatch.setattr(copy, "CHUNK_ROWS", 1)
    db.script("CREATE TABLE t (n int CHECK (n <> 13), v text)")
    return db


def batch(numbers: Iterable[int], text: str = "v") -> pa.RecordBatch:
    """Rows whose offset is their number."""
    rows = [{"n": n, "v": text, "topic": TP[0], "partition": TP[1], "offset": n} for n in numbers]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def put(sink: PostgresSink, *chunks: Iterable[int]) -> Applied:
    return write(sink, ArrowFrame(FIELDS, lambda: map(batch, chunks)))


def test_refused_rows_of_several_chunks_become_dead_letters(db: Database) -> None:
    """Each refused row is a dead letter, whichever chunk it is in, and every other is written."""
    numbers = [range(20), [13], range(20, 40), [13, 41, 13], range(10, 14), []]
    done = put(db.sink(dead_letters="dead"), *numbers)
    assert (done.rows, done.dead_letters) == (19 + 20 + 1 + 3, 5)
    assert db.ask(COUNT) == [43]
    assert db.ask('SELECT "offset" FROM dead') == [13] * 5


def test_the_last_chunk_is_answered_for_too(db: Database) -> None:
    """A row that is refused in the very last chunk fails the batch, and nothing is written."""
    sink = db.sink()
    with pytest.raises(PoisonRowError) as refused:
        put(sink, range(3), [13])
    assert refused.value.offset == 13
    assert db.ask(COUNT) == [0]
    assert put(sink, range(3), range(3)).rows == 6


def test_a_chunk_of_many_slices(db: Database) -> None:
    """Lines of more bytes than libpq and the socket take at once arrive whole."""
    wide = "x" * 1_000_000
    chunks = [batch(range(n * 20, n * 20 + 12), wide) for n in (1, 2)]
    assert write(db.sink(), ArrowFrame(FIELDS, lambda: chunks)).rows == 24
    assert db.ask("SELECT count(*), sum(length(v)) FROM t") == [(24, 24_000_000)]


@pytest.mark.parametrize("is_lost", [False, True], ids=["a task fails", "the connection ends"])
def test_an_error_while_a_chunk_is_unanswered(db: Database, is_lost: bool) -> None:
    """Nothing is written, no transaction stays, and the next batch works."""
    sink = db.sink()

    def torn() -> Generator[pa.RecordBatch, None, None]:
        yield batch(range(100, 150))
        yield batch(range(150, 190))
        if not is_lost:
            raise RuntimeError("a task has failed")
        db.script(f"SELECT pg_terminate_backend({link_of(sink).backend}, 10000)")
        yield batch(range(190, 195))

    match = "the connection was lost" if is_lost else "a task has failed"
    with pytest.raises((SinkError, RuntimeError), match=match):
        write(sink, ArrowFrame(FIELDS, torn))
    in_copy = "state LIKE 'idle in%' OR wait_event = 'CopyIn'"
    assert db.ask(f"SELECT count(*) FROM pg_stat_activity WHERE {in_copy}") == [0]
    assert db.ask(COUNT) == [0]
    assert put(sink, range(100, 150)).rows == 50


def test_a_copy_that_cannot_begin(db: Database) -> None:
    """A COPY that is refused before any line raises the server's error, and the link goes on."""
    sink = db.sink()
    link = sink._kept.connection(sink._writer(QUERY))
    with pytest.raises(psycopg.errors.UndefinedTable):
        copy.send(link, b"COPY nowhere FROM STDIN", [memoryview(b"1\n")])
    assert link.execute("SELECT 1").fetchone() == (1,)


# The 64 subtransactions that the server remembers are enough, however many chunks there are: more
# would slow down whoever takes a snapshot.
OVERFLOWED = (
    "SELECT bool_or(x.subxact_overflowed), max(x.subxact_count) "
    "FROM pg_stat_get_backend_idset() AS one, pg_stat_get_backend_subxact(one) AS x"
)
LATE = [*range(100, 180), 13, *range(180, 190)]


def test_many_chunks_do_not_overflow_the_cache_of_subtransactions(db: Database) -> None:
    """No more than 60 have a savepoint."""
    seen: list[Any] = []
    with once("sink.rows-written", lambda: seen.extend(db.ask(OVERFLOWED))):
        assert put(db.sink(), *([n] for n in range(100, 200))).rows == 100
    assert seen == [(False, 60)]


def test_a_row_that_is_refused_behind_all_savepoints(db: Database) -> None:
    """The batch begins again, with a savepoint for each chunk, and the row is a dead letter."""
    fetched: list[int] = []

    def fetch() -> Generator[pa.RecordBatch, None, None]:
        fetched.append(0)
        for n in LATE:
            fetched[-1] += 1
            yield batch([n])

    done = write(db.sink(dead_letters="dead"), ArrowFrame(FIELDS, fetch))
    assert (done.rows, done.dead_letters) == (90, 1)
    assert fetched[1:] == [len(LATE)]
    assert db.ask('SELECT "offset" FROM dead') == [13]


def prepared(
    sink: PostgresSink, *, direct: bool
) -> tuple[TransactionWriter, Connection, ColumnLayout]:
    """What a task of the sink's next batch writes with."""
    sink.applied(QUERY)
    writer, frame = sink._writer(QUERY), cast(Any, ArrowFrame(FIELDS, list))
    link = sink._kept.connection(writer)
    return writer, link, sink._layout(link, frame, writer, direct=direct)


def test_a_task_that_stages_many_chunks_commits_between(db: Database) -> None:
    """What counts is which attempt wrote a row: 60 subtransactions in each are enough for all."""
    seen: list[Any] = []

    def some() -> Generator[pa.RecordBatch, None, None]:
        for n in range(100, 230):
            yield batch([n])
        seen.extend(db.ask(OVERFLOWED))

    sink = db.sink()
    writer, link, layout = prepared(sink, direct=False)
    entry = next_entry(sink)
    Staging(writer=writer, logged=False, at_most=None)._prepare(link, layout, entry, "staged", None)
    task = StageTask(writer=writer, layout=layout, stage="staged", entry=replace(entry, moves={}))
    attempt = TaskAttempt(task=0, number=7, is_first=True, is_last=True)
    assert task(attempt, some()) == (130, 0)
    staged = "SELECT count(*), count(DISTINCT n), max(eo_attempt) FROM staged"
    assert db.ask(staged) == [(130, 130, 7)]
    ((overflowed, most),) = seen
    assert (overflowed, most <= 60) == (False, True)


def test_a_task_begins_again_with_a_savepoint_for_each_chunk(db: Database) -> None:
    """An attempt that is the first, and not the last, may be repeated for a row refused late."""
    sink = db.sink(dead_letters="dead")
    writer, _, layout = prepared(sink, direct=True)
    task = PartitionTask(writer=writer, layout=layout, entries={0: next_entry(sink)})
    first = TaskAttempt(task=0, number=7, is_first=True, is_last=False)
    with pytest.raises(RefusedLateError, match="60 COPYs"):
        task(first, (batch([n]) for n in LATE))
    assert db.ask(COUNT) == [0]
    for again in (replace(first, is_first=False), replace(first, is_last=True)):
        db.script("DELETE FROM eo_ledger", "DELETE FROM dead")
        assert task(again, (batch([n]) for n in LATE)) == (90, 1)


# Lines, as Arrow spells them


def column_format(encoding: Encoding) -> ColumnFormat:
    return ColumnFormat(postgres="it", encoding=encoding)


def test_a_part_of_a_column_is_spelt_as_the_whole() -> None:
    """Arrow's slices begin anywhere in their buffers."""
    for values, encoding, text in (
        ([b"\x01", b"\x02\x03", None, b"\x04"], Encoding.HEX, b"\\\\x0203\n\\N\n\\\\x04\n"),
        (["\t", "\\", None, "a"], Encoding.TEXT, b"\\\\\n\\N\na\n"),
        ([1, 2, None, 4], Encoding.PLAIN, b"2\n\\N\n4\n"),
    ):
        rows = pa.record_batch({"c": pa.array(values)}).slice(1)
        assert bytes(Lines.from_batch(rows, [("c", column_format(encoding))]).text()) == text
