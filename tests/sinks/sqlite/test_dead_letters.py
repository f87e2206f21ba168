"""Rows that cannot be written: aside, in the same transaction, or the batch fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eo_listener.model.errors import PoisonRowError, SettingsError, SinkError
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.faults import Killed, broken_off
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.sqlite.database import ask, script, write

pytestmark = pytest.mark.spark


def marked(spark: SparkSession, count: int = 6) -> DataFrame:
    """Rows of which every third is marked, and of the others one has no value."""
    return spark.range(0, count, 1, 1).selectExpr(
        "'flights' AS topic",
        "0 AS partition",
        "id AS offset",
        "if(id = 1, null, id) AS v",
        "if(id % 3 = 0, concat('odd ', id), null) AS eo_poison",
    )


@pytest.fixture
def table(path: Path) -> Path:
    """A file whose target refuses nulls."""
    script(path, "CREATE TABLE t (v NOT NULL CHECK (v <> 5))")
    return path


def test_they_go_into_a_table_of_their_own(spark: SparkSession, table: Path) -> None:
    """Marked and refused rows are in the dead-letter table, with origin, reason and contents."""
    sink = SqliteSink(table, "t", dead_letters="bad; rows")
    applied = write(sink, marked(spark))
    assert (applied.rows, applied.dead_letters) == (2, 4)
    assert ask(table, "SELECT v FROM t") == [2, 4]
    found = ask(table, 'SELECT "offset", reason, batch_id, query FROM "bad; rows" ORDER BY 1')
    assert found == [
        (0, "odd 0", 0, QUERY),
        (1, "NOT NULL constraint failed: t.v", 0, QUERY),
        (3, "odd 3", 0, QUERY),
        (5, "CHECK constraint failed: v <> 5", 0, QUERY),
    ]
    (row, *_) = ask(table, 'SELECT "row" FROM "bad; rows" ORDER BY "offset"')
    assert json.loads(row) == {"topic": "flights", "partition": 0, "offset": 0, "v": 0}


def test_without_a_table_for_them_the_batch_fails(spark: SparkSession, table: Path) -> None:
    """The first is named by its origin, without its contents, and nothing is written."""
    sink = SqliteSink(table, "t")
    with pytest.raises(PoisonRowError, match=r"offset 0 of flights-0 .* odd 0\. .*dead_letters"):
        write(sink, marked(spark))
    assert sink.applied(QUERY) == {}
    assert ask(table, "SELECT v FROM t") == []
    with pytest.raises(PoisonRowError, match=r"a row without .* keep topic"):
        write(sink, spark.sql("SELECT cast(null AS int) AS v"))


def test_they_are_part_of_the_transaction(spark: SparkSession, table: Path) -> None:
    """A batch that is not committed leaves no dead letters; a committed one has each once."""
    sink = SqliteSink(table, "t", dead_letters="bad")
    with broken_off("sink.ledger-moved"), pytest.raises(Killed):
        write(sink, marked(spark))
    assert not ask(table, "SELECT name FROM sqlite_schema WHERE name = 'bad'")
    write(sink, marked(spark))
    assert ask(table, "SELECT count(*) FROM bad") == [4]


def test_many_of_them(spark: SparkSession, table: Path) -> None:
    """A batch in which most rows are refused takes time in proportion to its rows."""
    sink = SqliteSink(table, "t", dead_letters="bad", max_dead_letters=0.9)
    frame = spark.range(0, 20000, 1, 2).selectExpr("if(id % 10 = 0, id, null) AS v")
    applied = write(sink, frame, count=20000)
    assert (applied.rows, applied.dead_letters) == (2000, 18000)


def test_a_database_that_ends_the_transaction_is_reported(spark: SparkSession, path: Path) -> None:
    """A constraint that rolls all back would leave dead letters without their batch."""
    script(path, "CREATE TABLE t (v NOT NULL ON CONFLICT ROLLBACK)")
    sink = SqliteSink(path, "t", dead_letters="bad")
    with pytest.raises(SinkError, match="itself: NOT NULL"):
        write(sink, spark.sql("SELECT explode(array(1, null)) AS v"))
    assert sink.applied(QUERY) == {}
    assert ask(path, "SELECT v FROM t") == []


def test_a_mark_that_is_no_text_is_refused(spark: SparkSession, path: Path) -> None:
    """A number in eo_poison is a mistake of the transform, not a reason."""
    with pytest.raises(SettingsError, match="not text"):
        write(SqliteSink(path, "t"), spark.sql("SELECT 1 AS v, 2 AS eo_poison"))
