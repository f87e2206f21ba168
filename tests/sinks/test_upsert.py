"""Which columns an upsert takes, its MERGE as text, and which row is the newest: without Spark."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import types
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from eo_listener.errors import SettingsError
from eo_listener.sinks.newest_row import Newest
from eo_listener.sinks.spark_columns import check_columns, check_typed, holds, is_traced
from eo_listener.sinks.spark_merge import Merge
from eo_listener.sinks.target import Mode, WriteRules

INT, LONG, TEXT = IntegerType(), LongType(), StringType()
VARIANT = [types.VariantType()] if hasattr(types, "VariantType") else []  # of Spark 4


def struct(**fields: DataType) -> StructType:
    made = StructType()
    for name, kind in fields.items():
        made.add(name, kind)
    return made


def check(rows: Mapping[str, DataType], table: Mapping[str, DataType]) -> None:
    check_columns(["id"], "at", struct(**{"id": INT, **rows}), struct(**table))


def test_only_what_has_an_order_is_a_version() -> None:
    """A number or a moment, in the table too; which may hold more, as Spark widens it."""
    check({"at": DateType()}, {"at": DateType()})
    check({"id": INT, "at": INT}, {"id": LONG, "at": LONG})
    with pytest.raises(SettingsError, match="version_column='at'"):
        check({"at": INT}, {"at": DoubleType()})


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ({"id": TEXT}, {"id": INT}),  # '1' and '01' are one number
        ({"id": LONG}, {"id": INT}),
        ({"id": DecimalType(10, 4)}, {"id": DecimalType(10, 2)}),
        ({"id": TimestampType()}, {"id": DateType()}),
        ({"id": DoubleType()}, {"id": FloatType()}),
        ({"id": TEXT}, {"id": CharType(5)}),  # which Spark pads: 'a' is never found again
        ({"id": struct(a=TEXT)}, {"id": struct(a=CharType(5))}),
        ({"at": TimestampType()}, {"at": DateType()}),  # of two on one day the older could win
    ],
)
def test_what_the_table_would_convert_is_no_key_and_no_version(
    rows: Mapping[str, DataType], table: Mapping[str, DataType]
) -> None:
    """Values that differ could be one in the table; the column is named, and what to cast it to."""
    (name,) = rows
    said = re.escape(f"column '{name}' is {rows[name].simpleString()} in the rows")
    with pytest.raises(SettingsError, match=said) as refused:
        check({"at": LONG, **rows}, table)
    kind = table[name].simpleString()
    wanted = "string or varchar" if "char" in kind else f"to {kind}"
    assert wanted in str(refused.value.fix)


MAP = MapType(TEXT, INT)


WIDENED: list[tuple[DataType, DataType]] = [
    (INT, LONG),
    (ByteType(), FloatType()),
    (INT, DoubleType()),
    (FloatType(), DoubleType()),
    (LONG, DecimalType(21, 2)),
    (DecimalType(8, 2), DecimalType(10, 3)),
    (DecimalType(9, 0), INT),
    (NullType(), DateType()),
]
CHANGED: list[tuple[DataType, DataType]] = [
    (LONG, INT),
    (INT, FloatType()),
    (LONG, DoubleType()),
    (DoubleType(), FloatType()),
    (DoubleType(), INT),
    (DoubleType(), DecimalType(38, 18)),
    (DecimalType(10, 2), DoubleType()),
    (DecimalType(10, 3), DecimalType(10, 2)),
    (DecimalType(10, 0), INT),
    (LONG, DecimalType(20, 2)),
    (TimestampType(), DateType()),
    (TimestampType(), TimestampNTZType()),  # by the zone of the session
    (DateType(), TimestampType()),
    (BooleanType(), TEXT),
    (TEXT, LONG),
]


def nested(kind: DataType) -> list[DataType]:
    """The type alone, and at each place inside others."""
    return [kind, ArrayType(kind), MapType(kind, INT), MapType(TEXT, struct(a=INT, b=kind))]


@pytest.mark.parametrize(("pairs", "fits"), [(WIDENED, True), (CHANGED, False)])
def test_a_column_takes_only_types_whose_values_it_holds(
    pairs: list[tuple[DataType, DataType]], fits: bool
) -> None:
    """At any depth; it is named otherwise, with the cast to write."""
    for kind, stored in pairs:
        for rows, table in zip(nested(kind), nested(stored), strict=True):
            assert holds(table, rows) is fits, (rows, table)
            assert holds(table, table)
    with pytest.raises(SettingsError, match="column 'v' is timestamp in the rows") as refused:
        check_columns((), None, struct(v=TimestampType()), struct(v=TimestampNTZType()))
    assert "Cast it to timestamp_ntz" in str(refused.value.fix)


def test_the_fields_of_a_struct_have_names() -> None:
    """Their order does not count, and none is added or left out."""
    assert holds(struct(a=LONG, b=TEXT), struct(b=TEXT, a=INT))
    assert not holds(struct(a=INT, b=INT), struct(a=INT))
    assert not holds(struct(a=INT), struct(a=INT, b=INT))


def test_numbers_that_are_tested_row_by_row_may_have_a_wider_type() -> None:
    """Casting back and forth shows each number that changes; a key is never converted."""

    def check_tested(keys: list[str], kind: DataType, stored: DataType) -> None:
        check_columns(keys, None, struct(v=kind), struct(v=stored), tested=True)

    check_tested([], LONG, INT)
    check_tested([], DecimalType(10, 3), DecimalType(5, 2))
    check_tested([], DoubleType(), FloatType())
    for keys, kind, stored in (
        (["v"], LONG, INT),
        ([], DoubleType(), INT),
        ([], LONG, DoubleType()),  # 2**63 - 1 comes back, but is another number there
        ([], TEXT, INT),
    ):
        with pytest.raises(SettingsError, match="column 'v'"):
            check_tested(keys, kind, stored)


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
        check_columns(["id"], None, struct(id=kind), struct())


def test_a_field_may_have_the_name_of_a_type() -> None:
    """Types are refused, not names."""
    named = {"variant": INT, "a variant": TEXT, "map<": ArrayType(struct(variant=INT))}
    check_columns(["id"], None, struct(id=struct(**named)), struct())


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
    return Merge(
        target=WriteRules(**{"mode": Mode.UPSERT, "keys": ("id",), **given}),
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
