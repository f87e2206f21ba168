"""Which columns of a frame go where, and as what; without Spark and without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql

from eo_listener.model.errors import SettingsError
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
    ],
)
def test_a_column_that_is_there_is_used_as_it_is_or_refused(
    spark: str, base: str, modifier: int, encoding: Encoding | None
) -> None:
    """It must keep every value and each of its digits; elements of arrays are checked alike."""
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


@pytest.mark.parametrize(
    ("base", "element", "fits"),
    [
        ("jsonb", None, True),
        ("json", None, True),
        ("text", None, True),
        ("bytea", None, False),
        ("_int8", "int8", False),
    ],
)
def test_json_goes_where_json_is_read(base: str, element: str | None, fits: bool) -> None:
    """A struct is a JSON document, in a column of text too; an array only where it is no array."""
    there = Existing(base=base, element=element, modifier=-1, type_name="it")
    struct = {"type": "struct", "fields": [{"name": "v", "type": "long"}]}
    longs = ITEMS | {"elementType": "long"}
    wanted = ColumnFormat(postgres="it", encoding=Encoding.JSON)
    if fits:
        assert column_format("c", struct, there) == wanted
        assert column_format("c", ITEMS | {"elementType": struct}, there) == wanted
    else:
        for kind, said in ((struct, "struct"), (ITEMS | {"elementType": struct}, "array")):
            with pytest.raises(SettingsError, match=f"'c' is {said} in the rows and it in"):
                column_format("c", kind, there)
    if base in ("jsonb", "json"):
        assert column_format("c", longs, there) == wanted
    elif element is None:
        with pytest.raises(SettingsError, match="'c' is array of long in the rows"):
            column_format("c", longs, there)
    else:
        assert column_format("c", longs, there).element is Encoding.PLAIN


@pytest.mark.parametrize(
    ("spark", "said", "fix"),
    [
        ("interval", "of Spark's type interval, which", "Cast it in the transform"),
        (ITEMS | {"elementType": "interval"}, "of Spark's type interval", "Cast it"),
        ({"type": "udt", "class": "x"}, "a user-defined type", "Take the values out"),
    ],
)
def test_a_type_without_a_form_is_refused(spark: Any, said: str, fix: str) -> None:
    """A type that cannot be written is refused by its column, with what to do."""
    for there in (None, Existing(base="text", element="text", modifier=-1, type_name="it")):
        with pytest.raises(SettingsError) as refused:
            column_format("c", spark, there)
        assert refused.value.problem.startswith("column 'c' is")
        assert said in refused.value.problem
        assert fix in str(refused.value.fix)


def test_a_refused_column_is_reported_with_what_to_make_of_it() -> None:
    """The type that would hold it, where it is one of the simple ones, and why."""
    there = Existing(base="numeric", element=None, modifier=655366, type_name="numeric(10,2)")
    with pytest.raises(SettingsError) as refused:
        column_format("c", "double", there)
    assert "rounded" in str(refused.value.cause)
    assert str(refused.value.fix).endswith("TYPE double precision")
    with pytest.raises(SettingsError) as refused:
        column_format("c", "decimal(10,3)", replace(there, base="int4"))
    assert "refuse or change" in str(refused.value.cause)
    assert str(refused.value.fix).endswith("TYPE one that holds it")


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
    return ColumnLayout.of(schema, there, target, direct=direct)


@pytest.mark.parametrize(
    ("direct", "how", "traced"),
    [
        (False, {}, True),
        (True, {}, False),
        (False, {"apply": ["SELECT 1"]}, False),
    ],
)
def test_staged_rows_say_where_they_came_from(
    direct: bool, how: dict[str, Any], traced: bool
) -> None:
    """In columns of ours, unless they go into the target at once or to the user's SQL."""
    layout = laid({"k": "long", **ORIGIN}, {"k": "int8"}, direct=direct, **how)
    assert (layout.written, layout.traced, layout.located) == (("k",), traced, False)
    more = ("eo_topic", "eo_partition", "eo_offset") if traced else ()
    assert layout.names == ("k", *more)
    assert [made.postgres for _, made in layout.fields] == [
        "int8",
        *(("text", "integer", "bigint") if traced else ()),
    ]
    assert [name for name, _ in layout.fields] == ["k", *(ORIGIN if traced else ())]


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


def test_keys_are_among_what_is_written() -> None:
    """Those that are not are named, and nothing but those."""
    kinds = {"k": "long", "v": "long"}
    assert laid(kinds, mode="upsert", keys=["k", "v"]).written == ("k", "v")
    with pytest.raises(SettingsError) as refused:
        laid(kinds, mode="upsert", keys=["k", "z", "y"])
    assert refused.value.problem.startswith("keys= names 'y', 'z',")


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("x" * 63, True),
        ("\u00fc" * 31, True),
        ("x" * 64, False),
        ("\u00fc" * 32, False),
        ("", False),
        ("a\x00b", False),
        (" ", True),
    ],
)
def test_a_name_that_postgresql_would_not_keep_is_refused(name: str, fits: bool) -> None:
    """It is bounded in bytes; of two long names one might be the other."""
    if fits:
        assert laid({name: "long"}).written == (name,)
    else:
        with pytest.raises(SettingsError):
            laid({name: "long"})


def test_statements_have_the_columns_of_the_lines() -> None:
    """A table that is made, a COPY of lines with more at their ends, and a query of their shape."""
    layout = laid({"k": "long", 'a"b': "string", **ORIGIN}, {"k": "int8", 'a"b': "text"})
    table = sql.Identifier("s", "t")
    assert layout.definition(table, ["k", 'a"b']).as_string(None) == (
        'CREATE TABLE IF NOT EXISTS "s"."t" ("k" int8, "a""b" text, PRIMARY KEY ("k", "a""b"))'
    )
    assert layout.definition(table, []).as_string(None) == (
        'CREATE TABLE IF NOT EXISTS "s"."t" ("k" int8, "a""b" text)'
    )
    assert layout.copy(table, "eo_turn", "n").as_string(None) == (
        'COPY "s"."t" ("k", "a""b", "eo_topic", "eo_partition", "eo_offset", "eo_turn", "n") '
        "FROM STDIN (FORMAT text, ENCODING 'UTF8')"
    )
    origin = (
        'NULL::text AS "eo_topic", NULL::integer AS "eo_partition", NULL::bigint AS "eo_offset"'
    )
    assert layout.shape(table).as_string(None) == f'SELECT "k", "a""b", {origin} FROM "s"."t"'
    assert layout.shape(None).as_string(None) == (
        f'SELECT NULL::int8 AS "k", NULL::text AS "a""b", {origin}'
    )
