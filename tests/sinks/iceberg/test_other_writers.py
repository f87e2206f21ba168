"""A table that others write, compact, roll back, expire, alter and drop while batches come."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from pyspark.sql import DataFrame, functions

from eo_listener.errors import (
    ForeignWriterError,
    PoisonRowError,
    RetriableSinkError,
    SettingsError,
    SinkError,
)
from eo_listener.foreach_batch.starting_offsets.origins import ledger_origin
from eo_listener.model.ledger import Applied
from eo_listener.sinks.iceberg import IcebergSink
from eo_listener.sinks.iceberg.connection import find
from eo_listener.sinks.iceberg.names import TableName, is_branch_of
from eo_listener.spark.jvm.iceberg_table import IcebergTable
from eo_listener.testing.made_up_entries import FRAME, QUERY, Row, heads_of, plan_of, rows_of
from tests.sinks.chapters.store import once
from tests.sinks.iceberg.lake import TP, Lake, catalog_conf, entry

pytestmark = pytest.mark.spark

FOREIGN: Row = ("elsewhere", 0, 0, "foreign")


def write(lake: Lake, number: int, table: str = "t") -> None:
    apply(lake.sink(table), lake.frame(rows_of(entry(number))), number)


def apply(sink: IcebergSink, frame: DataFrame, number: int) -> Applied:
    one = entry(number)
    return sink.apply(frame, one, plan_of(one))


def expected(*numbers: int, foreign: int = 0) -> list[Row]:
    rows = [row for number in numbers for row in rows_of(entry(number))]
    return sorted([*rows, *[FOREIGN] * foreign])


def test_a_table_is_made_in_format_2(lake: Lake) -> None:
    """With the partitions and properties that were asked for, and null where rows lack a column."""
    sink = lake.sink("t", partition_by="bucket(4, word)", properties={"it's": 'a \\ "b"'})
    apply(sink, lake.frame(rows_of(entry(0))), 0)
    made: dict[str, str] = dict(lake.other().sql(f"SHOW TBLPROPERTIES {lake.table('t')}").collect())
    assert made["format-version"] == "2"
    assert made["it's"] == 'a \\ "b"'
    partitions = lake.other().table(f"{lake.table('t')}.partitions").select("partition").collect()
    assert "word_bucket" in partitions[0][0].asDict()
    apply(sink, lake.frame(rows_of(entry(1))).drop("word"), 1)
    words = [row.word for row in lake.other().table(lake.table("t")).orderBy("offset").collect()]
    assert words == ["run-1", None]


def test_columns_that_do_not_fit_are_refused_by_name(lake: Lake) -> None:
    """Unknown ones, unless they are wanted; types; a table that may not be made; marked rows."""
    frame = lake.frame(rows_of(entry(0)))
    with pytest.raises(SettingsError, match="create=False"):
        apply(lake.sink("t", create=False), frame, 0)
    write(lake, 0)
    wider = frame.withColumn("extra", functions.lit(5))
    untyped = frame.withColumn("extra", functions.lit(None))
    wrong = frame.withColumn("offset", functions.lit("no number"))
    marked = frame.withColumn("eo_poison", functions.lit("broken"))
    adding = lake.sink("t", new_columns=True)
    refused: list[tuple[IcebergSink, DataFrame, type[Exception], str]] = [
        (lake.sink("t"), wider, SettingsError, "no column 'extra'"),
        (lake.sink("t"), wrong, SettingsError, "column 'offset' is string"),
        (lake.sink("t"), marked, PoisonRowError, r"offset 0.*: broken"),
        (adding, untyped, SettingsError, "column 'extra' .* no type"),
    ]
    for sink, rows, kind, said in refused:
        with pytest.raises(kind, match=said):
            apply(sink, rows, 1)
    with pytest.raises(SettingsError, match=r"column 'extra' .* no type"):
        apply(lake.sink("u"), untyped, 0)
    assert sum(is_branch_of(QUERY, name) for name in lake.java("t").branches) == 1
    apply(adding, wider, 1)
    found = lake.other().table(lake.table("t")).orderBy("extra").collect()
    assert [row.extra for row in found] == [None, 5]


def test_a_table_that_spark_merges_nothing_into(lake: Lake) -> None:
    """It is refused by its setting; NOT NULL is in the chapter of dead letters."""
    setting = "write.spark.accept-any-schema"
    lake.spark.sql(
        f"CREATE TABLE {lake.table('t')} ({FRAME}) USING iceberg "
        f"TBLPROPERTIES ('{setting}' = 'true')"
    )
    with pytest.raises(SettingsError, match=f"has {setting}"):
        apply(lake.sink("t", mode="upsert", keys="offset"), lake.frame(rows_of(entry(0))), 0)
    assert lake.rows("t") == []


@pytest.mark.slow
def test_rows_that_may_be_marked_are_computed_once(lake: Lake) -> None:
    """Else one could be marked when it is written, and not when it is asked for."""
    context = lake.spark.sparkContext
    computed = context.accumulator(0)

    def count(row: Row) -> tuple[str, int, int, str, str | None]:
        computed.add(1)
        return (*row, None)

    rows = context.parallelize(rows_of(entry(0)) * 3, 1).map(count)
    frame = lake.spark.createDataFrame(rows, f"{FRAME}, eo_poison string")
    assert apply(lake.sink("t"), frame, 0).rows == 3
    assert computed.value == 3


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
    with pytest.raises(ForeignWriterError):
        apply(sink, lake.frame(rows_of(entry(1))).select("word"), 1)


@pytest.mark.parametrize("letters", [{}, {"dead_letters": "dead"}], ids=["plain", "sifted"])
def test_a_table_dropped_while_the_query_runs_is_not_made_again(
    lake: Lake, letters: dict[str, str]
) -> None:
    """Nor is a driver blamed, before a batch or in it, also if another program makes it again."""
    given = {name: lake.table(table) for name, table in letters.items()}
    write(lake, 0)
    sink, frame, other = lake.sink("t", **given), lake.frame(rows_of(entry(1))), lake.other()
    sink.applied(QUERY)
    drop = f"DROP TABLE {lake.table('t')}"
    other.sql(drop)
    with pytest.raises(SinkError, match=r"\(it no longer exists"):
        apply(sink, frame, 1)
    assert not other.catalog.tableExists(lake.table("t"))
    write(lake, 0)
    with pytest.raises(SinkError, match=r"it was \S+ and is now") as refused:
        apply(sink, frame, 1)
    assert not isinstance(refused.value, ForeignWriterError)

    def replace() -> None:
        other.sql(drop)
        write(lake, 0)

    for act, said in ((replace, "UUID does not match"), (lambda: other.sql(drop), "NoSuchTable")):
        sink.applied(QUERY)
        with once("sink.commit-sent", act), pytest.raises(SinkError, match=said):
            apply(sink, frame, 1)


def test_a_renamed_table_keeps_its_ledger(lake: Lake) -> None:
    """It is the table's own, under whatever name."""
    write(lake, 0)
    lake.other().sql(f"ALTER TABLE {lake.table('t')} RENAME TO {lake.namespace}.u")
    assert dict(lake.sink("u").applied(QUERY)) == heads_of(entry(0))
    assert ledger_origin(lake.sink("u"), QUERY).offsets == {TP: 1}
    assert dict(lake.sink("t").applied(QUERY)) == {}
    write(lake, 1, "u")
    assert sorted(lake.rows("u")) == expected(0, 1)


def test_names_that_are_not_there_are_named(lake: Lake) -> None:
    """A catalog, and a namespace with the command that makes it."""
    with pytest.raises(SettingsError, match="no catalog 'nowhere'"):
        IcebergSink("nowhere.db.t").applied(QUERY)
    sink = IcebergSink(f"{lake.name}.absent.t")
    assert dict(sink.applied(QUERY)) == {}
    with pytest.raises(SettingsError, match="does not exist") as refused:
        apply(sink, lake.frame(rows_of(entry(0))), 0)
    assert "CREATE NAMESPACE `lake`.`absent`" in str(refused.value.fix)


def test_a_catalog_that_does_not_answer_is_not_taken_for_none(lake: Lake) -> None:
    """Its batch is repeated, and no secret of its settings is shown, by Spark or by Java."""
    conf = catalog_conf("away", lake.folder / "absent" / "hid7q")
    conf["spark.sql.catalog.away.uri"] += "?password=hush5x"
    conf["spark.sql.catalog.away.jdbc.password"] = "hid7q"
    frame = lake.another_session(**conf).sql("SELECT 1 AS n")
    with pytest.raises(RetriableSinkError) as caught:
        apply(IcebergSink("away.db.t"), frame, 0)
    whole = "".join(traceback.format_exception(caught.value))
    assert "/absent/***" in whole
    assert "\tat org.apache.iceberg." in whole
    assert "hush5x" not in whole
    assert "hid7q" not in whole
    with pytest.raises(SettingsError, match="no catalog 'unset'"):
        apply(IcebergSink("unset.db.t"), frame, 0)


def test_a_catalog_that_comes_back_while_it_is_asked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away when the table is looked for, and back when it is asked why: it has the table."""
    name, folder = "back", lake.folder / "back"
    folder.mkdir()
    session = lake.another_session(**catalog_conf(name, folder))
    session.sql(f"CREATE NAMESPACE {name}.db")
    session.sql(f"CREATE TABLE {name}.db.t (word string) USING iceberg")
    session = lake.another_session(**catalog_conf(name, folder))
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
