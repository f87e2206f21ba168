"""Translates Spark's types to Arrow's, from the JSON in which every Spark version writes a schema.

pyspark can do this too, but its module, imports and signature change with the version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from eo_listener.errors import SettingsError

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT: Final = re.compile(r"string( collate \w+)?|(char|varchar)\(\d+\)")


def arrow_schema(spark: Mapping[str, Any], *, large: bool = False) -> pa.Schema:
    """Return the Arrow schema for `spark`, which is `frame.schema.jsonValue()`.

    `large` is the value of spark.sql.execution.arrow.useLargeVarTypes. Raises SettingsError, which
    names the first column whose type no sink can take: a type that Arrow lacks, or a struct with
    two fields of the same name.
    """
    return pa.schema(_fields(spark, "", large))


def _fields(struct: Mapping[str, Any], prefix: str, large: bool) -> list[pa.Field]:
    return [
        pa.field(field["name"], _arrow(field["type"], prefix + field["name"], large))
        for field in struct["fields"]
    ]


def _arrow(kind: Any, column: str, large: bool) -> pa.DataType:
    match kind:
        case {"type": "array", "elementType": element}:
            return pa.list_(_arrow(element, column, large))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_arrow(key, column, large), _arrow(value, column, large))
        case {"type": "struct", "fields": fields}:
            _check_names([field["name"] for field in fields], column)
            return pa.struct(_fields(kind, f"{column}.", large))
        case "binary":
            return pa.large_binary() if large else pa.binary()
        case str() if kind in _PLAIN:
            return _PLAIN[kind]
        case str() if _TEXT.fullmatch(kind):
            return pa.large_string() if large else pa.string()
        case str() if decimal := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
    name = kind["type"] if isinstance(kind, Mapping) else kind
    raise SettingsError(
        f"column {column!r} is of type {name}, which a SQL store cannot hold",
        fix=f'Cast it to another type in the transform: df.withColumn("{column}", '
        f'df["{column}"].cast("string"))',
    )


def check_structs(kind: Any, column: str) -> None:
    """Raise SettingsError if a struct in `column`, at any depth, has two fields of the same name.

    `kind` is the column's Spark type in JSON.
    """
    if not isinstance(kind, Mapping):
        return
    for part in ("elementType", "keyType", "valueType"):
        check_structs(kind.get(part), column)
    if kind.get("type") == "struct":
        _check_names([field["name"] for field in kind["fields"]], column)
        for field in kind["fields"]:
            check_structs(field["type"], f"{column}.{field['name']}")


def _check_names(names: list[str], column: str) -> None:
    """Refuse a struct with two fields of the same name.

    A JSON object would lose one of the values.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(
            f"column {column!r} is a struct with more than one field named {twice[0]!r}",
            fix="Give each field a name of its own in the transform",
        )
