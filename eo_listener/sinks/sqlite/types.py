"""Maps Arrow's columns to SQLite: the types to declare, and the values to bind.

SQLite has integers, floats, texts and blobs. Decimals become texts, which lose no digit; dates and
timestamps become ISO 8601 texts, in UTC if Spark knows the zone; arrays, structs and maps become
JSON.
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
    """Return a type to declare for a column, with which SQLite keeps values of `kind` unchanged."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "BLOB"
    return "TEXT"


def affinity(declaration: str) -> str:
    """Return the type affinity of a column with this declared type (Datatypes In SQLite, 3.1)."""
    upper = declaration.upper()
    for parts, affinity_name in _AFFINITIES:
        if any(part in upper for part in parts):
            return affinity_name
    return "NUMERIC" if upper else "BLOB"


def keeps(declaration: str, kind: pa.DataType) -> bool:
    """Return True if a column with this declared type keeps what `values` returns for `kind`.

    Dates, timestamps and JSON of nested types stay texts in any column, since none of them looks
    like a number.
    """
    kept_as = affinity(declaration)
    if _is_text(kind) or pa.types.is_decimal(kind):
        return kept_as in ("TEXT", "BLOB")
    if pa.types.is_floating(kind):
        return kept_as != "TEXT"
    if pa.types.is_int64(kind):
        return kept_as != "REAL"
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def values(column: pa.Array) -> list[Any]:
    """Return the values of a column as sqlite3 binds them."""
    kind = column.type
    if pa.types.is_decimal(kind):  # str() of a decimal may be 1E-10
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp("us")).cast(pa.string())
        return _list(texts if kind.tz is None else pc.binary_join_element_wise(texts, "+00:00", ""))
    if pa.types.is_date(kind):
        return _list(column.cast(pa.string()))
    if pa.types.is_nested(kind):
        return [None if value is None else json_text(value, kind) for value in column.to_pylist()]
    return _list(column)


def example(kind: pa.DataType) -> str | None:
    """Return a text in the form of `values` for a date or timestamp; None for other types."""
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return None
    (text,) = values(pa.array([0], pa.int32()).cast(pa.date32()).cast(kind))
    return str(text)


def flaws(name: str, column: pa.Array, *, key: bool) -> dict[int, str]:
    """Return, by row, why SQLite could not keep a value of `column`; `key` is True for a key.

    NaN would become null, and SQLite does not treat rows with a null key as the same row.
    """
    kind = column.type
    checks: list[tuple[pa.Array, str]] = []
    if pa.types.is_floating(kind):
        reason = f"column {name!r} is NaN, which SQLite would turn into null"
        checks.append((pc.is_nan(column), reason))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        years = pc.year(column.cast(pa.timestamp("us")) if is_zoned else column)
        reason = f"column {name!r} is a time outside the years 1 to 9999"
        checks.append((pc.or_(pc.less(years, 1), pc.greater(years, 9999)), reason))
    if key:
        checks.append((column.is_null(), f"key column {name!r} is null"))
    return {
        index: reason
        for mask, reason in checks
        if pc.any(mask).as_py()
        for index, is_bad in enumerate(mask.to_pylist())
        if is_bad
    }


def unreadable_values(name: str, column: pa.Array) -> dict[int, str]:
    """Return, by row, why Python cannot represent the value of a column.

    Such a value contains a date or time outside the years 1 to 9999.
    """
    row_flaws = {}
    for index, value in enumerate(column):
        try:
            value.as_py()
        except OverflowError:
            row_flaws[index] = f"column {name!r} holds an unreadable time"
    return row_flaws


def _list(column: pa.Array) -> list[Any]:
    listed: list[Any] = column.to_pylist()
    return listed
