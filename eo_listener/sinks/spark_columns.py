"""Columns of Spark's DataFrames and tables: their names in SQL, and types that fit each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from eo_listener.errors import SettingsError
from eo_listener.sinks.newest_row import ORIGIN, require_written, unordered
from eo_listener.sinks.spark_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

_ORDERED: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
)
_UNTYPED: Final = "void"
_PADDED: Final = re.compile(r"\bchar\(")
NEW_COLUMNS: Final = "or have the sink add them to the table: new_columns=True"
"""A phrase for the `fix` of an error about a column that a table lacks: a second remedy."""

_KAFKA_TYPES: Final = ("string", "int", "bigint")
_AS_DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's CharVarcharUtils
_ANY: Final = 400  # more digits than a double has
_DIGITS: Final = {
    "tinyint": (3, 2),
    "smallint": (5, 4),
    "int": (10, 9),
    "bigint": (19, 18),
    "float": (_ANY, 7),
    "double": (_ANY, 15),
}
"""The most digits of a type's whole numbers, and of whole numbers that it always holds exactly."""

Columns: TypeAlias = Mapping[str, str]
"""Spark types (`simpleString`) by column name."""


def types_of(schema: StructType) -> Columns:
    """Return the columns of a schema and their types."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def subschema(schema: StructType, names: Sequence[str]) -> StructType:
    """Return a schema with only the columns `names`, in that order."""
    return type(schema)([schema[name] for name in names])


def holds(stored: DataType, kind: DataType) -> bool:
    """Return True if a column of type `stored` holds every value of type `kind` unchanged."""
    match stored, kind:
        case StructType() as table, StructType() as rows:
            names = set(rows.names)
            return names == set(table.names) and all(
                holds(table[name].dataType, rows[name].dataType) for name in names
            )
        case ArrayType() as table, ArrayType() as rows:
            return holds(table.elementType, rows.elementType)
        case MapType() as table, MapType() as rows:
            return holds(table.keyType, rows.keyType) and holds(table.valueType, rows.valueType)
        case _, NullType():
            return True
    (_, capacity, scale), (needed, _, fraction) = _digits(stored), _digits(kind)
    pair = kind.simpleString(), stored.simpleString()
    is_same = pair[0] == pair[1] or pair == ("float", "double")
    return is_same or (needed <= capacity and fraction <= scale)


def as_stored(field: StructField, table: StructType) -> Column:
    """Return the rows' column `field`, cast to the table's type, which must hold its values."""
    column = F.col(quoted(field.name))
    stored = table[field.name].dataType if field.name in table.names else field.dataType
    if stored == field.dataType or is_nested(stored.simpleString()):
        return column  # a struct would be cast by the order of its fields, not by their names
    return column.cast(stored)


def _holds_some(stored: DataType, kind: DataType) -> bool:
    """Return True if casting back and forth shows which numbers of `kind` the column can hold."""
    is_exact = all(_digits(number)[0] < _ANY for number in (stored, kind))
    return is_exact or (kind.simpleString(), stored.simpleString()) == ("double", "float")


def _digits(kind: DataType) -> tuple[int, int, int]:
    """Return the two numbers of _DIGITS for a type, and its digits after the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.precision - kind.scale, kind.scale
    return *_DIGITS.get(kind.simpleString(), (_ANY, 0)), 0


def is_nested(kind: str) -> bool:
    """Return True if the type `kind` is a struct, an array or a map."""
    return kind.startswith(("struct<", "array<", "map<"))


def is_padded(kind: str) -> bool:
    """Return True if Spark pads the values that it writes into a column of type `kind`."""
    return _PADDED.search(kind) is not None


def is_traced(rows: Columns) -> bool:
    """Return True if `rows` have the columns topic, partition and offset in Kafka's types."""
    return tuple(rows.get(name) for name in ORIGIN) == _KAFKA_TYPES


def check_typed(columns: Columns) -> None:
    """Raise SettingsError for an untyped column (NULL in all rows), which no table can have."""
    for name, kind in columns.items():
        if kind == _UNTYPED:
            raise SettingsError(
                f"column {name!r} of the rows has no type",
                cause="it is an untyped NULL, and the table does not have that column yet",
                fix=f"Cast it in the transform, as in CAST(NULL AS string) AS {quoted(name)}",
            )


def check_columns(
    keys: Sequence[str],
    version: str | None,
    rows: StructType,
    table: StructType,
    *,
    tested: bool = False,
) -> None:
    """Raise SettingsError if the columns of `rows` do not fit those of `table`.

    They do not fit if:

    - They lack keys or version.
    - Spark cannot compare the keys.
    - The version is not an integer, date or timestamp.
    - The table would change their values. If `tested` is True, the sink itself refuses each row
      with a number that the table cannot hold.
    """
    kinds = types_of(rows)
    require_written(keys, version, kinds)
    if version is not None:
        for place, columns in (("", kinds), (" in the table", types_of(table))):
            kind = columns.get(version)
            if kind is not None and kind not in _ORDERED:
                raise unordered(version, f"of type {kind}{place}")
    for name in keys:
        if not _is_compared(rows[name].dataType.jsonValue()):
            raise SettingsError(
                f"keys= names {name!r}, which is {kinds[name]}",
                cause="Spark does not compare such values",
                fix="Use columns of simple types, such as numbers and strings, as keys",
            )
    for name in (name for name in kinds if name in table.names):
        _check_type(rows[name], table[name], compared=name in (*keys, version), tested=tested)


def _check_type(rows: StructField, table: StructField, *, compared: bool, tested: bool) -> None:
    """Raise SettingsError if the table would change values of a column.

    If the sink compares the column with the table's, a conversion could make two keys equal, or a
    newer version an older one. If the table pads a key, each batch would insert that key again.
    """
    kind, stored = rows.dataType.simpleString(), _declared(table)
    fits = holds(table.dataType, rows.dataType)
    if compared:
        fits = kind == stored or (fits and not is_nested(kind) and not is_padded(stored))
        cause = (
            "the sink compares it with the table's column: different values could become equal "
            "there, and a rounded, truncated or padded value is not found again"
        )
    else:
        fits = fits or (tested and _holds_some(table.dataType, rows.dataType))
        cause = "the table would round, cut or convert some of its values"
    if not fits:
        raise SettingsError(
            f"column {rows.name!r} is {kind} in the rows and {stored} in the table",
            cause=cause,
            fix="Use string or varchar instead of char in the table"
            if is_padded(stored)
            else _to_fit(stored),
        )


def _to_fit(stored: str) -> str:
    """Return the fix for a column that does not fit a table's column of the type `stored`."""
    if is_nested(stored):  # Spark casts the fields of a struct by their places
        return f"Build it as {stored}, field by field, in the transform"
    if stored in _DIGITS or stored.startswith("decimal"):
        return (
            f"Widen the table's column; or cast it to {stored} in the transform, which changes "
            "numbers that do not fit unless Spark runs in ANSI mode"
        )
    return f"Cast it to {stored} in the transform"


def _declared(column: StructField) -> str:
    """Return the type of a table's column, with `char(n)` if Spark's schema has a string."""
    declared = str(column.metadata.get(_AS_DECLARED, ""))
    return declared if is_padded(declared) else column.dataType.simpleString()


def _is_compared(kind: object) -> bool:
    """Return True if Spark can compare values of the type `kind`, given in Spark's JSON.

    The type's `simpleString` does not suffice: a struct's fields may have any name.
    """
    match kind:
        case {"type": "struct", "fields": fields}:
            return all(_is_compared(field["type"]) for field in fields)
        case {"type": "array", "elementType": element}:
            return _is_compared(element)
        case {"type": "map"} | "variant":
            return False
        case _:
            return True
