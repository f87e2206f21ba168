"""A database that has a catalog's commit and does not say so: main stays readable, and whole.

Iceberg's JDBC catalog sends a commit again when its connection broke, and is told the second time
that there is nothing to do. Triggers of SQLite answer the first time as others do the second.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError
from eo_listener.testing.faults import hooked
from tests import iceberg_jars
from tests.sinks.iceberg.batches import at
from tests.sinks.iceberg.java_tables import Catalog
from tests.sinks.iceberg.test_publication import FOREIGN, check, each_way, table, write

__all__ = ["table"]

pytestmark = pytest.mark.spark  # needs a JVM and its jars

NOTHING_DONE = "RAISE(IGNORE)"
LOST = "RAISE(FAIL, 'the answer is lost')"
TRIGGER = """
    CREATE TRIGGER answers BEFORE UPDATE OF metadata_location ON iceberg_tables
    WHEN (SELECT times FROM wrong_answers) > 0
    BEGIN
        UPDATE wrong_answers SET times = times - 1;
        UPDATE iceberg_tables SET metadata_location = NEW.metadata_location,
            previous_metadata_location = NEW.previous_metadata_location WHERE rowid = OLD.rowid;
        SELECT {answer};
    END;
"""


class Database:
    """The catalog's database."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "catalog.db"

    def answer(self, how: str, times: int = 1) -> None:
        """Make the next commits, and answer in this way."""
        self._run(
            f"CREATE TABLE wrong_answers AS SELECT {times} AS times;" + TRIGGER.format(answer=how)
        )

    def left(self) -> int:
        """How many answers are still to be wrong."""
        with closing(sqlite3.connect(self._file)) as connection:
            return int(connection.execute("SELECT times FROM wrong_answers").fetchone()[0])

    def reset(self) -> None:
        """Answer as ever."""
        self._run("DROP TRIGGER IF EXISTS answers; DROP TABLE IF EXISTS wrong_answers;")

    def _run(self, script: str) -> None:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection:
            connection.executescript(script)


@pytest.fixture
def database(java: Catalog) -> Iterator[Database]:
    """That of the catalog, which answers as ever again after the test."""
    made = Database(java.folder)
    yield made
    made.reset()


@each_way
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("point", [None, "sink.begun", "sink.commit-sent"])
def test_a_commit_that_was_made_is_refused(
    java: Catalog, database: Database, table: str, point: str | None, times: int, appends: bool
) -> None:
    """That of the branch, of the rows, or of the batch: it is in main once, and can be read."""
    if point is None:
        database.answer(NOTHING_DONE, times)
        write(java, table, 1, appends=appends)
    else:
        with hooked(at(point, lambda: database.answer(NOTHING_DONE, times))):
            if iceberg_jars.IS_OLD and point == "sink.begun":
                with pytest.raises(RetriableSinkError, match="manifest list"):
                    write(java, table, 1, appends=appends)
            write(java, table, 1, appends=appends)
    assert database.left() == (times - 1 if point == "sink.commit-sent" else 0)
    database.reset()
    check(java, table, 0, 1)
    assert java.branches(table) == 1
    write(java, table, 2, appends=appends)
    check(java, table, 0, 1, 2)


def test_a_commit_behind_others_is_refused_although_it_was_made(
    java: Catalog, database: Database, table: str
) -> None:
    """The files were added again in it."""

    def foreign() -> None:
        java.append(table, [FOREIGN])
        database.answer(NOTHING_DONE)

    with hooked(at("sink.commit-sent", foreign)):
        write(java, table, 1)
    assert database.left() == 0
    check(java, table, 0, 1, foreign=1)
    assert java.branches(table) == 1


@each_way
def test_the_answer_to_a_commit_is_lost(
    java: Catalog, database: Database, table: str, appends: bool
) -> None:
    """That is no refusal: the table says what happened."""
    with (
        hooked(at("sink.commit-sent", lambda: database.answer(LOST))),
        pytest.raises(OutcomeUnknownError, match="UncheckedSQLException"),
    ):
        write(java, table, 1, appends=appends)
    assert database.left() == 0
    database.reset()
    check(java, table, 0, 1)
    assert java.branches(table) == 1
    write(java, table, 2, appends=appends)
    check(java, table, 0, 1, 2)
