"""Which columns of a frame go where, and as what; without Spark and without a server."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from eo_listener.errors import SettingsError
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.types import ColumnFormat, Encoding, Existing, column_format

ORIGIN = {"topic": "string", "partition": "integer", "offset": "long"}
ITEMS = {"type": "array"}


@pytest.mark.parametrize(
    ("spark", "made", "encoding"),
    [
        ("byte", "smallint", Encoding.PLAIN),
        ("short", "smallint", Encoding.PLAIN),
        ("integer", "integer", Encoding.PLAIN),
        ("long", "bigint", Encoding.PLAIN),
        ("float", "real", Encoding.PLAIN),
        ("double", "double precision", Encoding.PLAIN),
        ("boolean", "boolean", Encoding.PLAIN),
        ("binary", "bytea", Encoding.HEX),
        ("date", "date", Encoding.PLAIN),
        ("timestamp", "timestamp with time zone", Encoding.MOMENT),
        ("timestamp_ntz", "timestamp", Encoding.PLAIN),
        ("decimal(38,18)", "numeric(38, 18)", Encoding.PLAIN),
        ("decimal(5, -2)", "numeric(5, -2)", Encoding.PLAIN),
        ("string", "text", Encoding.TEXT),
        ("varchar(7)", "text", Encoding.TEXT),
        ("char(7)", "text", Encoding.TEXT),
        ("string collate UTF8_LCASE", "text", Encoding.TEXT),
        ("void", "text", Encoding.TEXT),
        ("time(6)", "time", Encoding.WORD),
        ({"type": "struct", "fields": []}, "jsonb", Encoding.JSON),
        ({"type": "map", "keyType": "string", "valueType": "long"}, "jsonb", Encoding.JSON),
        (ITEMS | {"elementType": ITEMS | {"elementType": "long"}}, "jsonb", Encoding.JSON),
    ],
)
def test_a_column_is_made_of_the_type_that_holds_it(
    spark: Any, made: str, encoding: Encoding
) -> None:
    """Where no table is there yet; an array of it is an array."""
    assert column_format("c", spark) == ColumnFormat(postgres=made, encoding=encoding)
    if isinstance(spark, str):
        assert column_format("c", ITEMS | {"elementType": spark}) == ColumnFormat(
            postgres=f"{made}[]", encoding=Encoding.ARRAY, element=encoding
        )


def modified(precision: int, scale: int) -> int:
    """The atttypmod of numeric(precision, scale)."""
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("spark", "base", "modifier", "encoding"),
    [
        ("byte", "int2", -1, Encoding.PLAIN),
        ("long", "numeric", -1, Encoding.PLAIN),
        ("long", "numeric", modified(20, 0), Encoding.PLAIN),
        ("long", "numeric", modified(20, 3), Encoding.PLAIN),
        ("long", "numeric", modified(20, -3), None),
        ("long", "float8", -1, None),
        ("decimal(10,5)", "numeric", modified(10, 5), Encoding.PLAIN),
        ("decimal(10,5)", "numeric", modified(10, 4), None),
        ("decimal(10,-3)", "numeric", modified(10, -3), Encoding.PLAIN),
        ("decimal(10,-3)", "numeric", modified(10, -4), None),
        ("decimal(10,-3)", "numeric", modified(10, 1000), Encoding.PLAIN),
        ("decimal(10,5)", "int8", -1, None),
        ("double", "numeric", -1, Encoding.PLAIN),
        ("double", "numeric", modified(20, 5), None),
        ("double", "float4", -1, None),
        ("float", "float4", -1, Encoding.PLAIN),
        ("timestamp", "timestamptz", -1, Encoding.MOMENT),
        ("timestamp", "timestamptz", 6, Encoding.MOMENT),
        ("timestamp", "timestamptz", 5, None),
        ("timestamp", "timestamp", 6, Encoding.UTC),
        ("timestamp", "timestamp", 3, None),
        ("timestamp", "text", -1, Encoding.STAMP),
        ("timestamp", "date", -1, None),
        ("timestamp_ntz", "timestamp", 6, Encoding.PLAIN),
        ("timestamp_ntz", "timestamp", 0, None),
        ("timestamp_ntz", "timestamptz", -1, None),
        ("timestamp_ntz", "varchar", -1, Encoding.WORD),
        ("date", "date", -1, Encoding.PLAIN),
        ("date", "timestamp", 0, Encoding.PLAIN),  # midnight has no digits
        ("date", "bpchar", -1, Encoding.WORD),
        ("long", "text", -1, Encoding.PLAIN),
        ("time(6)", "time", 6, Encoding.WORD),
        ("time(6)", "time", 3, None),
        ("string", "citext", -1, Encoding.TEXT),
        ("binary", "bytea", -1, Encoding.HEX),
        ("binary", "text", -1, None),
        ("string", "numeric", -1, Encoding.TEXT),
        ("string", "numeric", modified(10, 2), None),
        ("string", "enum", -1, Encoding.TEXT),
        ("string", "varchar", 7, Encoding.TEXT),
        *(("string", base, -1, None) for base in ("timestamp", "date", "money", "float4")),
        *(("string", base, -1, None) for base in ("timestamptz", "name", "char")),
    ],
)
def test_a_column_that_is_there_is_used_as_it_is_or_refused(
    spark: str, base: str, modifier: int, encoding: Encoding | None
) -> None:
    """It must keep every value, each of its digits and elements of arrays; no text is parsed."""
    there = Existing(base=base, element=None, modifier=modifier, type_name="it")
    array = Existing(base=f"_{base}", element=base, modifier=modifier, type_name="them")
    items = ITEMS | {"elementType": spark}
    if encoding is None:
        for kind, column, said in ((spark, there, spark), (items, array, f"array of {spark}")):
            with pytest.raises(SettingsError) as refused:
                column_format("c", kind, column)
            assert refused.value.problem == (
                f"column 'c' is {said} in the rows and {column.type_name} in the table"
            )
        return
    assert column_format("c", spark, there) == ColumnFormat(postgres="it", encoding=encoding)
    far = encoding in (Encoding.STAMP, Encoding.WORD) and not spark.startswith("time(")
    element = column_format("c", spark).encoding if far else encoding
    assert column_format("c", items, array) == ColumnFormat(
        postgres="them", encoding=Encoding.ARRAY, element=element
    )


STRUCT = {
    "type": "struct",
    "fields": [{"name": "v", "type": "long"}, {"name": "V", "type": "long"}],
}
STRUCTS, LONGS = ITEMS | {"elementType": STRUCT}, ITEMS | {"elementType": "long"}


@pytest.mark.parametrize(
    ("base", "element", "holds"),
    [
        ("jsonb", None, [STRUCT, STRUCTS, LONGS]),
        ("json", None, [STRUCT, STRUCTS, LONGS]),
        ("text", None, [STRUCT, STRUCTS]),
        ("bytea", None, []),
        ("_int8", "int8", [LONGS]),
    ],
)
def test_json_goes_where_json_is_read(base: str, element: str | None, holds: list[Any]) -> None:
    """A struct is a JSON document, in a column of text too; an array only where it is no array."""
    there = Existing(base=base, element=element, modifier=-1, type_name="it")
    encoding = Encoding.ARRAY if element else Encoding.JSON
    for kind in (STRUCT, STRUCTS, LONGS):
        if kind in holds:
            assert column_format("c", kind, there).encoding is encoding
        else:
            with pytest.raises(SettingsError, match=r"'c' is (struct|array)"):
                column_format("c", kind, there)


def test_a_struct_with_a_name_twice_is_refused() -> None:
    """In a table that is made and in one that is there: jsonb would keep the last value only."""
    twice = {"type": "struct", "fields": [{"name": "v", "type": "long"}] * 2}
    for there in (None, Existing(base="jsonb", element=None, modifier=-1, type_name="jsonb")):
        with pytest.raises(SettingsError, match="field named 'v'"):
            column_format("c", ITEMS | {"elementType": twice}, there)


def test_a_generated_column_is_named() -> None:
    """Rows that have a column which only the server fills are told so."""
    there = Existing(base="int4", element=None, modifier=-1, type_name="integer", generated=True)
    with pytest.raises(SettingsError, match="GENERATED ALWAYS"):
        column_format("c", "integer", there)


@pytest.mark.parametrize(
    ("spark", "said", "fix"),
    [
        ("interval", "has Spark's type interval", "Cast it in the transform"),
        (ITEMS | {"elementType": "interval"}, "Spark's type interval", "Cast it"),
        ({"type": "udt", "class": "x"}, "a user-defined type", "Extract its values"),
        ({"type": "map", "keyType": "date", "valueType": "long"}, "keys of type date", "transform"),
        (
            ITEMS | {"elementType": {"type": "map", "keyType": {"type": "array"}}},
            "keys of type array",
            "transform",
        ),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "interval day to second"}]},
            "type interval day to second",
            "Cast it",
        ),
    ],
)
def test_a_type_without_a_form_is_refused(spark: Any, said: str, fix: str) -> None:
    """A type that cannot be written is refused by its column, with what to do."""
    for there in (None, Existing(base="text", element="text", modifier=-1, type_name="it")):
        with pytest.raises(SettingsError) as refused:
            column_format("c", spark, there)
        assert refused.value.problem.startswith(("column 'c' has", "column 'c.a' has"))
        assert said in refused.value.problem
        assert fix in str(refused.value.fix)


def laid(
    kinds: dict[str, str],
    existing: dict[str, str] | None = None,
    *,
    direct: bool = False,
    **how: Any,
) -> ColumnLayout:
    """The layout of rows of these types, for a table that has these columns."""
    target = PostgresSink("host=h", "t", **how)._target
    schema = {"fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    there = None
    if existing is not None:
        there = {
            name: Existing(base=base, element=None, modifier=-1, type_name=base)
            for name, base in existing.items()
        }
    return ColumnLayout.from_schema(schema, there, target, direct=direct)


TELLING = {"topic": "text", "partition": "int4", "offset": "int8"}


@pytest.mark.parametrize(
    ("existing", "located"),
    [
        (None, True),
        (TELLING, True),
        (TELLING | {"topic": "citext", "partition": "numeric", "offset": "numeric"}, True),
        (TELLING | {"topic": "bpchar"}, False),  # which pads it
        (TELLING | {"offset": "text"}, False),
        (TELLING | {"partition": "text"}, False),
        ({"topic": "text", "partition": "int4"}, False),
        ({}, False),
    ],
)
def test_rows_of_the_table_say_where_they_came_from(
    existing: dict[str, str] | None, located: bool
) -> None:
    """Only where it keeps topic, partition and offset, in types that hold them as what they are."""
    there = None if existing is None else {"k": "int8", **existing}
    assert laid({"k": "long", **ORIGIN}, there).located is located
    assert not laid({"k": "long", **ORIGIN, "offset": "integer"}, there).located


@pytest.mark.parametrize(
    ("spark", "base", "fits"),
    [
        ("long", None, True),
        ("long", "numeric", True),
        ("long", "text", False),
        ("byte", "int2", True),
        ("date", "timestamp", True),
        ("date", "text", False),
        ("timestamp", "timestamp", True),
        ("timestamp", "timestamptz", True),
        ("timestamp_ntz", "timestamp", True),
        ("string", "text", False),
        ("double", "float8", False),
    ],
)
def test_a_version_is_what_both_order_alike(spark: str, base: str | None, fits: bool) -> None:
    """Whole numbers, dates and moments, in columns that order them so too."""
    kinds = {"k": "long", "v": spark}
    there = None if base is None else {"k": "int8", "v": base}
    how: dict[str, Any] = {"mode": "upsert", "keys": "k", "version_column": "v"}
    if fits:
        assert laid(kinds, there, **how).row_filter.version == "v"
    else:
        with pytest.raises(SettingsError, match="version_column='v' is"):
            laid(kinds, there, **how)


def test_offsets_that_are_none_trace_nothing() -> None:
    """Columns called topic, partition and offset of other types are data."""
    kinds = {"k": "long", **ORIGIN, "partition": "string", "offset": "date"}
    assert not laid(kinds, mode="upsert", keys="k").traced


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("x" * 63, True),
        ("\u00fc" * 31, True),
        (" ", True),
        ("x" * 64, False),
        ("\u00fc" * 32, False),
        ("", False),
        ("a\x00b", False),
    ],
)
def test_a_name_that_postgresql_would_not_keep_is_refused(name: str, fits: bool) -> None:
    """It is bounded in bytes: of two long names one may be the other."""
    given: list[dict[str, Any]] = [{"table": name}, {"schema": name}, {"keys": name}]
    refused = nullcontext() if fits else pytest.raises(SettingsError)
    for one in given:
        with refused:
            PostgresSink("host=h", **{"table": "t", "keys": "k", "mode": "upsert", **one})
    with refused:
        assert laid({name: "long"}).written == (name,)
