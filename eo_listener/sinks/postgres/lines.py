"""Rows as lines of COPY, spelt by Spark itself: no row is ever an object in Python.

What reaches us is a column of ready lines, which Arrow holds end to end in one buffer. That buffer
is what COPY is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # the name that all of Spark's docs give it

from eo_listener.sinks.poison import ORIGIN, REASON
from eo_listener.sinks.postgres.spelling import LINE, ROW
from eo_listener.sinks.postgres.types import Form, Spelling

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    # The defaults cut a moment to milliseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_ZONE: Final = "spark.sql.session.timeZone"


def line_frame(frame: DataFrame, forms: Sequence[tuple[str, Form]]) -> DataFrame:
    """Return `frame` as lines of COPY (text format) of the columns in `forms`, in that order.

    Columns: `line`, with its end, null for a marked row; topic, partition and offset, null where
    the frame does not have them; `eo_poison` and, for a marked row, `eo_row`, the row as JSON.
    """
    names = list(frame.columns)
    with _in_utc(frame.sparkSession):
        # By position from here on: no name of a column is ever parsed.
        plain = frame.toDF(*(f"c{index}" for index in range(len(names))))
        column = {name: F.col(f"c{index}") for index, name in enumerate(names)}
        parts: list[Column] = []
        for name, form in forms:
            parts += [F.lit("\t"), _field(column[name], form)]
        line = F.concat(*parts[1:], F.lit("\n")) if parts else F.lit("\n")
        reason = column[REASON].cast("string") if REASON in column else F.lit(None).cast("string")
        kept = F.struct(*(column[name].alias(name) for name in names if name != REASON))
        row = F.when(reason.isNotNull(), F.to_json(kept, _JSON_OPTIONS))
        known = all(name in column for name in ORIGIN)
        origin = [
            (column[name] if known else F.lit(None)).cast(kind).alias(name)
            for name, kind in zip(ORIGIN, ("string", "int", "long"), strict=True)
        ]
        return plain.select(
            F.when(reason.isNull(), line).alias(LINE),
            *origin,
            reason.alias(REASON),
            row.alias(ROW),
        )


def _field(value: Column, form: Form) -> Column:
    if form.spelling is Spelling.JSON:
        text = _escaped(F.to_json(value, _JSON_OPTIONS))
    elif form.spelling is Spelling.ARRAY:
        element = form.element or Spelling.PLAIN
        items = F.transform(value, lambda item: _item(item, element))
        text = F.concat(F.lit("{"), F.array_join(items, ",", "NULL"), F.lit("}"))
        text = text if element is Spelling.PLAIN else _escaped(text)
    elif form.spelling is Spelling.TEXT:
        text = _escaped(_spelt(value, form.spelling))
    else:
        text = _spelt(value, form.spelling)
    return F.coalesce(text, F.lit("\\N"))


def _spelt(value: Column, spelling: Spelling) -> Column:
    if spelling is Spelling.HEX:
        return F.concat(F.lit("\\\\x"), F.hex(value))
    text = value.cast("string")
    return F.concat(text, F.lit("+00")) if spelling is Spelling.MOMENT else text


def _item(value: Column, spelling: Spelling) -> Column:
    """An element of an array literal, before the line's own escapes."""
    if spelling is Spelling.PLAIN:
        return value.cast("string")
    if spelling is Spelling.TEXT:
        text = _replaced(_replaced(value.cast("string"), "\\", "\\\\"), '"', '\\"')
    else:
        text = _spelt(value, spelling)
    return F.concat(F.lit('"'), text, F.lit('"'))


def _escaped(text: Column) -> Column:
    for plain, escape in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = _replaced(text, plain, escape)
    return text


def _replaced(text: Column, search: str, by: str) -> Column:
    return F.replace(text, F.lit(search), F.lit(by))


@contextmanager
def _in_utc(session: SparkSession) -> Iterator[None]:
    """Have casts made here spell moments in UTC.

    A cast takes the session's zone when it is made, so what the user has made keeps his.
    """
    before = session.conf.get(_ZONE)
    session.conf.set(_ZONE, "UTC")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_ZONE)
        else:
            session.conf.set(_ZONE, before)
