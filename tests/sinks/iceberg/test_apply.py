"""The user's own SQL, on the branch of the batch: MERGE, destructive statements, functions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from eo_listener.model.errors import (
    ForeignWriterError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Entry
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.testing.faults import Killed, broken_off, hooked
from eo_listener.testing.made_up_entries import FRAME, QUERY, Row, heads_of, plan_of
from tests.sinks.iceberg.batches import at, entry
from tests.sinks.iceberg.lake import Lake
from tests.sinks.iceberg.test_lost_answers import LOST, NOTHING_DONE, Database

pytestmark = pytest.mark.spark

MERGE = (
    "MERGE INTO {table} t USING eo_batch b ON t.partition = b.partition "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
CANCEL = "DELETE FROM {table} WHERE word IN (SELECT 'gone' FROM eo_batch)"


def row(key: int, offset: int, word: str) -> Row:
    return ("flights", key, offset, word)


def write(lake: Lake, sink: IcebergSink, number: int, rows: Sequence[Row]) -> int | None:
    one = entry(number)
    return sink.apply(lake.frame(rows), one, plan_of(one)).rows


@pytest.fixture
def sink(lake: Lake) -> IcebergSink:
    """A sink whose batches update rows and delete others, on a table with a row."""
    columns = "topic string, partition int, offset bigint, word string"
    lake.spark.sql(f"CREATE TABLE {lake.table('t')} ({columns}) USING iceberg")
    made = lake.sink("t", apply=(MERGE, CANCEL))
    write(lake, made, 0, [row(1, 0, "first"), row(2, 0, "second")])
    return made


def test_statements_run_on_the_branch(lake: Lake, sink: IcebergSink) -> None:
    """In their order, each on what those before it have left; main has all of it, or nothing."""
    seen: list[list[Row]] = []
    with hooked(at("sink.rows-written", lambda: seen.append(sorted(lake.rows("t"))))):
        assert write(lake, sink, 1, [row(1, 1, "newer"), row(2, 1, "gone")]) == 2
    assert seen == [[row(1, 0, "first"), row(2, 0, "second")]]
    assert lake.rows("t") == [row(1, 1, "newer")]
    assert dict(lake.sink("t").applied(QUERY)) == heads_of(entry(1))
    assert not lake.spark.catalog.tableExists("eo_batch")


@pytest.mark.slow
def test_a_batch_that_changes_nothing_moves_the_ledger(lake: Lake, sink: IcebergSink) -> None:
    """A MERGE of no rows leaves no snapshot of its own."""
    assert write(lake, sink, 1, []) == 0
    assert dict(lake.sink("t").applied(QUERY)) == heads_of(entry(1))
    assert len(lake.rows("t")) == 2


def test_what_died_is_run_once_more(lake: Lake, sink: IcebergSink) -> None:
    """And nothing of what it had written is there."""
    counts = "UPDATE {table} SET offset = offset + 1"
    counting = lake.sink("t", apply=counts)
    for point in ("sink.begun", "sink.rows-written", "sink.commit-sent"):
        with broken_off(point, Killed()), pytest.raises(Killed):
            write(lake, counting, 1, [row(1, 0, "any")])
    write(lake, counting, 1, [row(1, 0, "any")])
    with pytest.raises(ForeignWriterError):
        write(lake, counting, 1, [row(1, 0, "any")])
    assert sorted(lake.rows("t")) == [row(1, 1, "first"), row(2, 1, "second")]


@pytest.mark.slow
def test_after_a_foreign_commit_the_statements_run_again(lake: Lake, sink: IcebergSink) -> None:
    """They may have read what it has changed; the rows are the same, and no more are there."""
    foreign = at("sink.commit-sent", lambda: lake.append("t", [row(3, 0, "foreign")]))
    computed = lake.spark.sparkContext.accumulator(0)

    def compute(one: Row) -> Row:
        computed.add(1)
        return one

    rows = lake.spark.sparkContext.parallelize([row(3, 1, "ours")], 1).map(compute)
    one = entry(1)
    with hooked(foreign):
        sink.apply(lake.spark.createDataFrame(rows, FRAME), one, plan_of(one))
    assert computed.value == 1
    assert row(3, 1, "ours") in lake.rows("t")
    assert row(3, 0, "foreign") not in lake.rows("t")
    assert len(lake.java("t").branches) == 2


@pytest.mark.slow
@pytest.mark.parametrize("answer", [NOTHING_DONE, LOST], ids=["refused", "lost"])
def test_a_statement_whose_commit_was_made_and_not_confirmed(
    lake: Lake, sink: IcebergSink, answer: str
) -> None:
    """Iceberg may take its own first commit for a conflict, and undo it; the batch is repeated."""
    database = Database(lake.folder)
    try:
        with (
            hooked(at("sink.begun", lambda: database.answer(answer))),
            pytest.raises(RetriableSinkError),
        ):
            write(lake, sink, 1, [row(1, 1, "newer"), row(2, 1, "gone")])
    finally:
        database.reset()
    assert len(lake.rows("t")) == 2
    write(lake, sink, 1, [row(1, 1, "newer"), row(2, 1, "gone")])
    assert lake.rows("t") == [row(1, 1, "newer")]


def test_a_function_that_sends_its_writes_elsewhere(lake: Lake, sink: IcebergSink) -> None:
    """Nothing of it is published, also where the setting is gone again."""
    session = lake.spark
    session.sql(f"ALTER TABLE {lake.table('t')} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")

    def by_hand(branch: Any, _: Entry) -> None:
        branch.session.conf.set("spark.wap.id", "audit")
        try:
            branch.sql("UPDATE {table} SET word = 'changed' WHERE partition = 1")
        finally:
            branch.session.conf.unset("spark.wap.id")

    with pytest.raises(SettingsError, match="is not on branch"):
        write(lake, lake.sink("t", apply=by_hand), 1, [])
    assert sorted(lake.rows("t")) == [row(1, 0, "first"), row(2, 0, "second")]


def test_a_function_runs_on_the_branch(lake: Lake, sink: IcebergSink) -> None:
    """With the session, the branch's name, and the entry."""

    def by_hand(branch: Any, one: Entry) -> None:
        batch = branch.session.table("eo_batch")
        batch.writeTo(branch.table).append()
        branch.sql(f"UPDATE {{table}} SET word = 'batch {one.batch_id}' WHERE offset = 1")

    write(lake, lake.sink("t", apply=by_hand), 1, [row(5, 1, "new")])
    assert row(5, 1, "batch 1") in lake.rows("t")
    assert len(lake.rows("t")) == 3

    def wrong(branch: Any, _: Entry) -> None:
        branch.sql(f"DELETE FROM {lake.table('t')}")

    with pytest.raises(SettingsError, match="does not begin with"):
        write(lake, lake.sink("t", apply=wrong), 2, [])
    assert len(lake.rows("t")) == 3


def test_a_statement_that_fails_is_named(lake: Lake, sink: IcebergSink) -> None:
    """And nothing of the others is kept; a table that is absent is not made up."""
    broken = lake.sink("t", apply=("DELETE FROM {table}", "DELETE FROM {table} WHERE nothing = 1"))
    with pytest.raises(SinkError, match=r"a statement of apply= failed.*nothing"):
        write(lake, broken, 1, [])
    assert len(lake.rows("t")) == 2
    one = entry(0)
    with pytest.raises(SettingsError, match="apply="):
        lake.sink("u", apply=MERGE).apply(lake.frame([]), one, plan_of(one))


@pytest.mark.slow
def test_two_queries_with_frames_of_one_session(lake: Lake) -> None:
    """One waits for the other, since their rows have one name: neither writes those of both."""
    inserts = "INSERT INTO {table} SELECT word FROM eo_batch"
    entries = {name: replace(entry(0), query=f"into {name}") for name in "ab"}
    began, ends = threading.Event(), threading.Event()

    def apply(name: str) -> None:
        one = entries[name]
        frame = lake.spark.sql(f"SELECT 'of {name}' AS word")
        lake.sink(name, apply=inserts).apply(frame, one, plan_of(one))

    other = threading.Thread(target=apply, args=["b"])

    def hook(point: str) -> None:
        if point == "sink.begun" and threading.current_thread() is other:
            began.set()
            ends.wait(60)
        elif point == "sink.begun":
            other.start()
            began.wait(5)  # as it would begin, if it did not wait

    for name in entries:
        lake.spark.sql(f"CREATE TABLE {lake.table(name)} (word string) USING iceberg")
    with hooked(hook):
        apply("a")
        ends.set()
        other.join()
    found = {name: lake.other().table(lake.table(name)).collect() for name in entries}
    assert found == {"a": [("of a",)], "b": [("of b",)]}


def test_a_batch_within_a_batch_is_refused(lake: Lake, sink: IcebergSink) -> None:
    """In the same session and thread it would wait for itself."""

    def nested(branch: Any, one: Entry) -> None:
        write(lake, lake.sink("t", apply=MERGE), 1, [])

    with pytest.raises(SettingsError, match="while another one is"):
        write(lake, lake.sink("t", apply=nested), 1, [])


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM lake.db.t",
        "MERGE INTO lake.db.t USING {table} ON true WHEN MATCHED THEN DELETE",
        "SELECT * FROM {table}",
        "INSERT INTO other SELECT * FROM {table}",
        "DROP TABLE {table}",
        "-- DELETE FROM {table}\nDELETE FROM lake.db.t",
        "/* UPDATE {table} */ TRUNCATE TABLE lake.db.t",
    ],
)
def test_what_is_not_done_to_the_branch_is_refused(text: str) -> None:
    """Before anything runs: outside of the branch it would be done again with each repetition."""
    with pytest.raises(SettingsError, match="does not begin"):
        IcebergSink("lake.db.t", apply=("DELETE FROM {table}", text))


def test_statements_in_any_dress_are_taken() -> None:
    """Comments before them, and lower case."""
    IcebergSink("lake.db.t", apply="/* a */ -- b\n insert  overwrite {table} SELECT 1")
    IcebergSink(
        "lake.db.t", apply=["update {table} SET x = 1", "INSERT INTO TABLE {table} SELECT 1"]
    )
