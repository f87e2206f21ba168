"""Which columns of Spark's an upsert takes, without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from pyspark.sql import types
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.spark_columns import (
    Columns,
    check_typed,
    check_upsert,
    is_traced,
    quoted,
    types_of,
)

INT, TEXT = IntegerType(), StringType()
VARIANT = [types.VariantType()] if hasattr(types, "VariantType") else []  # of Spark 4


def struct(**fields: DataType) -> StructType:
    made = StructType()
    for name, kind in fields.items():
        made.add(name, kind)
    return made


def check(rows: Mapping[str, DataType], table: Columns) -> None:
    check_upsert(["id"], "at", struct(**{"id": INT, **rows}), table)


def test_only_what_has_an_order_is_a_version() -> None:
    """A number or a moment, in the rows and in the table."""
    check({"at": LongType()}, {})
    check({"at": DateType()}, {"at": "date"})
    for kind, table in ((TEXT, {}), (INT, {"at": "double"})):
        with pytest.raises(SettingsError, match="version_column='at'"):
            check({"at": kind}, table)


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ({"id": TEXT}, {"id": "int"}),  # '1' and '01' are one number
        ({"id": LongType()}, {"id": "int"}),
        ({"id": DecimalType(10, 4)}, {"id": "decimal(10,2)"}),
        ({"id": TimestampType()}, {"id": "date"}),
        ({"id": DoubleType()}, {"id": "float"}),
        ({"id": TEXT}, {"id": "char(5)"}),  # which Spark pads: 'a' is never found again
        ({"id": struct(a=TEXT)}, {"id": "struct<a:char(5)>"}),
        ({"at": TimestampType()}, {"at": "date"}),  # of two on one day the older could win
    ],
)
def test_what_the_table_would_convert_is_no_key_and_no_version(
    rows: Mapping[str, DataType], table: Columns
) -> None:
    """Values that differ could be one in the table; the column is named, and what to cast it to."""
    (name,) = rows
    said = re.escape(f"column '{name}' is {rows[name].simpleString()} in the rows")
    with pytest.raises(SettingsError, match=said) as refused:
        check({"at": LongType(), **rows}, table)
    wanted = "string or varchar" if "char" in table[name] else f"to {table[name]}"
    assert wanted in str(refused.value.fix)


def test_a_type_that_holds_more_is_taken() -> None:
    """As Spark widens it when it is written."""
    check({"id": INT, "at": INT}, {"id": "bigint", "at": "bigint"})


MAP = MapType(TEXT, INT)


@pytest.mark.parametrize(
    "kind",
    [
        one
        for kind in (MAP, *VARIANT)
        for one in (kind, ArrayType(kind), struct(a=INT, b=ArrayType(struct(c=kind))))
    ],
)
def test_what_spark_does_not_compare_is_no_key(kind: DataType) -> None:
    """It is named before anything runs, however deep it lies."""
    said = re.escape(f"keys= names 'id', which is {kind.simpleString()}")
    with pytest.raises(SettingsError, match=said):
        check_upsert(["id"], None, struct(id=kind), {})


def test_a_field_may_have_the_name_of_a_type() -> None:
    """Types are refused, not names."""
    named = {"variant": INT, "a variant": TEXT, "map<": ArrayType(struct(variant=INT))}
    check_upsert(["id"], None, struct(id=struct(**named)), {})


def test_a_column_without_a_type_is_not_added() -> None:
    """No table can have it; the error has the cast."""
    with pytest.raises(SettingsError, match="column 'v' of the rows has no type") as refused:
        check_typed({"id": "int", "v": "void"})
    assert "CAST(NULL AS string) AS `v`" in str(refused.value.fix)


def test_columns_that_lack_are_named() -> None:
    """By the setting that names them."""
    with pytest.raises(SettingsError, match="keys= names 'id', which"):
        check_upsert(["id"], None, struct(Id=INT), {})
    with pytest.raises(SettingsError, match="version_column= names 'at', which"):
        check_upsert(["id"], "at", struct(id=INT), {})


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
