"""Append, upsert, and the user's own SQL, on both write methods."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.foreach_batch.dataframes import DataFrames
from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.foreach_batch.stage import Plans, Run
from tests.sinks.postgres.course import (
    FLIGHTS,
    STAGES,
    TP,
    WRITE_METHODS,
    ask,
    flights,
    script,
    write,
)

pytestmark = [pytest.mark.spark]

PLACE = "SELECT next_offset, batch_id FROM eo_ledger"


@WRITE_METHODS
def test_append(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """Rows of two batches are there once each, the ledger behind them, and nothing else of ours."""
    sink = PostgresSink(dsn, "t", write_method=write_method)
    first = spark.createDataFrame(flights((0, 1, 0.5), (1, 2, None)), FLIGHTS).repartition(3)
    assert write(sink, first).rows == 2
    assert write(sink, spark.createDataFrame(flights((10, 1, 0.5)), FLIGHTS)).rows == 1
    assert write(sink, first.limit(0)).rows == 0
    assert ask(dsn, 'SELECT "offset", id, delay FROM t ORDER BY 1') == [
        (0, 1, 0.5),
        (1, 2, None),
        (10, 1, 0.5),
    ]
    assert ask(dsn, PLACE) == [(30, 2)]
    assert ask(dsn, "SELECT rows FROM eo_ledger_history ORDER BY batch_id") == [2, 1, 0]
    assert ask(dsn, STAGES) == []


@WRITE_METHODS
def test_upsert(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """Of rows with one key the one with the greatest offset stays, within a batch and over two."""
    script(dsn, "CREATE TABLE t (id int PRIMARY KEY, delay float8, seen text DEFAULT 'no')")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="id", write_method=write_method)
    rows = flights((2, 1, 3.0), (0, 1, 1.0), (3, 2, 4.0), (1, 1, 2.0))
    assert write(sink, spark.createDataFrame(rows, FLIGHTS).repartition(4)).rows == 2
    script(dsn, "UPDATE t SET seen = 'yes' WHERE id = 2")
    write(sink, spark.createDataFrame(flights((10, 2, 9.0)), FLIGHTS))
    assert ask(dsn, "SELECT * FROM t ORDER BY id") == [(1, 3.0, "no"), (2, 9.0, "yes")]


def test_upsert_makes_its_table_with_a_key(spark: SparkSession, dsn: str) -> None:
    """A target that is made has the keys as its primary key, whatever they are called."""
    sink = PostgresSink(dsn, "t", mode="upsert", keys=['k"1', "k2"])
    frame = spark.createDataFrame([(1, "a", 1), (1, "b", 2)], '`k"1` int, k2 string, v int')
    write(sink, frame)
    write(sink, frame.selectExpr('`k"1`', "k2", "v + 10 AS v"))
    assert ask(dsn, "SELECT * FROM t ORDER BY v") == [(1, "a", 11), (1, "b", 12)]


def test_two_rows_with_one_key_and_no_offsets_are_refused(spark: SparkSession, dsn: str) -> None:
    """Where the newest row of a key is unknown, nothing is written, and the error says why."""
    sink = PostgresSink(dsn, "t", mode="upsert", keys="id")
    with pytest.raises(SettingsError, match=r"same id.*offset"):
        write(sink, spark.createDataFrame([(1, "a"), (1, "b")], "id int, v string"))
    assert ask(dsn, "SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}


def test_keys_need_an_index(spark: SparkSession, dsn: str) -> None:
    """A table without a unique index on the keys is named with the statement that makes one."""
    script(dsn, "CREATE TABLE t (id int, v text)")
    sink = PostgresSink(dsn, "t", mode="upsert", keys="id")
    with pytest.raises(SinkError, match="CREATE UNIQUE INDEX"):
        write(sink, spark.createDataFrame([(1, "a")], "id int, v string"))


@WRITE_METHODS
def test_own_statements(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """Destructive statements on two tables run in the ledger's transaction, each batch once."""
    script(
        dsn,
        "CREATE TABLE totals (id int PRIMARY KEY, total float8)",
        "CREATE TABLE seen (id int)",
        "INSERT INTO totals VALUES (1, 100), (2, 0)",
    )
    statements = [
        "UPDATE totals SET total = total + b.delay FROM eo_batch b WHERE b.id = totals.id",
        "DELETE FROM seen WHERE id IN (SELECT id FROM eo_batch)",
        "INSERT INTO seen SELECT id FROM eo_batch WHERE '{\"a%\": 1}'::jsonb IS NOT NULL",
    ]
    sink = PostgresSink(dsn, "totals", apply=statements, write_method=write_method)
    frame = spark.createDataFrame(flights((0, 1, 1.0), (1, 2, 2.0)), FLIGHTS)
    assert write(sink, frame).rows == 2
    write(sink, frame)
    assert ask(dsn, "SELECT * FROM totals ORDER BY id") == [(1, 102.0), (2, 4.0)]
    assert ask(dsn, "SELECT id FROM seen ORDER BY id") == [1, 2]
    assert ask(dsn, PLACE) == [(20, 1)]


@WRITE_METHODS
def test_an_own_statement_that_fails_undoes_all(
    spark: SparkSession, dsn: str, write_method: Any
) -> None:
    """An error in the second statement takes the first back, leaves the ledger, and is named."""
    script(dsn, "CREATE TABLE a (id int)")
    sink = PostgresSink(
        dsn, "a", write_method=write_method, apply=["INSERT INTO a VALUES (1)", "SELECT 1 / 0"]
    )
    with pytest.raises(SinkError, match=r"statement 2 of apply=.*division by zero"):
        write(sink, spark.range(2))
    assert ask(dsn, "SELECT * FROM a") == []
    assert sink.applied(QUERY) == {}
    assert ask(dsn, STAGES) == []


@WRITE_METHODS
def test_an_own_function(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """A function gets the connection and the entry, and its writes go with the ledger."""
    script(dsn, "CREATE TABLE counts (batch bigint, n bigint)")

    def count(connection: Any, entry: Any) -> None:
        (rows,) = connection.execute("SELECT count(*) FROM eo_batch").fetchone()
        connection.execute("INSERT INTO counts VALUES (%s, %s)", (entry.batch_id, rows))

    sink = PostgresSink(dsn, "counts", apply=count, write_method=write_method)
    write(sink, spark.range(7))
    assert ask(dsn, "SELECT * FROM counts") == [(0, 7)]


def test_an_own_function_stays_at_home(spark: SparkSession, dsn: str) -> None:
    """With staging a function need not travel: one that holds a lock does its work."""
    script(dsn, "CREATE TABLE counts (n bigint)")
    lock = threading.Lock()

    def count(connection: Any, entry: Any) -> None:
        with lock:
            connection.execute("INSERT INTO counts SELECT count(*) FROM eo_batch")

    write(PostgresSink(dsn, "counts", apply=count, write_method="staging"), spark.range(7))
    assert ask(dsn, "SELECT * FROM counts") == [7]


@pytest.mark.parametrize("method", ["commit", "execute"])
def test_an_own_function_may_not_commit(spark: SparkSession, dsn: str, method: str) -> None:
    """A function that ends the transaction is told so, and the ledger is not moved."""
    script(dsn, "CREATE TABLE a (id int)")

    def end(connection: Any, entry: Any) -> None:
        connection.commit() if method == "commit" else connection.execute("COMMIT")

    sink = PostgresSink(dsn, "a", apply=end)
    with pytest.raises(SinkError, match=r"commit|COMMIT"):
        write(sink, spark.range(2))
    assert sink.applied(QUERY) == {}
    sink.close()


@pytest.mark.parametrize(
    "statements", ["COMMIT", ["SELECT 1", " rollback;"], "INSERT INTO a VALUES (1); COMMIT"]
)
def test_own_statements_may_not_commit(spark: SparkSession, dsn: str, statements: Any) -> None:
    """COMMIT as a statement, or hidden behind one, is refused, and nothing is written."""
    script(dsn, "CREATE TABLE a (id int)")
    with pytest.raises((SettingsError, SinkError), match=r"transaction|multiple commands"):
        write(PostgresSink(dsn, "a", apply=statements), spark.range(2))
    assert ask(dsn, "SELECT * FROM a") == []


@WRITE_METHODS
def test_a_dropped_table_is_not_recreated(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """The ledger has rows of it: recreated it would begin in the middle."""
    sink = PostgresSink(dsn, "t's", write_method=write_method)
    frame = spark.range(2).toDF("v")
    write(sink, frame)
    script(dsn, 'ALTER TABLE "t\'s" RENAME TO kept')
    new = entry_of(
        sink.applied(QUERY), {TopicPartition("flights", 1): OffsetRange(0, 1)}, batch_id=1
    )
    with pytest.raises(SettingsError, match="flights-0 was written up to 10"):
        sink.apply(frame, new, plan_of(new))
    with pytest.raises(SettingsError, match="flights-0 was written up to 10") as raised:
        write(sink, frame)
    assert ask(dsn, "SELECT next_offset FROM eo_ledger") == [10]
    assert ask(dsn, """SELECT to_regclass('"t''s"')""") == [None]
    script(dsn, str(raised.value.fix).partition("empty one: ")[2].rpartition(", and")[0])
    write(sink, frame)
    assert ask(dsn, 'SELECT count(*) FROM "t\'s"') == [2]


def test_one_table_by_two_names_is_reported(spark: SparkSession, dsn: str) -> None:
    """With its schema named and without, the ledger has one key for it: nothing is written."""
    (schema,) = ask(dsn, "SELECT current_schema()")
    plans = Plans({0: {TP: (0, 2)}})
    sinks = [PostgresSink(dsn, "t"), PostgresSink(dsn, "t", schema=schema)]
    with pytest.raises(SettingsError, match="named twice"):
        BatchRunner(Run(plans, 0), sinks, DataFrames()).run(spark.range(2).toDF("v"), 0)
    assert ask(dsn, "SELECT to_regclass('t')") == [None]


@pytest.fixture
def beside(dsn: str) -> Iterator[str]:
    """A way into a schema of the same name in another database."""
    (schema,), name = ask(dsn, "SELECT current_schema()"), f"beside_{os.getpid()}"
    script(dsn, f"CREATE DATABASE {name}")
    other = make_conninfo(dsn, dbname=name)
    script(other, f"CREATE SCHEMA {schema}")
    yield other
    script(dsn, f"DROP DATABASE {name} WITH (FORCE)")


def test_functions_that_lead_to_two_servers(spark: SparkSession, dsn: str, beside: str) -> None:
    """One table on each of them is two; before a connection nobody can say which server it is."""
    plans, rows = Plans({0: {TP: (0, 2)}}), spark.range(2).toDF("v")
    sinks = [PostgresSink(lambda: dsn, "t"), PostgresSink(lambda: beside, "t")]
    BatchRunner(Run(plans, 0), sinks, DataFrames()).run(rows, 0)
    for way in (dsn, beside):
        assert ask(way, "SELECT v FROM t ORDER BY v") == [0, 1]
    for sink, way in zip(sinks, (dsn, beside), strict=True):
        _, _, place = PostgresSink(way, "t").label.rpartition(" at ")
        assert sink.label.endswith(f" at {place}")
        sink.close()


def test_functions_that_lead_to_one_server(spark: SparkSession, dsn: str) -> None:
    """It is known when the ledgers were read, and before anything is written."""
    plans, rows = Plans({0: {TP: (0, 2)}}), spark.range(2).toDF("v")
    sinks = [PostgresSink(lambda: dsn, "t"), PostgresSink(dsn, "t")]
    with pytest.raises(SettingsError, match="named twice"):
        BatchRunner(Run(plans, 0), sinks, DataFrames()).run(rows, 0)
    assert ask(dsn, "SELECT to_regclass('t')") == [None]
    with pytest.raises(SettingsError, match="named twice"):
        BatchRunner(Run(plans, 0), [sinks[0]] * 2, DataFrames())
