"""Append, upsert, and the user's own SQL, on both write methods; and which sinks are one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from eo_listener.foreach_batch.batch_runner import BatchRunner
from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY
from tests.foreach_batch.stage import Plans, Run
from tests.sinks.arrow_frame import ArrowFrame, ArrowFrames
from tests.sinks.chapters.other_writers import DroppedTables
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
from tests.sinks.postgres.store import store

__all__ = ["store"]

PLACE = "SELECT next_offset, batch_id FROM eo_ledger"
Open = Callable[..., PostgresSink]


@pytest.mark.spark
class TestOnBothMethods:
    """By the driver, and by executors through a staging table."""

    pytestmark = WRITE_METHODS

    def test_append(self, spark: SparkSession, dsn: str, write_method: Any) -> None:
        """Rows of two batches are there once each, the ledger behind them, nothing else of ours."""
        sink = PostgresSink(dsn, "t", write_method=write_method)
        first = spark.createDataFrame(flights((0, 1, 0.5), (1, 2, None)), FLIGHTS).repartition(3)
        assert write(sink, first).rows == 2
        assert write(sink, spark.createDataFrame(flights((10, 1, 0.5)), FLIGHTS)).rows == 1
        assert write(sink, first.limit(0)).rows == 0
        rows = ask(dsn, 'SELECT "offset", id, delay FROM t ORDER BY 1')
        assert rows == [(0, 1, 0.5), (1, 2, None), (10, 1, 0.5)]
        assert ask(dsn, PLACE) == [(30, 2)]
        assert ask(dsn, "SELECT rows FROM eo_ledger_history ORDER BY batch_id") == [2, 1, 0]
        assert ask(dsn, STAGES) == []

    def test_upsert(self, spark: SparkSession, dsn: str, write_method: Any) -> None:
        """Of rows with one key that with the greatest offset stays, in a batch and over two."""
        script(dsn, "CREATE TABLE t (id int PRIMARY KEY, delay float8, seen text DEFAULT 'no')")
        sink = PostgresSink(dsn, "t", mode="upsert", keys="id", write_method=write_method)
        rows = flights((2, 1, 3.0), (0, 1, 1.0), (3, 2, 4.0), (1, 1, 2.0))
        assert write(sink, spark.createDataFrame(rows, FLIGHTS).repartition(4)).rows == 2
        script(dsn, "UPDATE t SET seen = 'yes' WHERE id = 2")
        write(sink, spark.createDataFrame(flights((10, 2, 9.0)), FLIGHTS))
        assert ask(dsn, "SELECT * FROM t ORDER BY id") == [(1, 3.0, "no"), (2, 9.0, "yes")]

    def test_own_statements(self, spark: SparkSession, dsn: str, write_method: Any) -> None:
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

    def test_an_own_statement_that_fails_undoes_all(
        self, spark: SparkSession, dsn: str, write_method: Any
    ) -> None:
        """An error in the second takes the first back, leaves the ledger, and is named."""
        script(dsn, "CREATE TABLE a (id int)")
        statements = ["INSERT INTO a VALUES (1)", "SELECT 1 / 0"]
        sink = PostgresSink(dsn, "a", write_method=write_method, apply=statements)
        with pytest.raises(SinkError, match=r"statement 2 of apply=.*division by zero"):
            write(sink, spark.range(2))
        assert ask(dsn, "SELECT * FROM a") == []
        assert sink.applied(QUERY) == {}
        assert ask(dsn, STAGES) == []

    def test_an_own_function(self, spark: SparkSession, dsn: str, write_method: Any) -> None:
        """It gets the connection and the entry, and its writes go with the ledger.

        It stays at home, so one that holds a lock does its work.
        """
        script(dsn, "CREATE TABLE counts (batch bigint, n bigint)")
        lock = threading.Lock()

        def count(connection: Any, entry: Any) -> None:
            with lock:
                (rows,) = connection.execute("SELECT count(*) FROM eo_batch").fetchone()
            connection.execute("INSERT INTO counts VALUES (%s, %s)", (entry.batch_id, rows))

        write(PostgresSink(dsn, "counts", apply=count, write_method=write_method), spark.range(7))
        assert ask(dsn, "SELECT * FROM counts") == [(0, 7)]


class TestDroppedTables(DroppedTables):
    """See also `TestOnBothMethods`: the table is looked for before a method is."""


ROWS = ArrowFrame.rows("id int, v string", (1, "a"), (1, "b"))


def test_upsert_makes_its_table_with_a_key(dsn: str) -> None:
    """A target that is made has the keys as its primary key, whatever they are called."""
    sink = PostgresSink(dsn, "t", mode="upsert", keys=['k"1', "k2"])
    for more in (0, 10):
        write(sink, ArrowFrame.rows('k"1 int, k2 string, v int', (1, "a", 1 + more), (1, "b", 2)))
    assert ask(dsn, "SELECT * FROM t ORDER BY v") == [(1, "b", 2), (1, "a", 11)]


def test_two_rows_with_one_key_and_no_offsets_are_refused(dsn: str) -> None:
    """Where the newest row of a key is unknown, nothing is written, and the error says why."""
    sink = PostgresSink(dsn, "t", mode="upsert", keys="id")
    with pytest.raises(SettingsError, match=r"same id.*offset"):
        write(sink, ROWS)
    assert ask(dsn, "SELECT * FROM t") == []
    assert sink.applied(QUERY) == {}


def test_keys_need_an_index(dsn: str) -> None:
    """A table without a unique index on the keys is named with the statement that makes one."""
    script(dsn, "CREATE TABLE t (id int, v text)")
    with pytest.raises(SinkError, match="CREATE UNIQUE INDEX"):
        write(PostgresSink(dsn, "t", mode="upsert", keys="id"), ArrowFrame.rows("id int", (1,)))


@pytest.mark.parametrize(
    "ends",
    [
        "COMMIT",
        ["SELECT 1", " rollback;"],
        "INSERT INTO a VALUES (1); COMMIT",
        lambda connection, _: connection.commit(),
        lambda connection, _: connection.execute("COMMIT"),
    ],
)
def test_own_sql_may_not_commit(dsn: str, ends: Any) -> None:
    """COMMIT as a statement, hidden behind one, or by a function is refused; nothing is written."""
    script(dsn, "CREATE TABLE a (id int)")
    with pytest.raises((SettingsError, SinkError), match=r"(?i)transaction|commit"):
        write(PostgresSink(dsn, "a", apply=ends), ROWS)
    assert ask(dsn, "SELECT * FROM a") == []
    assert PostgresSink(dsn, "a").applied(QUERY) == {}


# Which sinks are one


def run(*sinks: PostgresSink) -> None:
    """Write a first batch into all of them."""
    plans = Plans({0: {TP: (0, 2)}})
    BatchRunner(Run(plans, 0), sinks, ArrowFrames()).run(ROWS, 0)


@pytest.fixture
def beside(dsn: str) -> Iterator[str]:
    """A way into a schema of the same name in another database."""
    (schema,), name = ask(dsn, "SELECT current_schema()"), f"beside_{os.getpid()}"
    script(dsn, f"CREATE DATABASE {name}")
    other = make_conninfo(dsn, dbname=name)
    script(other, f"CREATE SCHEMA {schema}")
    yield other
    script(dsn, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("is_function", [False, True])
def test_one_table_by_two_ways_is_reported(dsn: str, is_function: bool) -> None:
    """With its schema named and without, or by a function: it is known before anything is written.

    Of a function that is when the ledgers were read.
    """
    (schema,) = ask(dsn, "SELECT current_schema()")
    first = PostgresSink(lambda: dsn, "t") if is_function else PostgresSink(dsn, "t", schema=schema)
    for sinks in ((first, PostgresSink(dsn, "t")), (first, first)):
        with pytest.raises(SettingsError, match="named twice"):
            run(*sinks)
    assert ask(dsn, "SELECT to_regclass('t')") == [None]


def test_functions_that_lead_to_two_servers(dsn: str, beside: str) -> None:
    """One table on each of them is two; before a connection nobody can say which server it is."""
    sinks = [PostgresSink(lambda: dsn, "t"), PostgresSink(lambda: beside, "t")]
    run(*sinks)
    for sink, way in zip(sinks, (dsn, beside), strict=True):
        assert ask(way, "SELECT v FROM t ORDER BY v") == ["a", "b"]
        _, _, place = PostgresSink(way, "t").label.rpartition(" at ")
        assert sink.label.endswith(f" at {place}")
        sink.close()
