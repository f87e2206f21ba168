"""Which row of a key an upsert keeps, without Spark."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.sqlite.database import TP, ask, put, script
from tests.sinks.upsert_model import REFUSED, Model, Row, batches, compare, record_batch

TABLE = f"CREATE TABLE t (k INTEGER PRIMARY KEY, version INTEGER, v INTEGER CHECK (v < {REFUSED})"
PLACES = ', topic TEXT, "partition" INTEGER, "offset" INTEGER'


def rows(*told: tuple[Any, ...], names: tuple[str, ...] = ("k", "v")) -> pa.RecordBatch:
    """Rows with the columns of `names`; the last value of each is its offset."""
    full = {name: [row[at] for row in told] for at, name in enumerate(names)}
    origin = {
        "topic": [TP.topic] * len(told),
        "partition": pa.array([TP.partition] * len(told), pa.int32()),
        "offset": [row[-1] for row in told],
    }
    return pa.record_batch({**full, **origin})


@settings(max_examples=300, deadline=None)
@given(drawn=batches(), versioned=st.booleans(), located=st.booleans())
def test_the_newest_row_of_a_key_stays(
    drawn: list[list[Row]], versioned: bool, located: bool
) -> None:
    """The table is what the model says after each batch, or none is the newest and it stays."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.db"
        script(path, f"{TABLE}{PLACES if located else ''})")
        sink = SqliteSink(
            path,
            "t",
            mode="upsert",
            keys="k",
            version_column="version" if versioned else None,
            dead_letters="dead",
        )
        try:
            compare(
                Model(versioned=versioned, located=located),
                drawn,
                lambda batch: put(sink, record_batch(batch)),
                lambda: ask(path, "SELECT k, version, v FROM t ORDER BY k"),
            )
        finally:
            sink.close()


def test_offsets_decide_and_not_the_order_of_arrival(path: Path) -> None:
    """After a shuffle an older row may come last: it stays the older one."""
    sink = SqliteSink(path, "t", mode="upsert", keys="k")
    assert put(sink, rows((1, "new", 7), (2, "x", 3), (1, "old", 2))).rows == 2
    assert ask(path, "SELECT k, v FROM t ORDER BY k") == [(1, "new"), (2, "x")]


@pytest.mark.parametrize("offsets", [(9, 10), (99, 100)])
def test_an_offset_is_a_number_whatever_the_table_has(path: Path, offsets: tuple[int, int]) -> None:
    """In a column of texts 9 is after 10: the order is that of Kafka's offsets all the same."""
    script(path, 'CREATE TABLE t (k UNIQUE, v, "offset" TEXT, "partition" TEXT)')
    sink = SqliteSink(path, "t", mode="upsert", keys="k")
    put(sink, rows(*((1, offset, offset) for offset in offsets)))
    assert ask(path, 'SELECT v, "offset" FROM t') == [(offsets[1], str(offsets[1]))]


def test_rows_of_one_offset_are_refused(path: Path) -> None:
    """Two rows that a transform made of one record have no order; the record is named."""
    sink = SqliteSink(path, "t", mode="upsert", keys="k")
    with pytest.raises(SettingsError, match=r"same k .*offset 3 of flights-0.*version_column"):
        put(sink, rows((1, 1, 3), (1, 2, 3), (2, 1, 4)))
    assert sink.applied(QUERY) == {}
    assert ask(path, "SELECT name FROM sqlite_schema WHERE name = 't'") == []


def test_a_record_that_was_produced_twice_is_no_tie(path: Path) -> None:
    """Rows that are equal but for where they came from need no order: in one batch, and beside the
    table's, which stays. One that differs is tied, and the error says what helps.
    """
    sink = SqliteSink(path, "t", mode="upsert", keys="k", version_column="version")

    def same(*places: tuple[int, int], v: str = "a") -> pa.RecordBatch:
        partitions, offsets = zip(*places, strict=True)
        told: dict[str, list[Any]] = {
            "k": [1],
            "version": [7],
            "v": [v],
            "note": [None],
            "topic": [TP.topic],
        }
        return pa.record_batch(
            {name: value * len(places) for name, value in told.items()}
            | {"partition": pa.array(partitions, pa.int32()), "offset": list(offsets)}
        )

    assert put(sink, same((0, 5), (3, 0))).rows == 1
    assert put(sink, same((4, 0))).rows == 0
    assert put(sink, same((0, 9))).rows == 1
    assert ask(path, 'SELECT "partition", "offset" FROM t') == [(0, 9)]
    with pytest.raises(SettingsError, match=r"one in the table .*offset 1 of flights-4.*delete"):
        put(sink, same((4, 1), v="A"))
    script(path, "DELETE FROM t")
    assert put(sink, same((4, 1), v="A")).rows == 1
    script(path, 'ALTER TABLE t DROP COLUMN "offset"')
    assert put(sink, same((0, 1))).rows == 1
    assert ask(path, "SELECT v FROM t") == ["a"]


def test_rows_without_offsets_are_refused_where_a_key_comes_twice(path: Path) -> None:
    """Nothing tells which is the newest, unless a version does."""
    told = pa.record_batch({"k": [1, 1], "version": [5, 4], "v": ["new", "old"]})
    with pytest.raises(SettingsError, match=r"same k.*offset"):
        put(SqliteSink(path, "t", mode="upsert", keys="k"), told)
    sink = SqliteSink(path, "t", mode="upsert", keys="k", version_column="version")
    put(sink, told)
    assert ask(path, "SELECT v FROM t") == ["new"]


def test_a_key_is_what_the_index_says(path: Path) -> None:
    """Where the index takes 'a' and 'A' for one key, they are one key within a batch too."""
    script(path, "CREATE TABLE t (k TEXT COLLATE NOCASE UNIQUE, v)")
    sink = SqliteSink(path, "t", mode="upsert", keys="k")
    assert put(sink, rows(("a", "new", 5), ("A", "old", 4))).rows == 1
    assert ask(path, "SELECT k, v FROM t") == [("a", "new")]


def test_where_the_newest_row_is_refused_the_next_stands(path: Path) -> None:
    """An older row of the same key is written when those after it cannot be; the dead letters are
    whole.
    """
    script(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER CHECK (v < 100), b BLOB, o)")
    sink = SqliteSink(path, "t", mode="upsert", keys="k", dead_letters="dead")
    told: list[Any] = [
        (1, 5, b"\xff", True, 1),
        (1, 500, b"\xff", True, 2),
        (1, 600, None, False, 3),
    ]
    told += [(2, 8, None, None, 5), (3, 300, None, None, 6)]
    done = put(sink, rows(*told, names=("k", "v", "b", "o")))
    assert (done.rows, done.dead_letters) == (2, 3)
    assert ask(path, "SELECT k, v FROM t ORDER BY k") == [(1, 5), (2, 8)]
    whole = '{"topic": "flights", "partition": 0, "offset": 2, "k": 1, "v": 500, "b": "/w==", "o": '
    letters = ask(path, 'SELECT "offset", "row" FROM dead ORDER BY 1')
    assert letters[0] == (2, f"{whole}true}}")


def test_a_row_without_a_version_is_poison(path: Path) -> None:
    """Nothing says whether it is newer than another."""
    sink = SqliteSink(path, "t", mode="upsert", keys="k", version_column="v")
    with pytest.raises(PoisonRowError, match="version column 'v' is null"):
        put(sink, rows((1, 1, 0), (2, None, 1)))


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [("5", "TEXT", "string"), (0.5, "REAL", "double"), (5, "TEXT", "declared TEXT")],
)
def test_a_version_without_one_order_is_refused(
    path: Path, value: Any, column: str, said: str
) -> None:
    """As texts 9 is after 10, and NaN is anywhere: such a column decides nothing."""
    script(path, f"CREATE TABLE t (k UNIQUE, v {column})")
    sink = SqliteSink(path, "t", mode="upsert", keys="k", version_column="v")
    with pytest.raises(SettingsError, match=f"version_column='v' is .*{said}"):
        put(sink, rows((1, value, 0)))


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_batch_of_refused_rows_fails(path: Path, mode: Any) -> None:
    """Over the limit nothing is written, no dead letter either; the error says why."""
    script(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER CHECK (v < 100), w NOT NULL)")
    keys = "k" if mode == "upsert" else ()
    good = [(at, 7, 1, at) for at in range(20)]
    bad = [(20, 500, 1, 20), *((at, 7, None, at) for at in range(21, 35))]
    for most, told, fits in (
        (0.5, [*good, *bad], True),
        (0.4, [*good, *bad], False),
        (15, [*good, *bad], True),
        (14, [*good, *bad], False),
        (1.0, bad, False),
        (1000, bad, False),
        (1.0, bad[:9], True),
    ):
        script(path, "DELETE FROM t; DROP TABLE IF EXISTS dead")
        sink = SqliteSink(
            path, "t", mode=mode, keys=keys, dead_letters="dead", max_dead_letters=most
        )
        before = sink.applied(QUERY)
        batch = rows(*told, names=("k", "v", "w"))
        if fits:
            assert put(sink, batch).dead_letters == len([row for row in told if row in bad])
        else:
            with pytest.raises(PoisonRowError, match=r"CHECK|NOT NULL|every row") as failed:
                put(sink, batch)
            assert (failed.value.partition, failed.value.offset) == (TP, 20)
            assert ask(path, "SELECT * FROM t") == []
            assert sink.applied(QUERY) == before
        sink.close()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_text_of_a_trigger_is_in_no_error(path: Path, mode: Any) -> None:
    """It may hold a value: it is in the table of dead letters alone."""
    script(
        path,
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v); CREATE TRIGGER no BEFORE INSERT ON t "
        "WHEN NEW.v = 'secret' BEGIN SELECT RAISE(ABORT, 'not a secret'); END",
    )
    keys = "k" if mode == "upsert" else ()
    told = rows((1, "x", 0), (2, "secret", 1), (3, "y", 2))
    with pytest.raises(PoisonRowError, match=r"offset 1 .*a trigger") as refused:
        put(SqliteSink(path, "t", mode=mode, keys=keys), told)
    assert "secret" not in "".join(traceback.format_exception(refused.value))
    sink = SqliteSink(path, "t", mode=mode, keys=keys, dead_letters="dead")
    assert put(sink, told).dead_letters == 1
    assert ask(path, "SELECT reason FROM dead") == ["not a secret"]
