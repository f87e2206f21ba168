"""Columns that Arrow cannot spell as PostgreSQL reads them, turned into texts by Spark.

As text of Spark SQL, since each call into the JVM that builds an expression would cost a batch a
millisecond. No text depends on the session's time zone: Spark Connect analyses it only when it
runs, under whatever zone the session has then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eo_listener.sinks.postgres.types import ColumnFormat, Encoding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# By number: what an escape or a quote means in a literal depends on the session's settings.
_BACKSLASH, _DOUBLE, _SINGLE = "chr(92)", "chr(34)", "chr(39)"
_T: Final = f"{_SINGLE}, 'T', {_SINGLE}"
_JSON_OPTIONS: Final = (
    # The defaults cut a moment to milliseconds, and leave nulls out.
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', "
    f"'timestampFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSSXXX'), "
    f"'timestampNTZFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSS'))"
)


def as_text(frame: DataFrame, formats: Sequence[tuple[str, ColumnFormat]]) -> DataFrame:
    """Return `frame` with its nested columns as texts, the others as they are.

    Structs, maps and arrays of such become JSON, other arrays PostgreSQL's array literals.
    """
    names = frame.columns
    at = {name: f"c{index}" for index, name in enumerate(names)}
    texts = {
        at[name]: text
        for name, column_format in formats
        if (text := _text(at[name], column_format)) is not None
    }
    if not texts:
        return frame
    # By position: no name of a column is ever parsed.
    plain = frame.toDF(*at.values())
    texts_only = plain.selectExpr(*(f"{texts.get(one, one)} AS {one}" for one in at.values()))
    return texts_only.toDF(*names)


def _text(value: str, column_format: ColumnFormat) -> str | None:
    if column_format.encoding is Encoding.WORD:
        return f"cast({value} AS string)"
    if column_format.encoding is Encoding.STAMP:
        return f"concat({_utc(value)}, '+00')"
    if column_format.encoding is Encoding.JSON:
        return f"to_json({value}, {_JSON_OPTIONS})"
    if column_format.encoding is Encoding.ARRAY:
        items = f"transform({value}, x -> {_item(column_format.element or Encoding.PLAIN)})"
        return f"concat('{{', array_join({items}, ',', 'NULL'), '}}')"
    return None


def _item(encoding: Encoding) -> str:
    """The element x of an array literal."""
    text = "cast(x AS string)"
    if encoding is Encoding.PLAIN:
        return text
    if encoding is Encoding.HEX:
        text = f"concat({_BACKSLASH}, 'x', hex(x))"
    if encoding is Encoding.UTC:
        text = _utc("x")
    if encoding is Encoding.MOMENT:
        text = f"concat({_utc('x')}, '+00')"
    for sign in (_BACKSLASH, _DOUBLE):
        text = f"replace({text}, {sign}, concat({_BACKSLASH}, {sign}))"
    return f"concat({_DOUBLE}, {text}, {_DOUBLE})"


def _utc(moment: str) -> str:
    """A timestamp as text in UTC: its microseconds since 1970, on a clock that has no zone."""
    since = f"make_dt_interval(0, 0, 0, 0.000001) * unix_micros({moment})"
    return f"cast(timestamp_ntz'1970-01-01' + {since} AS string)"
