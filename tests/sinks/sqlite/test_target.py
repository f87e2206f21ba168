"""Which table rows go to, and how: without Spark."""

from __future__ import annotations

import sqlite3
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.other_writers import DroppedTables
from tests.sinks.sqlite.database import TP, ask, numbers, script, write
from tests.sinks.sqlite.store import store

__all__ = ["store"]

rows = ArrowFrame.rows


def test_columns_go_by_name(path: Path) -> None:
    """A table that exists has its own order, more columns, and generated ones."""
    script(path, "CREATE TABLE t (z DEFAULT 7, b, twice AS (b * 2), a)")
    write(SqliteSink(path, "t"), rows("a int, b int", (1, 2)))
    assert ask(path, "SELECT z, b, twice, a FROM t") == [(7, 2, 4, 1)]


def test_the_origin_is_kept_where_there_is_room(path: Path) -> None:
    """Topic, partition and offset are dropped where the table has no such columns."""
    script(path, "CREATE TABLE t (v, offset)")
    columns = "topic string, partition int, offset bigint, v string"
    frame = rows(columns, ("flights", 0, 5, "x"))
    write(SqliteSink(path, "t"), frame)
    assert ask(path, "SELECT v, offset FROM t") == [("x", 5)]
    write(SqliteSink(path, "made"), frame)
    assert ask(path, "SELECT * FROM made") == [("flights", 0, 5, "x")]


def test_a_column_too_many_is_refused(path: Path) -> None:
    """A column that the table lacks is named, and nothing is written."""
    script(path, "CREATE TABLE t (a)")
    sink = SqliteSink(path, "t")
    with pytest.raises(SettingsError, match=r"no column 'b'; it has 'a'"):
        write(sink, rows("a int, b int", (1, 2)))
    assert sink.applied(QUERY) == {}


def test_nothing_is_made_where_that_is_forbidden(path: Path) -> None:
    """With create=False file, ledger and table must be there; what is missing is told as SQL."""
    sink = SqliteSink(path, "t", create=False)
    with pytest.raises(SettingsError, match="does not exist"):
        sink.applied(QUERY)
    script(path, "CREATE TABLE other (x)")
    with pytest.raises(SettingsError, match="CREATE TABLE") as caught:
        sink.applied(QUERY)
    script(path, str(caught.value.fix).removeprefix("Create it: "))
    frame = rows("a int", (1,))
    with pytest.raises(SettingsError, match="table 't' does not exist") as caught:
        write(sink, frame)
    script(path, str(caught.value.fix).removeprefix("Create it: "))
    write(sink, frame)
    assert ask(path, "SELECT a FROM t") == [1]


@pytest.mark.parametrize(
    ("declaration", "kind", "value"),
    [
        ("STRING", "string", "00123"),  # what SQLite knows nothing of is a number
        ("INTEGER", "string", "1"),
        ("REAL", "string", "1e3"),
        ("DECIMAL(38,18)", "decimal(38,18)", Decimal("12345678901234567890.1")),
        ("REAL", "bigint", 9007199254740993),
        ("TEXT", "double", 0.1 + 0.2),
    ],
)
def test_a_column_that_changes_values_is_refused(
    path: Path, declaration: str, kind: str, value: object
) -> None:
    """A table that exists may turn texts into numbers, and large numbers into floats."""
    script(path, f"CREATE TABLE t (v {declaration})")
    sink = SqliteSink(path, "t")
    with pytest.raises(SettingsError, match="'v' of table 't' is declared") as caught:
        write(sink, rows(f"v {kind}", (value,)))
    assert caught.value.fix
    assert sink.applied(QUERY) == {}


def test_a_column_that_keeps_values_is_not(path: Path) -> None:
    """Dates in a DATE, a text in a VARCHAR or in nothing, an int in a REAL."""
    script(path, "CREATE TABLE t (d DATE, m DATETIME, s VARCHAR(3), n, i REAL, b BIGINT)")
    columns = "d date, m timestamp_ntz, s string, n string, i int, b bigint"
    moment = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001  # without a zone
    frame = rows(columns, (date(2026, 1, 2), moment, "0012", "0012", 7, 9007199254740993))
    write(SqliteSink(path, "t"), frame)
    assert ask(path, "SELECT * FROM t") == [
        ("2026-01-02", "2026-01-02 03:04:05.000000", "0012", "0012", 7, 9007199254740993)
    ]


def test_a_strict_table_takes_anything_in_any(path: Path) -> None:
    """There ANY keeps a text as it is; in another table it is a number."""
    if sqlite3.sqlite_version_info < (3, 37):
        pytest.skip("this SQLite has no STRICT tables")
    script(path, "CREATE TABLE t (v ANY) STRICT; CREATE TABLE u (v ANY)")
    write(SqliteSink(path, "t"), rows("v string", ("0012",)))
    assert ask(path, "SELECT v FROM t") == ["0012"]
    with pytest.raises(SettingsError, match="is declared ANY"):
        write(SqliteSink(path, "u"), rows("v string", ("0012",)))


def test_a_row_that_a_constraint_drops_is_not_counted(path: Path) -> None:
    """ON CONFLICT IGNORE is the table's own wish, but such a row is not written."""
    script(path, "CREATE TABLE t (v UNIQUE ON CONFLICT IGNORE CHECK (v < 9))")
    sink = SqliteSink(path, "t", dead_letters="dead")
    applied = write(sink, numbers(1, 1, 9, 2, 2))
    assert (applied.rows, applied.dead_letters) == (2, 1)


def test_names_that_differ_in_case_are_one_sink(path: Path) -> None:
    """SQLite takes "Delays" and "delays" for one table, so they have one ledger."""
    write(SqliteSink(path, "Delays"), numbers(1))
    assert SqliteSink(path, "dELAYS").applied(QUERY)[TP].range.until == 10
    assert SqliteSink(path, "\u00c4").key != SqliteSink(path, "\u00e4").key


def test_keys_alone_are_enough(path: Path) -> None:
    """A table of keys and nothing else takes each once; several columns are one key."""
    sink = SqliteSink(path, "t", mode="upsert", keys=("k", "l"))
    for _ in range(2):
        write(sink, rows("k int, l int", (1, 7), (1, 8), (2, 7)))
    assert ask(path, "SELECT k, l FROM t ORDER BY k, l") == [(1, 7), (1, 8), (2, 7)]


def test_keys_must_be_unique_in_the_table(path: Path) -> None:
    """Without a unique index SQLite cannot tell what to replace: the index to make is shown."""
    script(path, "CREATE TABLE t (k, v)")
    sink = SqliteSink(path, "t", mode="upsert", keys=("k",))
    frame = rows("k int, v int", (1, 2))
    with pytest.raises(SettingsError, match="no unique index") as caught:
        write(sink, frame)
    script(path, str(caught.value.fix))
    write(sink, frame)
    with pytest.raises(SettingsError, match="'nosuch'"):
        write(SqliteSink(path, "t", mode="upsert", keys="nosuch"), frame)


@pytest.mark.parametrize(
    ("given", "text"),
    [({"atomicity": "partition"}, "one writer"), ({"path": ":memory:"}, "memory")],
)
def test_arguments_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    """Each is refused when the sink is made, by what is wrong with it."""
    with pytest.raises(SettingsError, match=text):
        SqliteSink(**{"path": "x.db", "table": "t", **given})


class TestDroppedTables(DroppedTables):
    """In a file."""
