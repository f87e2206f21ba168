"""Writes values of Spark's nested types as JSON texts, for stores without arrays and structs."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa


def json_text(value: Any, kind: pa.DataType) -> str:
    """Return as JSON a `value` of Arrow's type `kind`, in the form that `to_pylist` gives it.

    A struct becomes a JSON object, and so does a map, with its keys as texts. Bytes become base64;
    decimals become texts, since readers would take a JSON number for a float; dates and times
    become ISO 8601; NaN and infinities become texts.
    """
    return json.dumps(_plain(value, kind), ensure_ascii=False, separators=(",", ":"))


def json_row(row: pa.RecordBatch) -> str:
    """Return the only row of `row` as a JSON object; a value that Python cannot read is escaped."""
    cells = {}
    for field, column in zip(row.schema, row.columns, strict=True):
        try:
            cells[field.name] = _plain(column[0].as_py(), field.type)
        except (UnicodeDecodeError, OverflowError):
            cells[field.name] = _escaped(column)
    return json.dumps(cells, ensure_ascii=False)


def _escaped(column: pa.Array) -> str:
    """Return the only value of `column` as a text; Python cannot read this value otherwise."""
    if pa.types.is_temporal(column.type):
        return f"{column[0].value} since 1970 ({column.type})"
    if pa.types.is_nested(column.type):
        return "(cannot be read)"
    raw: bytes = column.cast(pa.large_binary(), safe=False)[0].as_py()
    return raw.decode("utf-8", "backslashreplace")


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {part.name: _plain(value[part.name], part.type) for part in kind}
    if pa.types.is_map(kind):
        pairs = [(_plain(key, kind.key_type), _plain(item, kind.item_type)) for key, item in value]
        return {key if isinstance(key, str) else json.dumps(key): item for key, item in pairs}
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    return json_scalar(value)


def json_scalar(value: Any) -> Any:
    """Return a value that is not nested, in the form that it has in the JSON of `json_text`."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
