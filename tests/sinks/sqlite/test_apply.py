"""The user's own part of the transaction: `apply=`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from eo_listener.errors import SinkError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.sinks.target import Apply
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.sqlite.database import TP, ask, script, write

rows = ArrowFrame.rows
COUNT = """
    INSERT INTO total SELECT k, count(*) FROM eo_batch WHERE true GROUP BY k
    ON CONFLICT (k) DO UPDATE SET n = n + excluded.n
"""
TABLES = "CREATE TABLE total (k PRIMARY KEY, n); CREATE TABLE seen (k); INSERT INTO seen VALUES (9)"


@pytest.fixture
def tables(path: Path) -> Path:
    """A file with two tables of the user's."""
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
