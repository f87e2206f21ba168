"""Chunks of rows that are sent before it is known the outcome of the last one: without Spark."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from eo_listener.model.errors import PoisonRowError, SinkError
from eo_listener.sinks.postgres import PostgresSink, copy
from eo_listener.sinks.postgres.catalog import columns
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.copy import RefusedLateError
from eo_listener.sinks.postgres.dead_letters import make
from eo_listener.sinks.postgres.executor_tasks import TaskAttempt
from eo_listener.sinks.postgres.per_partition import PartitionTask
from eo_listener.sinks.postgres.staging import StageTask, Staging
from eo_listener.sinks.postgres.transaction import Rows
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.postgres.course import TP, ask, at, next_entry, prepared, put, script

TABLE = "CREATE TABLE t (n int CHECK (n <> 13), v text)"
SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "v": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
)
FIELDS = dict(zip(SCHEMA.names, ("integer", "string", "string", "integer", "long"), strict=True))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A COPY of its own for each record batch."""
    monkeypatch.setattr(copy, "CHUNK_ROWS", 1)


def batch(numbers: Iterable[int], text: str = "v") -> pa.RecordBatch:
    """Rows whose offset is their number."""
    rows = [{"n": n, "v": text, "topic": TP[0], "partition": TP[1], "offset": n} for n in numbers]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def test_refused_rows_of_several_chunks_become_dead_letters(dsn: str) -> None:
    """Each refused row is a dead letter, whichever chunk it is in, and every other is written."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t", dead_letters="dead")
    numbers = [range(20), [13], range(20, 40), [13, 41, 13], range(10, 14), []]
    done = put(sink, FIELDS, (batch(some) for some in numbers))
    assert (done.rows, done.dead_letters) == (19 + 20 + 1 + 3, 5)
    assert ask(dsn, "SELECT count(*) FROM t") == [43]
    assert ask(dsn, 'SELECT "offset" FROM dead') == [13] * 5
    sink.close()


def test_the_last_chunk_is_answered_for_too(dsn: str) -> None:
    """A row that is refused in the very last chunk fails the batch, and nothing is written."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t")
    with pytest.raises(PoisonRowError, match="offset 13"):
        put(sink, FIELDS, (batch(some) for some in (range(3), [13])))
    assert ask(dsn, "SELECT count(*) FROM t") == [0]
    assert put(sink, FIELDS, (batch(some) for some in (range(3), range(3)))).rows == 6
    sink.close()


def test_an_error_while_a_chunk_is_unanswered(dsn: str) -> None:
    """When the rows end in an error nothing is written, no transaction stays, the next works."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t")

    def torn() -> Generator[pa.RecordBatch, None, None]:
        yield batch(range(100, 150))
        yield batch(range(150, 190))
        raise RuntimeError("a task has failed")

    with pytest.raises(RuntimeError, match="a task has failed"):
        put(sink, FIELDS, torn())
    open_ = (
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' OR wait_event = 'CopyIn'"
    )
    assert ask(dsn, open_) == [0]
    assert ask(dsn, "SELECT count(*) FROM t") == [0]
    assert put(sink, FIELDS, (one for one in [batch(range(100, 150))])).rows == 50
    sink.close()


def test_a_chunk_of_many_slices(dsn: str) -> None:
    """Lines of more bytes than libpq and the socket take at once arrive whole."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t")
    wide = "x" * 1_000_000
    assert put(sink, FIELDS, (batch(range(n * 20, n * 20 + 12), wide) for n in (1, 2))).rows == 24
    assert ask(dsn, "SELECT count(*), sum(length(v)) FROM t") == [(24, 24_000_000)]
    sink.close()


def test_a_connection_that_ends_between_chunks(dsn: str) -> None:
    """A backend that is ended while a chunk is unanswered is a typed error; nothing is there."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t")

    def ended() -> Generator[pa.RecordBatch, None, None]:
        yield batch(range(100, 150))
        yield batch(range(150, 190))
        assert sink._kept.link is not None
        script(dsn, f"SELECT pg_terminate_backend({sink._kept.link.backend}, 10000)")
        yield batch(range(190, 195))

    with pytest.raises(SinkError, match="the connection was lost"):
        put(sink, FIELDS, ended())
    assert ask(dsn, "SELECT count(*) FROM t") == [0]
    assert put(sink, FIELDS, (one for one in [batch(range(100, 150))])).rows == 50
    sink.close()


def test_a_copy_that_cannot_begin(dsn: str) -> None:
    """A COPY that is refused before any line raises the server's error, and the link goes on."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t")
    link = sink._kept.connection(sink._writer(QUERY))
    with pytest.raises(psycopg.errors.UndefinedTable):
        copy.send(link, b"COPY nowhere FROM STDIN", [memoryview(b"1\n")])
    assert link.execute("SELECT 1").fetchone() == (1,)
    sink.close()


@pytest.mark.parametrize("code", ["P0001", "23514", "22000"])
def test_what_a_trigger_says_is_in_no_error(dsn: str, code: str) -> None:
    """A trigger may say a value under any SQLSTATE: the error names the SQLSTATE alone."""
    script(
        dsn,
        TABLE,
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE 'no such flight: %', NEW.v USING ERRCODE = '{code}'; END $$",
        "CREATE TRIGGER looks BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION look()",
    )
    value = "s" + "3cret"  # the lines of this file are in the traceback
    sink = PostgresSink(dsn, "t")
    with pytest.raises((PoisonRowError, SinkError), match=code) as failed:
        put(sink, FIELDS, (batch(some, value) for some in [[1]]))
    assert value not in "".join(traceback.format_exception(failed.value))
    sink.close()


OVERFLOWED = (
    "SELECT bool_or(x.subxact_overflowed), max(x.subxact_count) "
    "FROM pg_stat_get_backend_idset() AS one, pg_stat_get_backend_subxact(one) AS x"
)


def test_many_chunks_do_not_overflow_the_cache_of_subtransactions(dsn: str) -> None:
    """The 64 subtransactions that the server remembers are enough, however many chunks there are:
    more would slow down whoever takes a snapshot.
    """
    script(dsn, TABLE)
    seen = []
    sink = PostgresSink(dsn, "t")
    with at({"sink.rows-written": lambda: seen.extend(ask(dsn, OVERFLOWED))}):
        assert put(sink, FIELDS, (batch([n]) for n in range(100, 200))).rows == 100
    assert seen == [(False, 60)]
    sink.close()


def test_a_row_that_is_refused_behind_all_savepoints(dsn: str) -> None:
    """The batch begins again, with a savepoint for each chunk, and the row is a dead letter."""
    script(dsn, TABLE)
    sink = PostgresSink(dsn, "t", dead_letters="dead")
    numbers = [*range(100, 180), 13, *range(180, 190)]
    with pytest.raises(RefusedLateError, match="behind 60 COPYs"):
        put(sink, FIELDS, (batch([n]) for n in numbers))
    assert ask(dsn, "SELECT count(*) FROM t") == [0]

    fetched = []

    def fetch() -> Generator[pa.RecordBatch, None, None]:
        fetched.append(0)
        for n in numbers:
            fetched[-1] += 1
            yield batch([n])

    writer, link, layout = prepared(sink, FIELDS)
    frame: Any = None  # of Spark, which brings the rows
    done = writer.write(link, Rows(frame=frame, layout=layout, fetch=fetch), next_entry(sink))
    assert (done.rows, done.dead_letters) == (90, 1)
    assert len(fetched) == 2
    assert fetched[1] == len(numbers)
    assert ask(dsn, 'SELECT "offset" FROM dead') == [13]
    sink.close()


def test_a_task_that_stages_many_chunks_commits_between(dsn: str) -> None:
    """What counts is which attempt wrote a row, so a task needs no more than 60 subtransactions in
    one transaction, and all its rows are there.
    """
    script(dsn, TABLE)
    seen = []

    def some() -> Generator[pa.RecordBatch, None, None]:
        for n in range(100, 230):
            yield batch([n])
        seen.extend(ask(dsn, OVERFLOWED))

    with contextlib.closing(PostgresSink(dsn, "t")) as sink:
        entry = next_entry(sink)
        writer = sink._writer(QUERY)
        link = sink._kept.connection(writer)
        kinds = {"fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()]}
        there = columns(link, writer.access.schema, "t")
        layout = ColumnLayout.of(kinds, there, sink._target, direct=False)
        staging = Staging(writer=writer, logged=False, at_most=None)
        staging._prepare(link, layout, entry, "staged", None)
        task = StageTask(
            writer=writer, layout=layout, stage="staged", entry=replace(entry, moves={})
        )
        attempt = TaskAttempt(task=0, number=7, is_first=True, is_last=True)
        assert task(attempt, some()) == (130, 0)
        assert ask(dsn, "SELECT count(*), count(DISTINCT n), max(eo_attempt) FROM staged") == [
            (130, 130, 7)
        ]
    ((overflowed, most),) = seen
    assert not overflowed
    assert most <= 60


def test_a_task_begins_again_with_a_savepoint_for_each_chunk(dsn: str) -> None:
    """An attempt that is the first, and not the last, may be repeated for a row refused late."""
    script(dsn, TABLE)
    numbers = [*range(100, 180), 13]
    with contextlib.closing(PostgresSink(dsn, "t", dead_letters="dead")) as sink:
        entry = next_entry(sink)
        writer = sink._writer(QUERY)
        link = sink._kept.connection(writer)
        make(link, writer.access.schema, "dead", create=True)
        kinds = {"fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()]}
        there = columns(link, writer.access.schema, "t")
        layout = ColumnLayout.of(kinds, there, sink._target, direct=True)
        task = PartitionTask(writer=writer, layout=layout, entries={0: entry})
        first = TaskAttempt(task=0, number=7, is_first=True, is_last=False)
        with pytest.raises(RefusedLateError):
            task(first, (batch([n]) for n in numbers))
        for again in (replace(first, is_first=False), replace(first, is_last=True)):
            script(dsn, "DELETE FROM eo_ledger", "DELETE FROM dead")
            assert task(again, (batch([n]) for n in numbers)) == (80, 1)
