"""Branches dropped or made anew, cherry-picks, expired ledgers, and answers that are lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eo_listener.errors import OutcomeUnknownError, RetriableSinkError, SettingsError, SinkError
from eo_listener.sinks.iceberg.ledger import PublishedLedgers
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY, Row, heads_of, plan_of, rows_of
from tests import iceberg_jars
from tests.sinks.chapters.store import at, once
from tests.sinks.iceberg.java_tables import Catalog, JavaSink
from tests.sinks.iceberg.lake import entry
from tests.sinks.iceberg.test_publication import FOREIGN, check, each_way, table, write

__all__ = ["table"]

pytestmark = pytest.mark.spark  # needs a JVM and its jars


def branches(java: Catalog, table: str) -> set[str]:
    return {name for name in java.table(table).branches if name.startswith("eo_")}


def drop(java: Catalog, table: str, kept: set[str]) -> None:
    """Drop the others, as maintenance does that knows no better."""
    for name in branches(java, table) - kept:
        java.load(table).manageSnapshots().removeBranch(name).commit()


def test_a_branch_dropped_between_statements(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg makes it anew with the next one: what the first has written would be lost."""
    append, written, kept = java.append, [], branches(java, table)

    def dropping(name: str, rows: Sequence[Row], **given: Any) -> None:
        append(name, rows, **given)
        written.append(rows)
        if len(written) == 1:
            drop(java, name, kept)

    one = entry(1)
    with monkeypatch.context() as patch:
        patch.setattr(java, "append", dropping)
        with pytest.raises(RetriableSinkError, match="no longer exists"):
            JavaSink(java, table, appends=False).apply([FOREIGN, *rows_of(one)], one, plan_of(one))
    assert len(written) == 2
    check(java, table, 0)
    assert java.branches(table) == 1
    write(java, table, 1, appends=False)
    check(java, table, 0, 1)


@each_way
def test_a_branch_made_anew_elsewhere(java: Catalog, table: str, appends: bool) -> None:
    """It was dropped while main was elsewhere; what was taken back there does not come again."""
    before, kept = java.table(table).main, branches(java, table)

    def move() -> None:
        java.append(table, [FOREIGN])
        drop(java, table, kept)

    acts = {"sink.begun": move, "sink.rows-written": lambda: java.roll_back(table, before)}
    with at(acts), pytest.raises(RetriableSinkError, match="no longer exists"):
        write(java, table, 1, appends=appends)
    check(java, table, 0)
    assert java.branches(table) == 1


@each_way
def test_writes_that_go_to_no_branch(
    java: Catalog, table: str, monkeypatch: pytest.MonkeyPatch, appends: bool
) -> None:
    """As with spark.wap.id, whenever it was set: nothing is published."""

    def staged(name: str, rows: Sequence[Row], **given: Any) -> None:
        added = java.load(name).newAppend().toBranch(given["branch"])
        added.appendFile(java._file(rows)).set("wap.id", "audit").stageOnly().commit()

    with monkeypatch.context() as patch:
        patch.setattr(java, "append", staged)
        with pytest.raises(SettingsError, match="not written to branch"):
            write(java, table, 1, appends=appends)
    check(java, table, 0)
    assert java.branches(table) == 1


@each_way
def test_a_batch_that_is_cherry_picked(java: Catalog, table: str, appends: bool) -> None:
    """After a rollback; what the error says to do brings rows and ledger back."""
    before = java.table(table).main
    write(java, table, 1, appends=appends)
    write(java, table, 2, appends=appends)
    (branch,) = branches(java, table)
    rows = java.table(table).main
    if not appends:
        rows = java.load(table).snapshot(rows).parentId()
    java.roll_back(table, before)
    java.load(table).manageSnapshots().cherrypick(rows).commit()
    assert len(java.rows(table)) == 2
    with pytest.raises(SinkError, match="without their ledger") as refused:
        JavaSink(java, table).applied(QUERY)
    assert f"Roll main back to snapshot {before}" in str(refused.value.fix)
    with pytest.raises(SinkError, match="without their ledger"):
        write(java, table, 1, appends=appends)
    java.roll_back(table, before)
    check(java, table, 0)
    java.load(table).manageSnapshots().fastForwardBranch("main", branch).commit()
    check(java, table, 0, 1, 2)


def test_the_next_batch_cherry_picked(java: Catalog, table: str) -> None:
    """There main moves on to it, and its ledger is read."""
    before = java.table(table).main
    write(java, table, 1)
    first = java.table(table).main
    java.roll_back(table, before)
    java.load(table).manageSnapshots().cherrypick(first).commit()
    check(java, table, 0, 1)
    write(java, table, 2)
    check(java, table, 0, 1, 2)


@each_way
def test_a_batch_left_behind_is_no_rollback(java: Catalog, table: str, appends: bool) -> None:
    """Where the branch of the ledger was dropped, the table's history tells one from the other."""

    def rolled_back() -> str | None:
        return PublishedLedgers("the table", bool).published(java.table(table), QUERY).rolled_back

    write(java, table, 1, appends=appends)
    drop(java, table, set())
    with broken_off("sink.commit-sent"), pytest.raises(Killed):
        write(java, table, 2)
    assert rolled_back() is None
    (left,) = branches(java, table)
    before = java.table(table).main
    java.load(table).manageSnapshots().fastForwardBranch("main", left).commit()
    java.append(table, [FOREIGN])
    java.roll_back(table, before)
    assert rolled_back() == left
    java.expire(table)  # the foreign commit, and with it the history before
    assert rolled_back() == left


def taken_back(java: Catalog, table: str) -> int:
    """Batch 1, of which a rollback leaves nothing; the ledger is that of batch 0."""
    before = java.table(table).main
    write(java, table, 1, appends=False)
    java.roll_back(table, before)
    return 0


def kept(java: Catalog, table: str) -> int:
    """Batch 1, of statements: it has no files of its own."""
    write(java, table, 1, appends=False)
    return 1


@pytest.mark.parametrize("act", [kept, taken_back])
def test_expired_snapshots_hide_no_ledger(
    java: Catalog, table: str, act: Callable[[Catalog, str], int]
) -> None:
    """Others have written since. Older metadata say whether main has the batch."""
    number = act(java, table)
    for _ in range(3):
        java.append(table, [FOREIGN])
        java.expire(table)
    assert JavaSink(java, table).applied(QUERY) == heads_of(entry(number))
    write(java, table, number + 1, appends=False)
    check(java, table, *range(number + 2), foreign=3)


def test_cherry_picks_of_others_in_whatever_order(java: Catalog, table: str) -> None:
    """What they were made of has expired, that of the later one first: no file is passed."""
    java.append(table, [FOREIGN])
    first = java.stage(table, [FOREIGN])
    java.load(table).manageSnapshots().createTag("kept", first).commit()
    java.append(table, [FOREIGN])
    java.expire(table)
    second = java.stage(table, [FOREIGN])
    java.append(table, [FOREIGN])
    for picked in (second, first):
        java.load(table).manageSnapshots().cherrypick(picked).commit()
    java.load(table).manageSnapshots().removeTag("kept").commit()
    java.append(table, [FOREIGN])
    java.expire(table)
    assert java.table(table).snapshot(first) is None
    assert JavaSink(java, table).applied(QUERY) == heads_of(entry(0))
    write(java, table, 1)
    check(java, table, 0, 1, foreign=6)


@each_way
def test_a_table_that_is_replaced(java: Catalog, table: str, appends: bool) -> None:
    """Between two batches, and while one is written: it is said what has happened."""
    write(java, table, 1)
    replace = once("sink.begun", lambda: java.replace(table))
    with replace, pytest.raises(SinkError, match="was replaced") as refused:
        write(java, table, 2, appends=appends)
    assert "CREATE OR REPLACE" in str(refused.value.cause)
    assert JavaSink(java, table).applied(QUERY) == {}
    with pytest.raises(SinkError, match="was replaced"):
        write(java, table, 2, appends=appends)
    java.append(table, [FOREIGN])
    write(java, table, 0, appends=appends)
    check(java, table, 0, foreign=1)
    assert java.branches(table) == 1


@pytest.mark.parametrize("act", [kept, taken_back])
def test_where_older_metadata_were_deleted_nothing_is_guessed(
    java: Catalog, table: str, act: Callable[[Catalog, str], int]
) -> None:
    """An error says so."""
    act(java, table)
    keep = java.load(table).updateProperties().set("write.metadata.previous-versions-max", "1")
    keep.set("write.metadata.delete-after-commit.enabled", "true").commit()
    for _ in range(3):
        java.append(table, [FOREIGN])
        java.expire(table)
    with pytest.raises(SinkError, match="nothing shows"):
        JavaSink(java, table).applied(QUERY)


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
    """That of a catalog, which has a commit and does not say so.

    Iceberg's JDBC catalog sends a commit again when its connection broke, and is told the second
    time that there is nothing to do. Triggers answer the first time as others do the second.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "catalog.db"

    def answer(self, how: str, times: int = 1) -> None:
        """Make the next commits, and answer in this way."""
        self._run(
            f"CREATE TABLE wrong_answers AS SELECT {times} AS times;" + TRIGGER.format(answer=how)
        )

    def left(self) -> int:
        with closing(sqlite3.connect(self._file)) as connection:
            return int(connection.execute("SELECT times FROM wrong_answers").fetchone()[0])

    def reset(self) -> None:
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
        with once(point, lambda: database.answer(NOTHING_DONE, times)):
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

    with once("sink.commit-sent", foreign):
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
        once("sink.commit-sent", lambda: database.answer(LOST)),
        pytest.raises(OutcomeUnknownError, match="UncheckedSQLException"),
    ):
        write(java, table, 1, appends=appends)
    assert database.left() == 0
    database.reset()
    check(java, table, 0, 1)
    assert java.branches(table) == 1
    write(java, table, 2, appends=appends)
    check(java, table, 0, 1, 2)
