"""Which columns of Spark's an upsert takes, without Spark."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import DecimalType, IntegerType, StructType, TimestampType

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.spark_columns import (
    Columns,
    check_typed,
    check_upsert,
    is_traced,
    quoted,
    types_of,
)


def check(rows: Columns, table: Columns) -> None:
    check_upsert(["id"], "at", {"id": "int", **rows}, table)


def test_only_what_has_an_order_is_a_version() -> None:
    """A number or a moment, in the rows and in the table."""
    check({"at": "bigint"}, {})
    check({"at": "date"}, {"at": "date"})
    for rows, table in (({"at": "string"}, {}), ({"at": "int"}, {"at": "double"})):
        with pytest.raises(SettingsError, match="version_column='at'"):
            check(rows, table)


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ({"id": "string"}, {"id": "int"}),  # '1' and '01' are one number
        ({"id": "bigint"}, {"id": "int"}),
        ({"id": "decimal(10,4)"}, {"id": "decimal(10,2)"}),
        ({"id": "timestamp"}, {"id": "date"}),
        ({"id": "double"}, {"id": "float"}),
        ({"id": "string"}, {"id": "char(5)"}),  # which Spark pads: 'a' is never found again
        ({"id": "struct<a:string>"}, {"id": "struct<a:char(5)>"}),
        ({"at": "timestamp"}, {"at": "date"}),  # of two on one day the older could win
    ],
)
def test_what_the_table_would_convert_is_no_key_and_no_version(
    rows: Columns, table: Columns
) -> None:
    """Values that differ could be one in the table; the column is named, and what to cast it to."""
    (name,) = rows
    said = re.escape(f"column '{name}' is {rows[name]} in the rows")
    with pytest.raises(SettingsError, match=said) as refused:
        check({"at": "bigint", **rows}, table)
    wanted = "string or varchar" if "char" in table[name] else f"to {table[name]}"
    assert wanted in str(refused.value.fix)


def test_a_type_that_holds_more_is_taken() -> None:
    """As Spark widens it when it is written."""
    check({"id": "int", "at": "int"}, {"id": "bigint", "at": "bigint"})


@pytest.mark.parametrize("kind", ["map<string,int>", "array<map<string,int>>", "variant"])
def test_what_spark_does_not_compare_is_no_key(kind: str) -> None:
    """It is named before anything runs."""
    with pytest.raises(SettingsError, match=f"keys= names 'id', which is {kind}"):
        check_upsert(["id"], None, {"id": kind}, {})


def test_a_column_without_a_type_is_not_added() -> None:
    """No table can have it; the error has the cast."""
    with pytest.raises(SettingsError, match="column 'v' of the rows has no type") as refused:
        check_typed({"id": "int", "v": "void"})
    assert "CAST(NULL AS string) AS `v`" in str(refused.value.fix)


def test_columns_that_lack_are_named() -> None:
    """By the setting that names them."""
    with pytest.raises(SettingsError, match="keys= names 'id', which"):
        check_upsert(["id"], None, {"Id": "int"}, {})
    with pytest.raises(SettingsError, match="version_column= names 'at', which"):
        check_upsert(["id"], "at", {"id": "int"}, {})


def test_rows_say_where_they_come_from_by_the_types_of_kafka() -> None:
    """Other columns of these names are data."""
    assert is_traced({"topic": "string", "partition": "int", "offset": "bigint", "x": "int"})
    assert not is_traced({"topic": "string", "partition": "bigint", "offset": "bigint"})
    assert not is_traced({"topic": "string"})


def test_any_name_can_be_quoted() -> None:
    """Dots and backticks included."""
    assert [quoted(name) for name in ("a", "a.b", "a`b")] == ["`a`", "`a.b`", "`a``b`"]


def test_a_schema_has_types_as_statements_write_them() -> None:
    """Of a DataFrame or a table."""
    inner = StructType().add("n", IntegerType())
    schema = StructType().add("id", DecimalType(10, 2)).add("at", TimestampType()).add("s", inner)
    assert types_of(schema) == {"id": "decimal(10,2)", "at": "timestamp", "s": "struct<n:int>"}
