"""Rows that the transform marks or PostgreSQL refuses, and what users' own SQL may do."""

from __future__ import annotations

import json
import traceback
from random import Random
from typing import Any

import pytest
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from eo_listener.errors import PoisonRowError, SettingsError, SinkError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.user_sql import ending
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.dead_letters import RefusedRowsChapter
from tests.sinks.chapters.target_table import SparkRows
from tests.sinks.postgres.course import (
    KV,
    MODES,
    ORIGIN,
    STAGES,
    TP,
    WRITE_METHODS,
    Database,
    PostgresTarget,
    ask,
    put,
    trigger,
    write,
)


def told(error: BaseException) -> str:
    """All that a log would have of it."""
    return "".join(traceback.format_exception(error)) + repr(error.__context__)


def test_rows_without_a_key_are_no_duplicates(db: Database) -> None:
    """Rows whose key is null are all written where the table takes them."""
    db.script("CREATE TABLE t (k int UNIQUE, v int)")
    sink = db.sink(mode="upsert", keys="k")
    assert put(sink, KV, *((None, at, at) for at in range(5))).rows == 5
    assert db.ask("SELECT v FROM t ORDER BY v") == [0, 1, 2, 3, 4]


def test_columns_by_the_names_of_aliases(db: Database) -> None:
    """A column that is called as something in our statements is still a column."""
    names = ("s", "r", "eo_row", "eo_batch")
    columns = ", ".join(f"{name} int" for name in names)
    db.script(f"CREATE TABLE t (k int PRIMARY KEY, {columns}, CHECK (s + r + eo_row < 100))")
    sink = db.sink(mode="upsert", keys="k", dead_letters="dead")
    rows = [(1, 500, 1, 1, 1, 2), (2, 5, 6, 7, 8, 3)]
    assert put(sink, f"k int, {columns}", *rows).dead_letters == 1
    assert '"s": 500' in db.ask('SELECT "row" FROM dead')[0]
    assert db.ask(f"SELECT {', '.join(names)} FROM t") == [(5, 6, 7, 8)]


def test_columns_of_ours_are_refused(db: Database) -> None:
    """A column that staged rows have beside their own cannot be the user's."""
    with pytest.raises(SettingsError, match="'eo_attempt'"):
        put(db.sink(apply=["SELECT 1"]), "eo_attempt bigint", (1, 0))


@MODES
def test_a_value_too_large_for_its_index_is_a_dead_letter(
    db: Database, mode: dict[str, str]
) -> None:
    """A key that no page of an index holds is its row's fault: the others are written."""
    db.script("CREATE TABLE t (k text PRIMARY KEY, v int)")
    large = Random(7).randbytes(4000).hex()  # no secret, but nothing to compress
    sink = db.sink(dead_letters="dead", **mode)
    done = put(sink, "k string, v int", ("a", 1, 0), (large, 2, 1), ("b", 3, 2))
    assert (done.rows, done.dead_letters) == (2, 1)
    assert db.ask("SELECT k FROM t ORDER BY k") == ["a", "b"]
    assert db.ask("SELECT reason FROM dead")[0].startswith("index row size")


@MODES
def test_an_error_quotes_no_value(db: Database, mode: dict[str, str]) -> None:
    """What a refused row holds is in no error, nor in one that hangs on it: errors are logged."""
    db.script("CREATE TABLE t (k int PRIMARY KEY, v uuid)")
    value = "secret" * 3  # or a traceback would show the line that has it
    with pytest.raises(PoisonRowError, match=r"offset 1 .*uuid") as refused:
        put(db.sink(**mode), "k int, v string", (1, None, 0), (2, f"'{value}\"{value}", 1))
    assert value not in told(refused.value)


@pytest.mark.parametrize("is_function", [False, True])
def test_nor_does_one_of_the_users_own_sql(db: Database, is_function: bool) -> None:
    """An error of a statement or a function of the user brings no row along."""
    text, value = "SELECT v::uuid FROM eo_batch", "secret" * 3

    def function(link: Any, _: object) -> None:
        link.execute(text)

    with pytest.raises(SinkError, match="uuid") as refused:
        put(db.sink(apply=function if is_function else text), "k int, v string", (1, value, 0))
    assert value not in "".join(traceback.format_exception(refused.value))


@MODES
@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("RAISE EXCEPTION '%', NEW.v", "P0001"),
        ("RAISE '%', NEW.v USING ERRCODE = '23514'", "23514"),
        ("ASSERT NEW.v < 9, NEW.v::text", "P0004"),
    ],
)
def test_a_row_that_a_trigger_refuses_is_a_dead_letter(
    db: Database, mode: dict[str, str], raised: str, code: str
) -> None:
    """Only that row; the trigger's text, which may hold a value, is in the table alone."""
    value = 4242 * 100 + 42
    db.script(
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        *trigger(f"IF NEW.v > 99 THEN {raised}; END IF; RETURN NEW;"),
    )
    rows = [(1, 1, 0), (2, value, 1), (3, 3, 2)]
    assert put(db.sink(dead_letters="dead", **mode), KV, *rows).dead_letters == 1
    assert db.ask("SELECT k FROM t ORDER BY k") == [1, 3]
    assert db.ask('SELECT "offset", reason FROM dead') == [(1, str(value))]
    db.script("TRUNCATE t")
    with pytest.raises(PoisonRowError, match=f"offset 1 .*{code}") as refused:
        put(db.sink(**mode), KV, *rows)
    assert str(value) not in told(refused.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("-- done\nCOMMIT", "COMMIT"),
        ("/* x */ rollback;", "ROLLBACK"),
        ("INSERT INTO a VALUES ('it''s -- not'); commit", "COMMIT"),
        ("DO $x$ BEGIN NULL; END; $x$; ABORT", "ABORT"),
        ("ROLLBACK TO SAVEPOINT a", None),
        ("SELECT ';COMMIT', \"; END\", $$; COMMIT$$ -- ; COMMIT", None),
        ("SELECT CASE 1 WHEN 1 THEN 2 END", None),
    ],
)
def test_what_ends_a_transaction_is_seen(text: str, word: str | None) -> None:
    """COMMIT and its like are seen behind comments and other statements, and in no literal."""
    assert ending(text) == word


@pytest.mark.parametrize("ends", ["COMMIT", ["SELECT 1", " rollback;"], "SELECT 1; COMMIT"])
def test_own_statements_may_not_commit(ends: Any, db: Database) -> None:
    """Refused before there is a batch, also behind another statement."""
    with pytest.raises(SettingsError, match=r"(?i)commit|rollback"):
        db.sink(apply=ends)


@pytest.mark.parametrize("ends", ["COMMIT", b"COMMIT", "SELECT 1; COMMIT", "a cursor's", None])
def test_a_function_cannot_commit(db: Database, ends: Any) -> None:
    """COMMIT of a user's function is refused before it is sent, so nothing of it stays."""
    db.script("CREATE TABLE a (k int)")

    def end(connection: Any, _: object) -> None:
        connection.execute("INSERT INTO a SELECT k FROM eo_batch")
        if ends is None:
            connection.commit()
        elif ends == "a cursor's":
            connection.cursor().execute("-- done\nCOMMIT")
        else:
            connection.execute(ends)

    sink = db.sink("a", apply=end)
    for _ in range(2):
        with pytest.raises(SinkError, match=r"(?i)commit"):
            put(sink, KV, (1, 1, 0))
    assert db.ask("SELECT * FROM a") == []
    assert sink.applied(QUERY) == {}


def test_a_function_may_change_how_it_reads(db: Database) -> None:
    """A row factory that a function sets is gone after it, and its savepoints work."""
    db.script("CREATE TABLE a (k int)")

    def read(connection: Any, _: object) -> None:
        connection.row_factory = dict_row
        with connection.transaction():
            found = connection.execute("SELECT k FROM eo_batch").fetchone()
        connection.execute("INSERT INTO a VALUES (%s)", (found["k"],))

    sink = db.sink("a", apply=read)
    for _ in range(2):
        put(sink, KV, (7, 1, 0))
    assert db.ask("SELECT k FROM a") == [7, 7]


LETTERS = 'SELECT topic, "partition", "offset", reason, "row" FROM dead ORDER BY "offset"'


class TestAppended(PostgresTarget, RefusedRowsChapter):
    """Rows that are appended through the driver, without Spark."""


class TestUpserted(PostgresTarget, RefusedRowsChapter):
    """Rows that are upserted through the driver, without Spark."""

    mode = "upsert"


@pytest.mark.spark
class TestStaged(SparkRows, PostgresTarget, RefusedRowsChapter):
    """Rows that the executors write."""

    @pytest.fixture(autouse=True)
    def _rows(self, spark: SparkSession) -> None:
        self.spark = spark

    def new_sink(self, **arguments: Any) -> PostgresSink:
        return super().new_sink(write_method="staging", **arguments)

    def test_over_the_limit_nothing_is_staged(self) -> None:
        """Rows are counted over all tasks, and the staging table is gone."""
        self.run("CREATE TABLE {table} (id int CHECK (id <> 13))")
        rows = self.spark.range(12).selectExpr("if(id % 2 = 0, 13, int(id)) id").repartition(3)
        with pytest.raises(PoisonRowError, match=r"6 rows .*check"):
            self.put_frame(self.letter_sink(max_dead_letters=5), rows)
        assert (self.read("id"), self.letters(), ask(self.dsn, STAGES)) == ([], [], [])
        assert self.put_frame(self.letter_sink(max_dead_letters=6), rows).dead_letters == 6


@pytest.mark.spark
@WRITE_METHODS
@MODES
def test_each_bad_row_becomes_a_dead_letter(
    spark: SparkSession, db: Database, write_method: str, mode: dict[str, str]
) -> None:
    """Marked, out of range, NUL, against a check, without its key: aside; others are written."""
    db.script("CREATE TABLE t (k text PRIMARY KEY, n smallint CHECK (n <> 13))")
    bad: list[tuple[str | None, int, str | None]] = [
        ("marked \t\\", 1, "no such\tairport"),
        ("huge", 40_000, None),
        ("nul\x00", 1, None),
        ("thirteen", 13, None),
        (None, 1, None),
    ]
    good = [(f"good {number}", number, None) for number in range(20, 60)]
    rows = [(*TP, at, *row) for at, row in enumerate([*good[:20], *bad, *good[20:]])]
    columns = f"{ORIGIN}, k string, n int, eo_poison string"
    sink = db.sink(write_method=write_method, dead_letters="dead", **mode)
    applied = write(sink, spark.createDataFrame(rows, columns).repartition(2))
    assert (applied.rows, applied.dead_letters) == (40, 5)
    assert db.ask("SELECT count(*) FROM t") == [40]
    letters = db.ask(LETTERS)
    assert [letter[:3] for letter in letters] == [(*TP, offset) for offset in range(20, 25)]
    reasons = ("no such\tairport", "smallint", "0x00", "check", "not-null")
    assert all(part in letter[3] for part, letter in zip(reasons, letters, strict=True))
    assert [json.loads(letters[at][4])["k"] for at in (0, 4)] == ["marked \t\\", None]
    assert db.ask("SELECT next_offset FROM eo_ledger") == [10]


def test_a_double_key_is_a_bad_row(db: Database) -> None:
    """A row whose key is there already, or twice in the batch, is a dead letter when appended."""
    db.script("CREATE TABLE t (k text PRIMARY KEY)", "INSERT INTO t VALUES ('there')")
    rows = [("a", 0), ("there", 1), ("b", 2), ("a", 3)]
    applied = put(db.sink(dead_letters="dead"), "k string", *rows)
    assert (applied.rows, applied.dead_letters) == (2, 2)
    assert db.ask('SELECT "offset" FROM dead ORDER BY 1') == [1, 3]
