"""Columns that Arrow cannot spell as PostgreSQL reads them, turned into texts by Spark.

As text of Spark SQL, since each call into the JVM that builds an expression would cost a batch a
millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eo_listener.sinks.postgres.types import Form, Spelling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# By number: what an escape or a quote means in a literal depends on the session's settings.
_BACKSLASH, _DOUBLE, _SINGLE = "chr(92)", "chr(34)", "chr(39)"
_T: Final = f"{_SINGLE}, 'T', {_SINGLE}"
_JSON_OPTIONS: Final = (
    # The defaults cut a moment to milliseconds, and leave nulls out.
    "map('ignoreNullFields', 'false', "
    f"'timestampFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSSXXX'), "
    f"'timestampNTZFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSS'))"
)
_ZONE: Final = "spark.sql.session.timeZone"


def told(frame: DataFrame, forms: Sequence[tuple[str, Form]]) -> DataFrame:
    """Return `frame` with its nested columns as texts, the others as they are.

    Structs, maps and arrays of such become JSON, other arrays PostgreSQL's array literals.
    """
    names = frame.columns
    at = {name: f"c{index}" for index, name in enumerate(names)}
    texts = {at[name]: text for name, form in forms if (text := _text(at[name], form)) is not None}
    if not texts:
        return frame
    with _in_utc(frame.sparkSession):
        # By position: no name of a column is ever parsed.
        plain = frame.toDF(*at.values())
        spelt = plain.selectExpr(*(f"{texts.get(one, one)} AS {one}" for one in at.values()))
        return spelt.toDF(*names)


def _text(value: str, form: Form) -> str | None:
    if form.spelling is Spelling.WORD:
        return f"cast({value} AS string)"
    if form.spelling is Spelling.STAMP:
        return f"concat(cast({value} AS string), '+00')"
    if form.spelling is Spelling.JSON:
        return f"to_json({value}, {_JSON_OPTIONS})"
    if form.spelling is Spelling.ARRAY:
        items = f"transform({value}, x -> {_item(form.element or Spelling.PLAIN)})"
        return f"concat('{{', array_join({items}, ',', 'NULL'), '}}')"
    return None


def _item(spelling: Spelling) -> str:
    """The element x of an array literal."""
    text = "cast(x AS string)"
    if spelling is Spelling.PLAIN:
        return text
    if spelling is Spelling.HEX:
        text = f"concat({_BACKSLASH}, 'x', hex(x))"
    if spelling is Spelling.MOMENT:
        text = f"concat({text}, '+00')"
    for sign in (_BACKSLASH, _DOUBLE):
        text = f"replace({text}, {sign}, concat({_BACKSLASH}, {sign}))"
    return f"concat({_DOUBLE}, {text}, {_DOUBLE})"


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
