"""Which table rows go to and how, rules of the database, and the user's SQL: without Spark."""

from __future__ import annotations

import json
import sqlite3
import traceback
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.errors import EoListenerError, PoisonRowError, SettingsError, SinkError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.target import Apply
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.dead_letters import RefusedRowsChapter
from tests.sinks.chapters.other_writers import DroppedTables
from tests.sinks.sqlite.database import TP, SqliteTarget, ask, numbers, put, script, write

rows = ArrowFrame.rows


def test_columns_go_by_name(path: Path) -> None:
    """A table that exists has its own order, more columns, and generated ones."""
    script(path, "CREATE TABLE t (z DEFAULT 7, b, twice AS (b * 2), a)")
    write(SqliteSink(path, "t"), rows("a int, b int", (1, 2)))
    assert ask(path, "SELECT z, b, twice, a FROM t") == [(7, 2, 4, 1)]


def test_nothing_is_made_where_that_is_forbidden(path: Path) -> None:
    """With create=False file, ledger and table must be there; what is missing is told as SQL."""
    sink = SqliteSink(path, "t", create=False)
    with pytest.raises(SettingsError, match="does not exist"):
        sink.applied(QUERY)
    script(path, "CREATE TABLE other (x)")
    with pytest.raises(SettingsError, match="CREATE TABLE") as caught:
        sink.applied(QUERY)
    script(path, str(caught.value.fix).partition(": ")[2])
    frame = rows("a int", (1,))
    with pytest.raises(SettingsError, match="table 't' does not exist") as caught:
        write(sink, frame)
    script(path, str(caught.value.fix).partition(": ")[2])
    write(sink, frame)
    assert ask(path, "SELECT a FROM t") == [1]


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


ROWS = pa.record_batch({"id": [1, 2]})


@pytest.mark.parametrize(
    ("parent", "child", "error", "said"),
    [
        ("PRIMARY KEY", "", PoisonRowError, "FOREIGN KEY constraint failed"),
        ("PRIMARY KEY", "DEFERRABLE INITIALLY DEFERRED", SinkError, "at COMMIT.*DEFERRABLE"),
        ("", "", SinkError, "foreign key mismatch.*UNIQUE INDEX.*foreign_keys=False"),
    ],
)
def test_foreign_keys_are_enforced(
    path: Path, parent: str, child: str, error: type[EoListenerError], said: str
) -> None:
    """A row without a parent, also at COMMIT, when it is nobody's, or a table that is wrong."""
    script(path, f"CREATE TABLE p (id {parent}); INSERT INTO p VALUES (1)")
    script(path, f"CREATE TABLE t (id REFERENCES p (id) {child})")
    sink = SqliteSink(path, "t", dead_letters="dead")
    if error is PoisonRowError:
        done = put(sink, ROWS)
        assert (done.rows, done.dead_letters) == (1, 1)
        script(path, "DELETE FROM t; DELETE FROM eo_ledger")
        sink = SqliteSink(path, "t")
    with pytest.raises(error, match=said):
        put(sink, ROWS)
    assert sink.applied(QUERY) == {}
    assert ask(path, "SELECT * FROM t") == []
    assert put(SqliteSink(path, "t", foreign_keys=False), ROWS).rows == 2


def test_the_users_own_sql_keeps_foreign_keys_too(path: Path) -> None:
    """A parent that is deleted takes its children along, where they say so."""
    script(path, "CREATE TABLE p (id PRIMARY KEY); INSERT INTO p VALUES (1)")
    script(path, "CREATE TABLE t (id REFERENCES p ON DELETE CASCADE); INSERT INTO t VALUES (1)")
    put(SqliteSink(path, "t", apply="DELETE FROM p WHERE id IN (SELECT id FROM eo_batch)"), ROWS)
    assert ask(path, "SELECT * FROM t") == []


@pytest.mark.parametrize("setting", ["table", "dead_letters"])
def test_a_dot_does_not_separate_a_schema_from_a_table(path: Path, setting: str) -> None:
    """No table with a dot in its name is made; one that is there is taken."""
    given: dict[str, Any] = {"table": "t", setting: "main.made"}
    with pytest.raises(SettingsError, match=f"{setting}='made'"):
        put(SqliteSink(path, **given), ROWS)
    with closing(sqlite3.connect(path)) as link:
        assert link.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE 'main%'").fetchall() == []
    if setting == "table":
        script(path, 'CREATE TABLE "main.made" (id)')
        assert put(SqliteSink(path, "main.made"), ROWS).rows == 2


class TestAppended(SqliteTarget, RefusedRowsChapter):
    """Rows that are appended."""


class TestUpserted(SqliteTarget, RefusedRowsChapter):
    """Rows that are upserted."""

    mode = "upsert"


def test_they_are_whole(path: Path) -> None:
    """Also when they are read back from SQLite, which has few types, to be refused."""
    script(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v CHECK (v < 100), b BLOB, o)")
    sink = SqliteSink(path, "t", mode="upsert", keys="k", dead_letters="dead")
    row = {"k": 1, "v": 500, "b": b"\xff", "o": True}
    put(sink, pa.record_batch({name: [value] for name, value in row.items()}))
    (letter,) = ask(path, 'SELECT "row" FROM dead')
    assert json.loads(letter) == {**row, "b": "/w=="}
    assert letter.endswith("true}")


def test_a_database_that_ends_the_transaction_is_reported(path: Path) -> None:
    """A constraint that rolls all back would leave dead letters without their batch."""
    script(path, "CREATE TABLE t (v NOT NULL ON CONFLICT ROLLBACK)")
    sink = SqliteSink(path, "t", dead_letters="bad")
    with pytest.raises(SinkError, match="itself: NOT NULL"):
        put(sink, pa.record_batch({"v": [1, None]}))
    assert sink.applied(QUERY) == {}
    assert ask(path, "SELECT v FROM t") == []


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_text_of_a_trigger_is_in_no_error(path: Path, mode: Any) -> None:
    """It may hold a value: it is in the table of dead letters alone."""
    script(
        path,
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v); CREATE TRIGGER no BEFORE INSERT ON t "
        "WHEN NEW.v = 'secret' BEGIN SELECT RAISE(ABORT, 'not a secret'); END",
    )
    keys = "k" if mode == "upsert" else ()
    words = {"k": [1, 2, 3], "v": ["x", "secret", "y"]}
    origin = {"topic": ["t"] * 3, "partition": pa.array([0] * 3, pa.int32()), "offset": [0, 1, 2]}
    rows = pa.record_batch({**words, **origin})
    with pytest.raises(PoisonRowError, match="a trigger") as refused:
        put(SqliteSink(path, "t", mode=mode, keys=keys), rows)
    assert "secret" not in "".join(traceback.format_exception(refused.value))
    sink = SqliteSink(path, "t", mode=mode, keys=keys, dead_letters="dead")
    assert put(sink, rows).dead_letters == 1
    assert ask(path, 'SELECT "offset", reason FROM dead') == [(1, "not a secret")]


rows = ArrowFrame.rows
COUNT = """
    INSERT INTO total SELECT k, count(*) FROM eo_batch WHERE true GROUP BY k
    ON CONFLICT (k) DO UPDATE SET n = n + excluded.n
"""
TABLES = "CREATE TABLE total (k PRIMARY KEY, n); CREATE TABLE seen (k); INSERT INTO seen VALUES (9)"


@pytest.fixture
def tables(path: Path) -> Path:
    script(path, TABLES)
    return path


def test_statements_run_on_the_staged_rows(tables: Path) -> None:
    """Several tables, a destructive update among them, in each batch of their own rows."""
    seen = ("DELETE FROM seen", "INSERT INTO seen SELECT DISTINCT k FROM eo_batch")
    sink = SqliteSink(tables, "counts", apply=(*seen, COUNT))
    for keys in ((1, 1, 2), (2, 3)):
        frame = rows("k int", *((key,) for key in keys))
        assert write(sink, frame).rows == len(keys)
    assert ask(tables, "SELECT k, n FROM total ORDER BY k") == [(1, 2), (2, 2), (3, 1)]
    assert ask(tables, "SELECT k FROM seen ORDER BY k") == [2, 3]
    assert ask(tables, "SELECT sink, next_offset FROM eo_ledger") == [("counts", 20)]
    assert not ask(tables, "SELECT name FROM sqlite_schema WHERE name IN ('counts', 'eo_batch')")


def test_a_function_gets_the_connection_and_the_entry(tables: Path) -> None:
    """What it does with the rows is committed with the ledger."""

    def remember(connection: sqlite3.Connection, entry: Entry) -> None:
        until = entry.moves[TP].range.until
        connection.execute("INSERT INTO seen SELECT k + ? FROM eo_batch", (until,))

    sink = SqliteSink(tables, "counts", apply=remember)
    write(sink, rows("k int", (1,)))
    assert ask(tables, "SELECT k FROM seen ORDER BY k") == [9, 11]


ENDS, WRITES = "end the transaction", "nor write to the ledger"


def raising(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute("DELETE FROM seen")
    raise ZeroDivisionError


KEPT: list[object] = []


def upset(connection: sqlite3.Connection, entry: Entry) -> None:
    """Change what a connection answers, and leave a cursor open in its rows."""
    connection.row_factory = lambda cursor, row: {cursor.description[0][0]: row[0]}
    connection.text_factory = bytes
    cursor = connection.execute("SELECT k FROM eo_batch")
    KEPT.append((cursor, cursor.fetchone()))


def test_what_a_function_leaves_behind_is_put_back(tables: Path) -> None:
    """Factories and open cursors are the function's own: batch after batch is written."""
    sink = SqliteSink(tables, "counts", apply=upset)
    for _ in range(2):
        write(sink, rows("k int", (1,), (2,), (3,)))
    KEPT.clear()
    assert sink.applied(QUERY)[TP].range.until == 20


def shadow(connection: sqlite3.Connection, entry: Entry) -> None:
    for name in ("eo_ledger", "eo_ledger_history"):
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS SELECT * FROM main.{name}")


def test_a_temporary_table_is_not_the_ledger(tables: Path) -> None:
    """Also where apply= makes one of that name, heads and history move in the file."""
    sink = SqliteSink(tables, "counts", apply=shadow)
    for _ in range(2):
        write(sink, rows("k int", (1,)))
    assert ask(tables, "SELECT next_offset FROM eo_ledger") == [20]
    assert ask(tables, "SELECT next_offset FROM eo_ledger_history ORDER BY 1") == [10, 20]


@pytest.mark.parametrize(
    ("apply", "error"),
    [
        ("INSERT INTO nosuch SELECT * FROM eo_batch", "nosuch"),
        (("DELETE FROM seen", "COMMIT"), ENDS),
        (("DELETE FROM seen", "ROLLBACK"), ENDS),
        ("UPDATE eo_ledger SET next_offset = 0", WRITES),
        ("DROP TABLE eo_ledger", WRITES),
        ("ALTER TABLE eo_ledger RENAME TO mine", WRITES),
        ("ALTER TABLE Eo_Ledger_History ADD COLUMN mine", WRITES),
        ("CREATE TRIGGER no BEFORE UPDATE ON eo_ledger BEGIN SELECT RAISE(IGNORE); END", WRITES),
        ("DELETE FROM seen; DELETE FROM total", "one statement"),
        (lambda connection, _: connection.commit(), ENDS),
        (lambda connection, _: connection.rollback(), ENDS),
        (raising, ZeroDivisionError),
    ],
)
def test_what_fails_leaves_nothing(
    tables: Path, apply: Apply, error: str | type[Exception]
) -> None:
    """A failing statement, an end of the transaction or a raised error undoes all of the batch."""
    sink = SqliteSink(tables, "counts", apply=apply)
    frame = rows("k int", (1,))
    write(SqliteSink(tables, "before"), frame)
    kind, text = (SinkError, error) if isinstance(error, str) else (error, None)
    with pytest.raises(kind, match=text):
        write(sink, frame)
    assert sink.applied(QUERY) == {}
    assert ask(tables, "SELECT k FROM seen") == [9]
    write(SqliteSink(tables, "counts", apply="DELETE FROM seen"), frame)
    assert ask(tables, "SELECT k FROM seen") == []
