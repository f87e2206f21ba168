"""What the database itself watches over, without Spark."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eo_listener.model.errors import PoisonRowError, SettingsError, SinkError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.sqlite.database import ask, put, script

TABLES = "CREATE TABLE p (id PRIMARY KEY); INSERT INTO p VALUES (1); "
ROWS = pa.record_batch({"id": [1, 2]})


def test_foreign_keys_are_enforced(path: Path) -> None:
    """A row whose parent is missing is refused, as by any other constraint."""
    script(path, f"{TABLES}CREATE TABLE t (id REFERENCES p)")
    with pytest.raises(PoisonRowError, match="FOREIGN KEY constraint failed"):
        put(SqliteSink(path, "t"), ROWS)
    sink = SqliteSink(path, "t", dead_letters="dead")
    done = put(sink, ROWS)
    assert (done.rows, done.dead_letters) == (1, 1)
    assert ask(path, "SELECT id FROM t") == [1]


def test_foreign_keys_need_not_be_enforced(path: Path) -> None:
    """SQLite's own default can be had."""
    script(path, f"{TABLES}CREATE TABLE t (id REFERENCES p)")
    assert put(SqliteSink(path, "t", foreign_keys=False), ROWS).rows == 2


def test_a_foreign_key_that_is_checked_at_the_end_fails(path: Path) -> None:
    """What is deferred to COMMIT is nobody's row: nothing of the batch is written."""
    script(path, f"{TABLES}CREATE TABLE t (id REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    sink = SqliteSink(path, "t", dead_letters="dead")
    with pytest.raises(
        SinkError, match=r"FOREIGN KEY constraint failed at COMMIT.*DEFERRABLE.*Fix"
    ):
        put(sink, ROWS)
    assert sink.applied(QUERY) == {}
    assert ask(path, "SELECT * FROM t") == []


def test_a_foreign_key_without_a_unique_parent_fails(path: Path) -> None:
    """The table is wrong, and no row: the error says what to make of it."""
    script(path, "CREATE TABLE p (id); CREATE TABLE t (id REFERENCES p (id))")
    with pytest.raises(SinkError, match=r"foreign key mismatch.*UNIQUE INDEX.*foreign_keys=False"):
        put(SqliteSink(path, "t"), ROWS)
    assert put(SqliteSink(path, "t", foreign_keys=False), ROWS).rows == 2


def test_the_users_own_sql_keeps_foreign_keys_too(path: Path) -> None:
    """A parent that is deleted takes its children along, where they say so."""
    script(path, f"{TABLES}CREATE TABLE t (id REFERENCES p ON DELETE CASCADE)")
    script(path, "INSERT INTO t VALUES (1)")
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
