"""Which table rows go to, and how."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.sqlite.database import TP, ask, script, write

pytestmark = pytest.mark.spark


def test_columns_go_by_name(spark: SparkSession, path: Path) -> None:
    """A table that exists has its own order, more columns, and generated ones."""
    script(path, "CREATE TABLE t (z DEFAULT 7, b, twice AS (b * 2), a)")
    write(SqliteSink(path, "t"), spark.sql("SELECT 1 AS a, 2 AS b"))
    assert ask(path, "SELECT z, b, twice, a FROM t") == [(7, 2, 4, 1)]


def test_the_origin_is_kept_where_there_is_room(spark: SparkSession, path: Path) -> None:
    """Topic, partition and offset are dropped where the table has no such columns."""
    script(path, "CREATE TABLE t (v, offset)")
    frame = spark.sql("SELECT 'flights' AS topic, 0 AS partition, 5L AS offset, 'x' AS v")
    write(SqliteSink(path, "t"), frame)
    assert ask(path, "SELECT v, offset FROM t") == [("x", 5)]
    write(SqliteSink(path, "made"), frame)
    assert ask(path, "SELECT * FROM made") == [("flights", 0, 5, "x")]


def test_a_column_too_many_is_refused(spark: SparkSession, path: Path) -> None:
    """A column that the table lacks is named, and nothing is written."""
    script(path, "CREATE TABLE t (a)")
    sink = SqliteSink(path, "t")
    with pytest.raises(SettingsError, match=r"no column 'b'; it has 'a'"):
        write(sink, spark.sql("SELECT 1 AS a, 2 AS b"))
    assert sink.applied(QUERY) == {}
    with pytest.raises(SettingsError, match="cannot distinguish"):
        write(SqliteSink(path, "u"), spark.sql("SELECT 1 AS a, 2 AS A"))


def test_nothing_is_made_where_that_is_forbidden(spark: SparkSession, path: Path) -> None:
    """With create=False file, ledger and table must be there; what is missing is told as SQL."""
    sink = SqliteSink(path, "t", create=False)
    with pytest.raises(SettingsError, match="does not exist"):
        sink.applied(QUERY)
    script(path, "CREATE TABLE other (x)")
    with pytest.raises(SettingsError, match="CREATE TABLE") as caught:
        sink.applied(QUERY)
    script(path, str(caught.value.fix).removeprefix("Create it: "))
    frame = spark.sql("SELECT 1 AS a")
    with pytest.raises(SettingsError, match="no table 't'") as caught:
        write(sink, frame)
    script(path, str(caught.value.fix).removeprefix("Create it: "))
    write(sink, frame)
    assert ask(path, "SELECT a FROM t") == [1]


@pytest.mark.parametrize(
    ("declaration", "sql"),
    [
        ("STRING", "'00123'"),  # what SQLite knows nothing of is a number
        ("INTEGER", "'1'"),
        ("REAL", "'1e3'"),
        ("DECIMAL(38,18)", "cast('12345678901234567890.1' as decimal(38,18))"),
        ("REAL", "9007199254740993L"),
        ("TEXT", "0.1D + 0.2D"),
    ],
)
def test_a_column_that_changes_values_is_refused(
    spark: SparkSession, path: Path, declaration: str, sql: str
) -> None:
    """A table that exists may turn texts into numbers, and large numbers into floats."""
    script(path, f"CREATE TABLE t (v {declaration})")
    sink = SqliteSink(path, "t")
    with pytest.raises(SettingsError, match="'v' of table 't' is declared") as caught:
        write(sink, spark.sql(f"SELECT {sql} AS v"))
    assert caught.value.fix
    assert sink.applied(QUERY) == {}


def test_a_column_that_keeps_values_is_not(spark: SparkSession, path: Path) -> None:
    """Dates in a DATE, JSON in a JSON, a text in a VARCHAR or in nothing, an int in a REAL."""
    script(path, "CREATE TABLE t (d DATE, m DATETIME, j JSON, s VARCHAR(3), n, i REAL, b BIGINT)")
    frame = spark.sql(
        "SELECT date'2026-01-02' AS d, timestamp_ntz'2026-01-02 03:04:05' AS m, array(1) AS j, "
        "'0012' AS s, '0012' AS n, 7 AS i, 9007199254740993L AS b"
    )
    write(SqliteSink(path, "t"), frame)
    assert ask(path, "SELECT * FROM t") == [
        ("2026-01-02", "2026-01-02 03:04:05.000000", "[1]", "0012", "0012", 7, 9007199254740993)
    ]


def test_a_strict_table_takes_anything_in_any(spark: SparkSession, path: Path) -> None:
    """There ANY keeps a text as it is; in another table it is a number."""
    if sqlite3.sqlite_version_info < (3, 37):
        pytest.skip("this SQLite has no STRICT tables")
    script(path, "CREATE TABLE t (v ANY) STRICT; CREATE TABLE u (v ANY)")
    write(SqliteSink(path, "t"), spark.sql("SELECT '0012' AS v"))
    assert ask(path, "SELECT v FROM t") == ["0012"]
    with pytest.raises(SettingsError, match="is declared ANY"):
        write(SqliteSink(path, "u"), spark.sql("SELECT '0012' AS v"))


def test_a_row_that_a_constraint_drops_is_not_counted(spark: SparkSession, path: Path) -> None:
    """ON CONFLICT IGNORE is the table's own wish, but such a row is not written."""
    script(path, "CREATE TABLE t (v UNIQUE ON CONFLICT IGNORE CHECK (v < 9))")
    sink = SqliteSink(path, "t", dead_letters="dead")
    applied = write(sink, spark.sql("SELECT explode(array(1, 1, 9, 2, 2)) AS v"))
    assert (applied.rows, applied.dead_letters) == (2, 1)


def test_names_that_differ_in_case_are_one_sink(spark: SparkSession, path: Path) -> None:
    """SQLite takes "Delays" and "delays" for one table, so they have one ledger."""
    write(SqliteSink(path, "Delays"), spark.sql("SELECT 1 AS v"))
    assert SqliteSink(path, "dELAYS").applied(QUERY)[TP].range.until == 10
    assert SqliteSink(path, "\u00c4").key != SqliteSink(path, "\u00e4").key


def test_an_upsert_keeps_the_newest_row_of_a_key(spark: SparkSession, path: Path) -> None:
    """Within a batch and across batches, also when the batch is cut; other rows stay."""
    sink = SqliteSink(path, "t", mode="upsert", keys=["k", "l"], task_rows=100)
    frame = spark.range(0, 1000, 1, 1).selectExpr(
        *("id % 7 AS k", "'x' AS l", "id AS v", "'flights' AS topic", "0 AS partition"),
        "id AS offset",
    )
    assert write(sink, frame, count=1000).rows == 7
    assert ask(path, "SELECT v FROM t ORDER BY v") == list(range(993, 1000))
    write(sink, spark.sql("SELECT 2L AS k, 'x' AS l, 5L AS v"), batch_id=1)
    assert ask(path, "SELECT v FROM t ORDER BY v") == [5, *range(993, 996), *range(997, 1000)]


def test_a_key_that_is_null_is_poison(spark: SparkSession, path: Path) -> None:
    """Two nulls are not one key, so such a row could never be replaced."""
    script(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v)")
    sink = SqliteSink(path, "t", mode="upsert", keys="k")
    with pytest.raises(PoisonRowError, match="'k' is null"):
        write(sink, spark.sql("SELECT cast(null AS int) AS k, 1 AS v"))


def test_keys_alone_are_enough(spark: SparkSession, path: Path) -> None:
    """A table of keys and nothing else takes each once."""
    sink = SqliteSink(path, "t", mode="upsert", keys=("k",))
    for _ in range(2):
        write(sink, spark.sql("SELECT explode(array(1, 2)) AS k"))
    assert ask(path, "SELECT k FROM t ORDER BY k") == [1, 2]


def test_keys_must_be_unique_in_the_table(spark: SparkSession, path: Path) -> None:
    """Without a unique index SQLite cannot tell what to replace: the index to make is shown."""
    script(path, "CREATE TABLE t (k, v)")
    sink = SqliteSink(path, "t", mode="upsert", keys=("k",))
    frame = spark.sql("SELECT 1 AS k, 2 AS v")
    with pytest.raises(SettingsError, match="no unique index") as caught:
        write(sink, frame)
    script(path, str(caught.value.fix))
    write(sink, frame)
    with pytest.raises(SettingsError, match="'nosuch'"):
        write(SqliteSink(path, "t", mode="upsert", keys="nosuch"), frame)


def test_history_says_what_was_applied(spark: SparkSession, path: Path) -> None:
    """Each range has its row, with batch, verdict and how many rows the batch had."""
    sink = SqliteSink(path, "t")
    write(sink, spark.range(3).toDF("v"), count=10)
    write(sink, spark.range(4).toDF("v"), count=5, batch_id=1)
    found = ask(
        path,
        'SELECT topic, "partition", start_offset, next_offset, batch_id, "rows", verdict '
        "FROM eo_ledger_history ORDER BY applied_at",
    )
    assert found == [(*TP, 0, 10, 0, 3, "first"), (*TP, 10, 15, 1, 4, "next")]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"mode": "replace"}, "got 'replace'"),
        ({"mode": "upsert"}, "keys="),
        ({"keys": "k"}, "keys="),
        ({"mode": "upsert", "keys": "k", "apply": "SELECT 1"}, "apply="),
        ({"atomicity": "partition"}, "one writer"),
        ({"table": ""}, "''"),
        ({"table": "a\x00b"}, "cannot be the name"),
        ({"table": "EO_Ledger"}, "ledger"),
        ({"dead_letters": "t"}, "dead_letters"),
        ({"path": ":memory:"}, "memory"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    """Each is refused when the sink is made, by what is wrong with it."""
    with pytest.raises(SettingsError, match=text):
        SqliteSink(**{"path": "x.db", "table": "t", **given})


def test_a_dropped_table_is_not_recreated(spark: SparkSession, path: Path) -> None:
    """The ledger has rows of it: recreated it would begin in the middle."""
    sink = SqliteSink(path, "t's", mode="append")
    frame = spark.range(2).toDF("v")
    write(sink, frame.limit(0), count=0)
    script(path, 'DROP TABLE "t\'s"')  # nothing was ever in it
    write(sink, frame)
    script(path, 'ALTER TABLE "t\'s" RENAME TO kept')
    with pytest.raises(SettingsError, match="flights-0 was written up to 10") as raised:
        write(sink, frame, batch_id=1)
    assert ask(path, "SELECT name FROM sqlite_schema WHERE name LIKE 't%'") == []
    assert ask(path, "SELECT next_offset FROM eo_ledger") == [10]
    script(path, str(raised.value.fix).partition("empty one: ")[2].rpartition(", and")[0])
    write(sink, frame)
    assert ask(path, 'SELECT count(*) FROM "t\'s"') == [2]
