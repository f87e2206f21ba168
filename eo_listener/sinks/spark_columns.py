"""Columns of Spark's DataFrames and tables: their names in SQL, and the types for an upsert."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from eo_listener.errors import SettingsError
from eo_listener.sinks.newest_row import ORIGIN, require_written, unordered

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ORDERED: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
)
_UNTYPED: Final = "void"
_PADDED: Final = re.compile(r"\bchar\(")
NEW_COLUMNS: Final = "or have the sink add them to the table: new_columns=True"
"""A phrase for the `fix` of an error about a column that a table lacks: a second remedy."""

_KAFKA_TYPES: Final = ("string", "int", "bigint")
_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}

Columns: TypeAlias = Mapping[str, str]
"""Spark types (`simpleString`) by column name."""


def types_of(schema: StructType) -> Columns:
    """Return the columns of a schema and their types."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def subschema(schema: StructType, names: Sequence[str]) -> StructType:
    """Return a schema with only the columns `names`, in that order."""
    return type(schema)([schema[name] for name in names])


def quoted(name: str) -> str:
    """Return `name` as a quoted identifier of Spark SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def is_wider(table_type: str, row_type: str) -> bool:
    """Return True if `table_type` is a different type that holds every value of `row_type`."""
    return table_type in _WIDER.get(row_type, ())


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


def check_upsert(
    keys: Sequence[str], version: str | None, schema: StructType, table: Columns
) -> None:
    """Raise SettingsError if rows of `schema` cannot be upserted into the columns of `table`.

    Rows cannot be upserted if:

    - They lack keys or version.
    - - Spark cannot compare their keys.
    - Their version is not an integer, date or timestamp.
    - The table would convert their keys or version. After the conversion, two keys could be equal,
      and a newer version could be an older one. If the table pads a key, each batch would insert
      that key again.
    """
    rows = types_of(schema)
    require_written(keys, version, rows)
    if version is not None:
        for place, columns in (("", rows), (" in the table", table)):
            kind = columns.get(version)
            if kind is not None and kind not in _ORDERED:
                raise unordered(version, f"of type {kind}{place}")
    for name in keys:
        if not _is_compared(schema[name].dataType.jsonValue()):
            raise SettingsError(
                f"keys= names {name!r}, which is {rows[name]}",
                cause="Spark does not compare such values",
                fix="Use columns of simple types, such as numbers and strings, as keys",
            )
    for name in filter(None, (*keys, version)):
        kind, stored = rows.get(name), table.get(name)
        if kind and stored and kind != stored and not is_wider(stored, kind):
            raise SettingsError(
                f"column {name!r} is {kind} in the rows and {stored} in the table",
                cause="the sink compares it with the table's column: different values could become "
                "equal there, and a rounded, truncated or padded value is not found again",
                fix="Use string or varchar instead of char in the table"
                if is_padded(stored)
                else f"Cast it to {stored} in the transform",
            )


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
