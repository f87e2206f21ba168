"""Which columns an upsert takes, its MERGE as text, and which row is the newest: without Spark."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from types import SimpleNamespace
from typing import Any

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

from eo_listener.errors import SettingsError
from eo_listener.sinks.newest_row import Newest
from eo_listener.sinks.spark_columns import Columns, check_typed, check_upsert, is_traced
from eo_listener.sinks.spark_merge import Merge

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
    """A number or a moment, in the table too; which may hold more, as Spark widens it."""
    check({"at": DateType()}, {"at": "date"})
    check({"id": INT, "at": INT}, {"id": "bigint", "at": "bigint"})
    with pytest.raises(SettingsError, match="version_column='at'"):
        check({"at": INT}, {"at": "double"})


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


def test_rows_say_where_they_come_from_by_the_types_of_kafka() -> None:
    """Other columns of these names are data."""
    assert is_traced({"topic": "string", "partition": "int", "offset": "bigint", "x": "int"})
    assert not is_traced({"topic": "string", "partition": "bigint", "offset": "bigint"})
    assert not is_traced({"topic": "string"})


# The MERGE, as text

TRACED = {"topic": "string", "partition": "int", "offset": "bigint"}


def merge(*columns: str, **given: Any) -> Merge:
    target = SimpleNamespace(
        **{"keys": ("id",), "version_column": None, "delete_when": None, **given}
    )
    return Merge(
        target=target,
        table="t",
        label="t",
        rows={**dict.fromkeys(columns, "int"), **TRACED},
        columns=columns,
    )


def test_what_has_nothing_but_a_key_is_only_inserted() -> None:
    """And deleted only where that is asked for."""
    assert "WHEN MATCHED" not in merge("id").statement("v")
    text = merge("id", delete_when="gone").statement("v")
    assert text.index("THEN DELETE") < text.index("WHEN NOT MATCHED AND NOT eo_given.eo_deleted")


COLUMNS = "k, v, eo_topic, eo_partition, eo_offset"


def tied(*rows: tuple[Any, ...], traced: bool) -> list[int]:
    """Whether each row has a tie."""
    newest = Newest(keys=("k",), version=None, values=("rowid",), traced=traced)
    with closing(sqlite3.connect(":memory:")) as link:
        link.execute(f"CREATE TABLE t ({COLUMNS})")
        link.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        return [row[0] for row in link.execute(f"SELECT {newest.tied()} FROM t")]


@pytest.mark.parametrize(
    "other",
    [
        ("t", 1, 10),  # another partition
        ("u", 0, 10),  # another topic
        ("t", 0, 9),  # the same record
        (None, 0, 10),  # one that is not known
        ("t", None, 10),
        ("t", 0, None),
    ],
)
def test_what_has_no_order_is_tied(other: tuple[Any, ...]) -> None:
    """Both rows are, so that either may be the one that is asked for."""
    rows = [(1, 0, "t", 0, 9), (1, 0, *other)]
    assert tied(*rows, traced=True) == tied(*rows, traced=False) == [1, 1]
