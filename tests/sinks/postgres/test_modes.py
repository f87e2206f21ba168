"""Append, upsert, and the user's own SQL, on both write methods; and which sinks are one."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.errors import NotInLedgerError, SettingsError, SinkError
from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.foreach_batch.stage import Plans, Run
from tests.sinks.arrow_frame import ArrowFrame, ArrowFrames
from tests.sinks.chapters.other_writers import DroppedTables
from tests.sinks.postgres.course import STAGES, TP, WRITE_METHODS, Database, write

PLACE = "SELECT next_offset, batch_id FROM eo_ledger"


def flights(spark: SparkSession, *rows: str) -> DataFrame:
    """Rows from "offset, id, delay"."""
    values = ", ".join(f"({row})" for row in rows)
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS v (offset, id, delay)")
    return frame.selectExpr(
        *("'flights' topic", "0 partition", "bigint(offset) offset", "id", "double(delay) delay")
    )


@pytest.mark.spark
@WRITE_METHODS
class TestOnBothMethods:
    """By the driver, and by executors through a staging table."""

    def test_append(self, spark: SparkSession, db: Database, write_method: str) -> None:
        """Rows of two batches are there once each, the ledger behind them, nothing else of ours."""
        sink = db.sink(write_method=write_method)
        first = flights(spark, "0, 1, 0.5", "1, 2, null").repartition(3)
        assert write(sink, first).rows == 2
        assert write(sink, flights(spark, "10, 1, 0.5")).rows == 1
        assert write(sink, first.limit(0)).rows == 0
        rows = db.ask('SELECT "offset", id, delay FROM t ORDER BY 1')
        assert rows == [(0, 1, 0.5), (1, 2, None), (10, 1, 0.5)]
        assert db.ask(PLACE) == [(30, 2)]
        assert db.ask("SELECT rows FROM eo_ledger_history ORDER BY batch_id") == [2, 1, 0]
        assert db.ask(STAGES) == []

    def test_upsert(self, spark: SparkSession, db: Database, write_method: str) -> None:
        """Of rows with one key that with the greatest offset stays, in a batch and over two."""
        db.script("CREATE TABLE t (id int PRIMARY KEY, delay float8, seen text DEFAULT 'no')")
        sink = db.sink(mode="upsert", keys="id", write_method=write_method)
        first = flights(spark, "2, 1, 3.0", "0, 1, 1.0", "3, 2, 4.0", "1, 1, 2.0").repartition(4)
        assert write(sink, first).rows == 2
        db.script("UPDATE t SET seen = 'yes' WHERE id = 2")
        write(sink, flights(spark, "10, 2, 9.0"))
        assert db.ask("SELECT * FROM t ORDER BY id") == [(1, 3.0, "no"), (2, 9.0, "yes")]

    def test_own_statements(self, spark: SparkSession, db: Database, write_method: str) -> None:
        """Destructive statements on two tables run in the ledger's transaction, each batch once."""
        db.script(
            "CREATE TABLE totals (id int PRIMARY KEY, total float8)",
            "CREATE TABLE seen (id int)",
            "INSERT INTO totals VALUES (1, 100), (2, 0)",
        )
        statements = [
            "UPDATE totals SET total = total + b.delay FROM eo_batch b WHERE b.id = totals.id",
            "DELETE FROM seen WHERE id IN (SELECT id FROM eo_batch)",
            "INSERT INTO seen SELECT id FROM eo_batch WHERE '{\"a%\": 1}'::jsonb IS NOT NULL",
        ]
        sink = db.sink("totals", apply=statements, write_method=write_method)
        frame = flights(spark, "0, 1, 1.0", "1, 2, 2.0")
        assert write(sink, frame).rows == 2
        write(sink, frame)
        assert db.ask("SELECT * FROM totals ORDER BY id") == [(1, 102.0), (2, 4.0)]
        assert db.ask("SELECT id FROM seen ORDER BY id") == [1, 2]
        assert db.ask(PLACE) == [(20, 1)]

    def test_an_own_statement_that_fails_undoes_all(
        self, spark: SparkSession, db: Database, write_method: str
    ) -> None:
        """An error in the second takes the first back, leaves the ledger, and is named."""
        db.script("CREATE TABLE a (id int)")
        statements = ["INSERT INTO a VALUES (1)", "SELECT 1 / 0"]
        sink = db.sink("a", write_method=write_method, apply=statements)
        with pytest.raises(SinkError, match=r"statement 2 of apply=.*division by zero"):
            write(sink, spark.range(2))
        assert db.ask("SELECT * FROM a") == []
        assert sink.applied(QUERY) == {}
        assert db.ask(STAGES) == []

    def test_an_own_function(self, spark: SparkSession, db: Database, write_method: str) -> None:
        """Its writes go with the ledger; it stays at home, so one that holds a lock works."""
        db.script("CREATE TABLE counts (batch bigint, n bigint)")
        lock = threading.Lock()

        def count(connection: Any, entry: Any) -> None:
            with lock:
                (rows,) = connection.execute("SELECT count(*) FROM eo_batch").fetchone()
            connection.execute("INSERT INTO counts VALUES (%s, %s)", (entry.batch_id, rows))

        write(db.sink("counts", apply=count, write_method=write_method), spark.range(7))
        assert db.ask("SELECT * FROM counts") == [(0, 7)]


class TestDroppedTables(DroppedTables):
    """See also `TestOnBothMethods`: the table is looked for before a method is."""


ROWS = ArrowFrame.rows("id int, v string", (1, "a"), (1, "b"))


def test_upsert_makes_its_table_with_a_key(db: Database) -> None:
    """A target that is made has the keys as its primary key, whatever they are called."""
    sink = db.sink(mode="upsert", keys=['k"1', "k2"])
    for more in (0, 10):
        write(sink, ArrowFrame.rows('k"1 int, k2 string, v int', (1, "a", 1 + more), (1, "b", 2)))
    assert db.ask("SELECT * FROM t ORDER BY v") == [(1, "b", 2), (1, "a", 11)]


def test_keys_need_an_index(db: Database) -> None:
    """A table without a unique index on the keys is named with the statement that makes one."""
    db.script("CREATE TABLE t (id int, v text)")
    with pytest.raises(SinkError, match="CREATE UNIQUE INDEX"):
        write(db.sink(mode="upsert", keys="id"), ArrowFrame.rows("id int", (1,)))


# Which sinks are one


def run(*sinks: PostgresSink, number: int = 0) -> None:
    """Write a first batch into all of them."""
    plans = Plans({0: {TP: (0, 2)}})
    BatchRunner(Run(plans, number), sinks, ArrowFrames()).run(ROWS, 0)


def test_a_table_that_moves_to_another_schema(db: Database) -> None:
    """A batch that it has is not written again under its new name, whose ledger is empty."""
    run(db.sink())
    new = f"{db.schema}_new"
    db.script(f"CREATE SCHEMA {new}", f"ALTER TABLE t SET SCHEMA {new}")
    try:
        with pytest.raises(NotInLedgerError, match=rf"{db.schema}\.t"):
            run(db.sink(schema=new), number=1)
        assert db.ask(f"SELECT count(*) FROM {new}.t") == [2]
    finally:
        db.script(f"DROP SCHEMA {new} CASCADE")


@pytest.mark.parametrize("is_function", [False, True])
def test_one_table_by_two_ways_is_reported(db: Database, is_function: bool) -> None:
    """With its schema named and without, or by a function: before anything is written."""
    first = db.sink(dsn=lambda: db.dsn) if is_function else db.sink(schema=db.schema)
    for sinks in ((first, db.sink()), (first, first)):
        with pytest.raises(SettingsError, match="appears twice"):
            run(*sinks)
    assert db.ask("SELECT to_regclass('t')") == [None]
