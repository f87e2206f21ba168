"""The user's own SQL, on the branch of the batch: MERGE, destructive statements, functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from eo_listener.errors import ForeignWriterError, SettingsError, SinkError
from eo_listener.model.ledger import Entry
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import FRAME, QUERY, Row, heads_of, plan_of
from tests.sinks.chapters.store import once
from tests.sinks.iceberg.lake import Lake, entry

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


FIRST = [row(1, 0, "first"), row(2, 0, "second")]
NEXT = [row(1, 1, "newer"), row(2, 1, "gone")]


@pytest.fixture
def sink(lake: Lake) -> IcebergSink:
    """A sink whose batches update rows and delete others, on a table with two rows."""
    columns = "topic string, partition int, offset bigint, word string"
    lake.spark.sql(f"CREATE TABLE {lake.table('t')} ({columns}) USING iceberg")
    made = lake.sink("t", apply=(MERGE, CANCEL))
    write(lake, made, 0, FIRST)
    return made


def test_statements_run_on_the_branch(lake: Lake, sink: IcebergSink) -> None:
    """In their order, each on what those before it have left; main has all of it, or nothing."""
    seen: list[list[Row]] = []
    with once("sink.rows-written", lambda: seen.append(sorted(lake.rows("t")))):
        assert write(lake, sink, 1, NEXT) == 2
    assert seen == [FIRST]
    assert lake.rows("t") == NEXT[:1]
    assert dict(lake.sink("t").applied(QUERY)) == heads_of(entry(1))
    assert not lake.spark.catalog.tableExists("eo_batch")


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
    foreign = once("sink.commit-sent", lambda: lake.append("t", [row(3, 0, "foreign")]))
    computed = lake.spark.sparkContext.accumulator(0)

    def compute(one: Row) -> Row:
        computed.add(1)
        return one

    rows = lake.spark.sparkContext.parallelize([row(3, 1, "ours")], 1).map(compute)
    one = entry(1)
    with foreign:
        sink.apply(lake.spark.createDataFrame(rows, FRAME), one, plan_of(one))
    assert computed.value == 1
    assert row(3, 1, "ours") in lake.rows("t")
    assert row(3, 0, "foreign") not in lake.rows("t")
    assert len(lake.java("t").branches) == 2


def test_a_function_runs_on_the_branch(lake: Lake, sink: IcebergSink) -> None:
    """With the session, the branch's name, and the entry."""

    def by_hand(branch: Any, one: Entry) -> None:
        batch = branch.session.table("eo_batch")
        batch.writeTo(branch.table).append()
        branch.sql(f"UPDATE {{table}} SET word = 'batch {one.batch_id}' WHERE offset = 1")

    write(lake, lake.sink("t", apply=by_hand), 1, [row(5, 1, "new")])
    assert sorted(lake.rows("t")) == [*FIRST, row(5, 1, "batch 1")]


def test_what_a_batch_may_not_do(lake: Lake, sink: IcebergSink) -> None:
    """Write past its branch, also for a time only, hold another batch, or fail: all is undone."""
    table = lake.table("t")
    lake.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")

    def elsewhere(branch: Any, _: Entry) -> None:
        branch.session.conf.set("spark.wap.id", "audit")
        try:
            branch.sql("UPDATE {table} SET word = 'changed' WHERE partition = 1")
        finally:
            branch.session.conf.unset("spark.wap.id")

    def on_main(branch: Any, _: Entry) -> None:
        branch.sql(f"DELETE FROM {table}")

    def nested(branch: Any, _: Entry) -> None:
        write(lake, lake.sink("t", apply=MERGE), 1, [])

    failing = ("DELETE FROM {table}", "DELETE FROM {table} WHERE nothing = 1")
    refused: list[tuple[Any, type[Exception], str]] = [
        (elsewhere, SettingsError, "not written to branch"),
        (on_main, SettingsError, "does not begin with"),
        (nested, SettingsError, "another batch is already"),
        (failing, SinkError, r"apply= failed.*nothing"),
    ]
    for apply, kind, said in refused:
        with pytest.raises(kind, match=said):
            write(lake, lake.sink("t", apply=apply), 1, [])
    assert sorted(lake.rows("t")) == FIRST
    assert len(lake.java("t").branches) == 2
    with pytest.raises(SettingsError, match="apply="):
        write(lake, lake.sink("absent", apply=MERGE), 0, [])


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
    taken = ["/* a */ -- b\n insert  overwrite {table} SELECT 1", "update {table} SET x = 1"]
    IcebergSink("lake.db.t", apply=[*taken, "INSERT INTO TABLE {table} SELECT 1"])
