"""A table that others write, compact, roll back, expire, alter and drop while batches come."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import functions

from eo_listener.foreach_batch.starting_offsets.origins import of_ledger
from eo_listener.model.errors import (
    ForeignWriterError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.model.ledger import Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.sinks.iceberg.connection import find
from eo_listener.sinks.iceberg.names import TableName, is_branch_of
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.faults import hooked
from eo_listener.testing.made_up_entries import (
    FRAME,
    QUERY,
    Row,
    entry_of,
    heads_of,
    plan_of,
    rows_of,
)
from tests.sinks.iceberg.lake import Lake, catalog_conf

pytestmark = pytest.mark.spark

TP = TopicPartition("flights", 0)
FOREIGN: Row = ("elsewhere", 0, 0, "foreign")


def entry(number: int, *, run_id: str = "run-1") -> Entry:
    """Batch `number`, after those before it, each of one offset and of the same run."""
    heads = heads_of(entry(number - 1)) if number else {}
    ranges = {TP: OffsetRange(number, number + 1)}
    return entry_of(heads, ranges, batch_id=number, run_id=run_id)


def write(lake: Lake, number: int, table: str = "t") -> None:
    one = entry(number)
    lake.sink(table).apply(lake.frame(rows_of(one)), one, plan_of(one))


def expected(*numbers: int, foreign: int = 0) -> list[Row]:
    rows = [row for number in numbers for row in rows_of(entry(number))]
    return sorted([*rows, *[FOREIGN] * foreign])


def at(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """A hook that acts once, when a fault point is reached."""
    left = [act]

    def hook(name: str) -> None:
        if name == point and left:
            left.pop()()

    return hook


def test_a_table_is_made_in_format_2(lake: Lake) -> None:
    """With the partitions and properties that were asked for, and null where rows lack a column."""
    one = entry(0)
    sink = lake.sink("t", partition_by="bucket(4, word)", properties={"it's": 'a \\ "b"'})
    sink.apply(lake.frame(rows_of(one)), one, plan_of(one))
    made: dict[str, str] = dict(lake.other().sql(f"SHOW TBLPROPERTIES {lake.table('t')}").collect())
    assert made["format-version"] == "2"
    assert made["it's"] == 'a \\ "b"'
    partitions = lake.other().table(f"{lake.table('t')}.partitions").select("partition").collect()
    assert "word_bucket" in partitions[0][0].asDict()
    second = entry(1)
    sink.apply(lake.frame(rows_of(second)).drop("word"), second, plan_of(second))
    words = [row.word for row in lake.other().table(lake.table("t")).orderBy("offset").collect()]
    assert words == ["run-1", None]


def test_columns_that_do_not_fit_are_refused_by_name(lake: Lake) -> None:
    """Unknown ones, unless they are wanted; types; a table that may not be made; marked rows."""
    one = entry(0)
    frame = lake.frame(rows_of(one))
    with pytest.raises(SettingsError, match="create=False"):
        lake.sink("t", create=False).apply(frame, one, plan_of(one))
    write(lake, 0)
    second = entry(1)
    wider = frame.withColumn("extra", functions.lit(5))
    with pytest.raises(SettingsError, match="no column 'extra'"):
        lake.sink("t").apply(wider, second, plan_of(second))
    wrong = frame.withColumn("offset", functions.lit("no number"))
    with pytest.raises(SettingsError, match="does not take these rows"):
        lake.sink("t").apply(wrong, second, plan_of(second))
    marked = frame.withColumn("eo_poison", functions.lit("broken"))
    with pytest.raises(PoisonRowError, match=r"offset 0.*: broken"):
        lake.sink("t").apply(marked, second, plan_of(second))
    untyped = frame.withColumn("extra", functions.lit(None))
    with pytest.raises(SettingsError, match="column 'extra' of the rows has no type"):
        lake.sink("t", new_columns=True).apply(untyped, second, plan_of(second))
    with pytest.raises(SettingsError, match="column 'extra' of the rows has no type"):
        lake.sink("u").apply(untyped, one, plan_of(one))
    assert branches(lake) == 1
    lake.sink("t", new_columns=True).apply(wider, second, plan_of(second))
    assert [
        row.extra for row in lake.other().table(lake.table("t")).orderBy("extra").collect()
    ] == [
        None,
        5,
    ]


def test_what_a_table_requires_or_is_set_to(lake: Lake) -> None:
    """A null in a column that is NOT NULL, and a table that Spark merges nothing into."""
    columns = "topic string, partition int, offset bigint, word string NOT NULL"
    lake.spark.sql(f"CREATE TABLE {lake.table('t')} ({columns}) USING iceberg")
    one = entry(0)
    frame = lake.frame(rows_of(one)).withColumn("word", functions.lit(None).cast("string"))
    with pytest.raises(SinkError, match="null in a column that the table requires"):
        lake.sink("t").apply(frame, one, plan_of(one))
    setting = "write.spark.accept-any-schema"
    lake.other().sql(f"ALTER TABLE {lake.table('t')} SET TBLPROPERTIES ('{setting}' = 'true')")
    merging = lake.sink("t", mode="upsert", keys="offset")
    with pytest.raises(SettingsError, match=f"has {setting}"):
        merging.apply(lake.frame(rows_of(one)), one, plan_of(one))
    assert lake.rows("t") == []


@pytest.mark.slow
def test_rows_that_may_be_marked_are_computed_once(lake: Lake) -> None:
    """Else one could be marked when it is written, and not when it is asked for."""
    context = lake.spark.sparkContext
    computed = context.accumulator(0)

    def count(row: Row) -> tuple[str, int, int, str, str | None]:
        computed.add(1)
        return (*row, None)

    one = entry(0)
    rows = context.parallelize(rows_of(one) * 3, 1).map(count)
    frame = lake.spark.createDataFrame(rows, f"{FRAME}, eo_poison string")
    assert lake.sink("t").apply(frame, one, plan_of(one)).rows == 3
    assert computed.value == 3


def branches(lake: Lake, table: str = "t") -> int:
    """How many of our branches there are."""
    return sum(is_branch_of(QUERY, name) for name in lake.java(table).branches)


def test_files_are_added_again_where_main_has_moved(lake: Lake) -> None:
    """A foreign commit between the rows and their publication: nothing is computed again."""
    write(lake, 0)
    one, points = entry(1), []
    act = at("sink.commit-sent", lambda: lake.append("t", [FOREIGN]))

    def hook(name: str) -> None:
        points.append(name)
        act(name)

    with hooked(hook):
        sink = lake.sink("t")
        assert sink.apply(lake.frame(rows_of(one)), one, plan_of(one)).rows == 1
    assert points.count("sink.rows-written") == 1
    assert sorted(lake.rows("t")) == expected(0, 1, foreign=1)
    assert dict(lake.sink("t").applied(QUERY)) == heads_of(one)
    assert branches(lake) == 1
    write(lake, 2)
    assert sorted(lake.rows("t")) == expected(0, 1, 2, foreign=1)


def test_a_rollback_takes_rows_and_ledger_back(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, with the command that undoes it; that command works."""
    write(lake, 0)
    before = lake.java("t").main
    write(lake, 1)
    java = lake.java("t")._table
    java.manageSnapshots().rollbackTo(before).commit()
    sink = lake.sink("t")
    with caplog.at_level(logging.WARNING, "eo_listener"):
        assert dict(sink.applied(QUERY)) == heads_of(entry(0))
        sink.applied(QUERY)
    assert sorted(lake.rows("t")) == expected(0)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "was rolled back: batches of 'flights' after number 1" in said
    branch = said.partition("'main', '")[2].partition("'")[0]
    assert said.count(branch) == 2
    lake.java("t")._table.manageSnapshots().fastForwardBranch("main", branch).commit()
    assert dict(sink.applied(QUERY)) == heads_of(entry(1))


def test_the_ledger_outlives_expired_snapshots(lake: Lake) -> None:
    """Between it and main's head too; where rows of it are left, nothing is to be accepted."""
    write(lake, 0)
    write(lake, 1)
    for _ in range(2):
        lake.append("t", [FOREIGN])
    far = 2**62
    lake.java("t")._table.expireSnapshots().expireOlderThan(far).retainLast(1).commit()
    assert dict(lake.sink("t").applied(QUERY)) == heads_of(entry(1))
    write(lake, 2)
    assert sorted(lake.rows("t")) == expected(0, 1, 2, foreign=2)


def test_a_table_made_anew_has_no_ledger(lake: Lake) -> None:
    """Dropped, or dropped and made by another program, whatever the session has cached."""
    write(lake, 0)
    sink = lake.sink("t")
    sink.applied(QUERY)
    other = lake.other()
    other.sql(f"DROP TABLE {lake.table('t')}")
    assert dict(sink.applied(QUERY)) == {}
    write(lake, 0)
    sink.applied(QUERY)
    other.sql(f"DROP TABLE {lake.table('t')}")
    other.sql(f"CREATE TABLE {lake.table('t')} (word string) USING iceberg")
    assert dict(sink.applied(QUERY)) == {}
    one = entry(1)
    with pytest.raises(ForeignWriterError):
        sink.apply(lake.frame(rows_of(one)).select("word"), one, plan_of(one))


@pytest.mark.parametrize("letters", [{}, {"dead_letters": "dead"}], ids=["plain", "sifted"])
def test_a_table_dropped_while_the_query_runs_is_not_made_again(
    lake: Lake, letters: dict[str, str]
) -> None:
    """Between the ledger and the batch: no driver is blamed, also where another program makes it.

    Nor while it is written.
    """
    given = {name: lake.table(table) for name, table in letters.items()}
    write(lake, 0)
    sink, one = lake.sink("t", **given), entry(1)
    frame, other = lake.frame(rows_of(one)), lake.other()
    sink.applied(QUERY)
    drop = f"DROP TABLE {lake.table('t')}"
    other.sql(drop)
    with pytest.raises(SinkError, match=r"not the table any more.*\(there is none") as refused:
        sink.apply(frame, one, plan_of(one))
    assert "dropped or renamed" in str(refused.value.cause)
    assert not other.catalog.tableExists(lake.table("t"))
    write(lake, 0)
    with pytest.raises(SinkError, match=r"not the table any more.*it was \S+, and is") as refused:
        sink.apply(frame, one, plan_of(one))
    assert not isinstance(refused.value, ForeignWriterError)

    def replace() -> None:
        other.sql(drop)
        write(lake, 0)

    for act, said in ((replace, "UUID does not match"), (lambda: other.sql(drop), "NoSuchTable")):
        sink.applied(QUERY)
        with (
            hooked(at("sink.commit-sent", act)),
            pytest.raises(SinkError, match=f"not the table any more.*{said}"),
        ):
            sink.apply(frame, one, plan_of(one))


def test_a_table_that_is_replaced_is_named(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """By CREATE OR REPLACE: while the query runs, and where its ledger is read later."""
    write(lake, 0)
    write(lake, 1)
    name = lake.table("t")
    lake.other().sql(f"CREATE OR REPLACE TABLE {name} USING iceberg AS SELECT * FROM {name}")
    one = entry(2)
    with pytest.raises(SinkError, match=r"was replaced: .* of 'flights' are not in it") as refused:
        lake.sink("t").apply(lake.frame(rows_of(one)), one, plan_of(one))
    assert not isinstance(refused.value, ForeignWriterError)
    with caplog.at_level(logging.WARNING, "eo_listener"):
        assert dict(lake.sink("t").applied(QUERY)) == {}
    (said,) = [record.getMessage() for record in caplog.records]
    assert "was replaced (CREATE OR REPLACE TABLE): it has no ledger of 'flights'" in said


def test_a_renamed_table_keeps_its_ledger(lake: Lake) -> None:
    """It is the table's own, under whatever name."""
    write(lake, 0)
    lake.other().sql(f"ALTER TABLE {lake.table('t')} RENAME TO {lake.namespace}.u")
    assert dict(lake.sink("u").applied(QUERY)) == heads_of(entry(0))
    assert of_ledger(lake.sink("u"), QUERY).offsets == {TP: 1}
    assert dict(lake.sink("t").applied(QUERY)) == {}
    write(lake, 1, "u")
    assert sorted(lake.rows("u")) == expected(0, 1)


def test_a_thread_of_its_own_reads_the_ledger(lake: Lake) -> None:
    """It has no session in the JVM, and Spark would know no catalog of a new one there."""
    write(lake, 0)
    lake.other().createDataFrame([(1,)], "n int")  # pyspark's active one from now on
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(lambda: dict(lake.sink("t").applied(QUERY))).result()
    assert found == heads_of(entry(0))


def test_names_that_are_not_there_are_named(lake: Lake) -> None:
    """A catalog, and a namespace with the command that makes it."""
    one = entry(0)
    frame = lake.frame(rows_of(one))
    with pytest.raises(SettingsError, match="no catalog 'nowhere'"):
        IcebergSink("nowhere.db.t").applied(QUERY)
    sink = IcebergSink(f"{lake.name}.absent.t")
    assert dict(sink.applied(QUERY)) == {}
    with pytest.raises(SettingsError, match="no namespace") as refused:
        sink.apply(frame, one, plan_of(one))
    assert "CREATE NAMESPACE `lake`.`absent`" in str(refused.value.fix)


def test_a_catalog_that_does_not_answer_is_not_taken_for_none(lake: Lake) -> None:
    """A session may begin with it; its batch is repeated. One that is not set is named as such.

    No secret of its settings is in what Spark shows of the error, nor in Java's own part of it.
    """
    session, one = lake.other(), entry(0)
    conf = catalog_conf("away", lake.folder / "absent" / "hid7q")
    conf["spark.sql.catalog.away.uri"] += "?password=hush5x"
    conf["spark.sql.catalog.away.jdbc.password"] = "hid7q"
    for key, value in conf.items():
        session.conf.set(key, value)

    def write_to(catalog: str) -> None:
        frame = session.sql("SELECT 1 AS n")
        IcebergSink(f"{catalog}.db.t").apply(frame, one, plan_of(one))

    with pytest.raises(RetriableSinkError, match="the catalog or the storage has failed") as caught:
        write_to("away")
    whole = "".join(traceback.format_exception(caught.value))
    assert "/absent/***" in whole
    assert "\tat org.apache.iceberg." in whole
    assert "hush5x" not in whole
    assert "hid7q" not in whole
    with pytest.raises(SettingsError, match="the Spark session has no catalog 'unset'"):
        write_to("unset")


def test_a_catalog_that_comes_back_while_it_is_asked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away when the table is looked for, and back when it is asked why: it has the table."""
    session, name = lake.other(), "back"
    folder = lake.folder / "back"
    folder.mkdir()
    for key, value in catalog_conf(name, folder).items():
        session.conf.set(key, value)
    session.sql(f"CREATE NAMESPACE {name}.db")
    session.sql(f"CREATE TABLE {name}.db.t (word string) USING iceberg")
    session = lake.spark.newSession()
    for key, value in catalog_conf(name, folder).items():
        session.conf.set(key, value)
    folder.rename(folder.with_name("away"))
    load, found = IcebergTable.load, []

    def once(*given: Any) -> IcebergTable | None:
        found.append(load(*given))
        if len(found) == 1:
            folder.with_name("away").rename(folder)
        return found[-1]

    monkeypatch.setattr(IcebergTable, "load", once)
    table = find(session, TableName.parse(f"{name}.db.t"))
    assert found == [None, table]
    assert table is not None
    assert table.main is None
