"""Arrow's columns as SQLite keeps them: what type is declared, and which values are bound.

SQLite has integers, floats, texts and blobs. Decimals become texts, which lose no digit; moments
ISO 8601, in UTC where Spark knows the zone; arrays, structs and maps JSON.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from eo_listener.sinks.json_values import json_text

_AFFINITIES: Final = (  # in this order: a POINT is an INTEGER
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("BLOB",), "BLOB"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
)


def declared(kind: pa.DataType) -> str:
    """Return the type that a column is declared with: one that changes no value put into it."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "BLOB"
    return "TEXT"


def affinity(declaration: str) -> str:
    """Return what SQLite turns values into that go into a column declared so (its section 3.1)."""
    upper = declaration.upper()
    for parts, found in _AFFINITIES:
        if any(part in upper for part in parts):
            return found
    return "NUMERIC" if upper else "BLOB"


def keeps(declaration: str, kind: pa.DataType) -> bool:
    """Return True if a column declared so keeps the values that `values` makes of a type of Arrow.

    Moments and JSON of nested types stay texts anywhere: none of them reads as a number.
    """
    where = affinity(declaration)
    if _is_text(kind) or pa.types.is_decimal(kind):
        return where in ("TEXT", "BLOB")
    if pa.types.is_floating(kind):
        return where != "TEXT"
    if pa.types.is_int64(kind):
        return where != "REAL"
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def values(column: pa.Array) -> list[Any]:
    """Return the values of a column as sqlite3 binds them."""
    kind = column.type
    if pa.types.is_decimal(kind):  # a decimal's own text turns to 1E-10
        return [None if one is None else format(one, "f") for one in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp("us")).cast(pa.string())
        return _list(texts if kind.tz is None else pc.binary_join_element_wise(texts, "+00:00", ""))
    if pa.types.is_date(kind):
        return _list(column.cast(pa.string()))
    if pa.types.is_nested(kind):
        return [None if one is None else json_text(one, kind) for one in column.to_pylist()]
    return _list(column)


def flaws(name: str, column: pa.Array, *, key: bool) -> dict[int, str]:
    """Say which values SQLite would change, and why; `key`: the column identifies rows.

    NaN would become null, and two rows with a null key are two rows.
    """
    found: dict[int, str] = {}
    if pa.types.is_floating(column.type):
        bad = pc.fill_null(pc.is_nan(column), fill_value=False)
        if pc.any(bad).as_py():
            why = f"column {name!r} is NaN, which SQLite would turn into null"
            found.update(dict.fromkeys(_places(bad), why))
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        years = pc.year(column.cast(pa.timestamp("us")) if _zoned(column) else column)
        bad = pc.fill_null(pc.or_(pc.less(years, 1), pc.greater(years, 9999)), fill_value=False)
        if pc.any(bad).as_py():
            why = f"column {name!r} is a time outside the years 1 to 9999"
            found.update(dict.fromkeys(_places(bad), why))
    if key and column.null_count:
        found.update(dict.fromkeys(_places(pc.is_null(column)), f"key column {name!r} is null"))
    return found


def unreadable(name: str, column: pa.Array) -> dict[int, str]:
    """Say which values Python cannot represent: moments beyond its years, inside of others."""
    found = {}
    for index, one in enumerate(column):
        try:
            one.as_py()
        except OverflowError:
            found[index] = f"column {name!r} holds an unreadable time"
    return found


def _zoned(column: pa.Array) -> bool:
    return pa.types.is_timestamp(column.type) and column.type.tz is not None


def _places(mask: pa.Array) -> list[int]:
    return [index for index, one in enumerate(mask.to_pylist()) if one]


def _list(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found
