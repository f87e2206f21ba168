"""Spark's types as Arrow's, by the JSON form that every Spark version writes of a schema.

pyspark has such a table too, but its place, imports and call change with the version.
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
    """Translate `frame.schema.jsonValue()`; `large` as spark.sql.execution.arrow.useLargeVarTypes.

    Raises SettingsError that names the first column whose type no sink can take: one without a
    form in Arrow, or a struct with a name twice.
    """
    return pa.schema(
        [pa.field(one["name"], _arrow(one["type"], one["name"], large)) for one in spark["fields"]]
    )


def _arrow(kind: Any, column: str, large: bool) -> pa.DataType:
    if isinstance(kind, Mapping):
        return _nested(kind, column, large)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if _TEXT.fullmatch(kind):
        return pa.large_string() if large else pa.string()
    if kind == "binary":
        return pa.large_binary() if large else pa.binary()
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    raise _untold(column, kind)


def _nested(kind: Mapping[str, Any], column: str, large: bool) -> pa.DataType:
    if kind["type"] == "array":
        return pa.list_(_arrow(kind["elementType"], column, large))
    if kind["type"] == "map":
        key = _arrow(kind["keyType"], column, large)
        return pa.map_(key, _arrow(kind["valueType"], column, large))
    if kind["type"] == "struct":
        _check_names([part["name"] for part in kind["fields"]], column)
        parts = [
            pa.field(part["name"], _arrow(part["type"], f"{column}.{part['name']}", large))
            for part in kind["fields"]
        ]
        return pa.struct(parts)
    raise _untold(column, kind["type"])


def check_structs(kind: Any, column: str) -> None:
    """Raise SettingsError where `column`, of Spark's type `kind`, has a struct with a name twice,
    however deep.
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
    """Refuse a struct that has a name twice: as an object in JSON it would lose a value."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(
            f"column {column!r} is a struct with more than one field named {twice[0]!r}",
            fix="Give each field a name of its own in the transform",
        )


def _untold(column: str, kind: str) -> SettingsError:
    return SettingsError(
        f"column {column!r} is of type {kind}, which a SQL store cannot hold",
        fix=f'Cast it to another type in the transform: df.withColumn("{column}", '
        f'df["{column}"].cast("string"))',
    )
