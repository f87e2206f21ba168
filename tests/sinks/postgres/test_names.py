"""Names are data, in every place where a name can stand; what cannot be a name is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import HOSTILE, entry_of, heads_of, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.postgres.course import WRITE_METHODS, another_role, ask, script, write

rows = ArrowFrame.rows
NASTY = "a\"b'c\n;--\\ %s {0} $1"


@pytest.mark.spark
@WRITE_METHODS
def test_every_name_is_data(spark: SparkSession, dsn: str, write_method: Any) -> None:
    """Schema, table, columns, keys, dead letters, query, topic: quotes and SQL in each of them."""
    script(dsn, "CREATE TABLE precious (id int)")
    schema = f"s {NASTY}"
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    names = ["k" + NASTY, *(word[:60] for word in HOSTILE)]
    frame = spark.createDataFrame(
        [(*(f"{name} {row}" for name in names), "dead" if row else None) for row in range(2)],
        [*names, "eo_poison"],
    )
    given: dict[str, Any] = {"keys": "k" + NASTY, "dead_letters": "d" + NASTY, "mode": "upsert"}
    sink = PostgresSink(dsn, "t" + NASTY, schema=schema, write_method=write_method, **given)
    try:
        heads = sink.applied(NASTY)
        entry = entry_of(heads, {TopicPartition(NASTY, 0): OffsetRange(0, 2)}, query=NASTY)
        applied = sink.apply(frame, entry, plan_of(entry))
        assert (applied.rows, applied.dead_letters) == (1, 1)
        assert sink.applied(NASTY) == heads_of(entry)
        with psycopg.connect(dsn) as link:
            table = sql.Identifier(schema, "t" + NASTY)
            cursor = link.execute(sql.SQL("SELECT * FROM {}").format(table))
            assert [column.name for column in cursor.description or ()] == names
            assert cursor.fetchall() == [tuple(f"{name} 0" for name in names)]
    finally:
        with psycopg.connect(dsn, autocommit=True) as link:
            link.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    assert ask(dsn, "SELECT * FROM precious") == []


def test_a_longer_name_is_refused(dsn: str) -> None:
    """64 bytes are refused for a table, a schema, a column, also where they are few characters."""
    long = "\u00e9" * 32
    for named in ({"table": long}, {"table": "t", "schema": long}, {"table": "t", "keys": long}):
        with pytest.raises(SettingsError, match="63 bytes"):
            PostgresSink(dsn, mode="upsert", **{"keys": "k", **named})  # type: ignore[arg-type]  # one of several
    with pytest.raises(SettingsError, match="63 bytes"):
        write(PostgresSink(dsn, "t"), rows(f"{long} int", (1,)))
    write(PostgresSink(dsn, "t" * 63), rows("\u00e9" * 31 + " int", (1,)))
    assert ask(dsn, f"SELECT count(*) FROM {'t' * 63}") == [1]


@pytest.mark.parametrize("name", ["", "a\x00b"])
def test_what_is_no_name_is_refused(dsn: str, name: str) -> None:
    """An empty name and one with NUL are refused at once."""
    with pytest.raises(SettingsError):
        PostgresSink(dsn, name)
    with pytest.raises(SettingsError):
        PostgresSink(dsn, "t", schema=name)


def test_columns_that_differ_in_case_alone_or_are_missing(dsn: str) -> None:
    """A column that the table lacks is named with those it has."""
    script(dsn, "CREATE TABLE t (id bigint, v text)")
    with pytest.raises(SettingsError, match=r"no column 'ID'; it has 'id', 'v'"):
        write(PostgresSink(dsn, "t"), rows("ID bigint", (1,)))


def test_create_false_says_what_to_type(dsn: str) -> None:
    """Ledger, table and dead letters that are missing come with DDL that makes them."""
    sink = PostgresSink(dsn, "t", create=False, dead_letters="dead")
    frame = rows("id% bigint", (1,))
    for _ in range(3):
        with pytest.raises(SettingsError, match="create=False") as refused:
            write(sink, frame)
        script(dsn, str(refused.value.fix).partition(": ")[2])
    assert write(sink, frame).rows == 1


def test_a_role_without_rights_is_reported(dsn: str) -> None:
    """A role that may not make the ledger, or not write the table, is told what it lacks."""
    with another_role(dsn, "GRANT USAGE ON SCHEMA {schema} TO {role}") as poor:
        with pytest.raises(SinkError, match=r"permission denied for schema.*GRANT"):
            PostgresSink(poor, "t").applied("q")
        write(PostgresSink(dsn, "t"), rows("id bigint", (1,)))
        role = conninfo_to_dict(poor)["user"]
        script(dsn, f"GRANT ALL ON eo_ledger, eo_ledger_history TO {role}")
        with pytest.raises(SinkError, match=r"permission denied for table t.*GRANT"):
            write(PostgresSink(poor, "t"), rows("id bigint", (1,)))
    assert ask(dsn, "SELECT count(*) FROM t") == [1]
