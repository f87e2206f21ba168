"""What the database itself watches over, and rows that it refuses: without Spark."""

from __future__ import annotations

import json
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.errors import EoListenerError, PoisonRowError, SettingsError, SinkError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.dead_letters import RefusedRowsChapter
from tests.sinks.sqlite.database import SqliteTarget, ask, put, script

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


def test_many_of_them(path: Path) -> None:
    """A batch in which most rows are refused takes time in proportion to its rows."""
    script(path, "CREATE TABLE t (v NOT NULL)")
    sink = SqliteSink(path, "t", dead_letters="bad", max_dead_letters=0.9)
    done = put(sink, pa.record_batch({"v": [None if n % 10 else n for n in range(20_000)]}))
    assert (done.rows, done.dead_letters) == (2_000, 18_000)


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
