"""Maps Spark types to PostgreSQL types, and to the way in which Spark or COPY encodes values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eo_listener.errors import SettingsError
from eo_listener.sinks.arrow_rows import check_structs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_READS_TEXT: Final = _TEXTS | {
    *("citext", "uuid", "json", "jsonb", "xml", "enum", "bool", "int2", "int4", "int8", "numeric"),
    *("inet", "cidr", "macaddr", "macaddr8", "bit", "varbit", "hstore", "ltree", "geometry"),
    "geography",
}
"""The column types that accept a text or refuse it, without rounding, truncating or guessing.

The form of the text may change: ' 00123 ' becomes 123 in an integer.
"""
_WHOLE: Final = frozenset({"int2", "int4", "int8", "numeric"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_STRING: Final = re.compile(r"(string|(var)?char\(\d+\)|string collate .*|void)")
_KEY: Final = re.compile(rf"{_STRING.pattern}|{_DECIMAL.pattern}|byte|short|integer|long|boolean")
_TIME: Final = re.compile(r"time(\(\d\))?")
_JSON: Final = frozenset({"json", "jsonb"})
_LOSSLESS_MOMENT: Final = 6  # digits of a fraction of a second in Spark
# By number: the meaning of an escape or a quote in a literal depends on the session's settings.
_BACKSLASH, _DOUBLE, _SINGLE = "chr(92)", "chr(34)", "chr(39)"
_T: Final = f"{_SINGLE}, 'T', {_SINGLE}"
_JSON_OPTIONS: Final = (
    # The defaults truncate a timestamp to milliseconds, and leave nulls out.
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', "
    f"'timestampFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSSXXX'), "
    f"'timestampNTZFormat', concat('yyyy-MM-dd', {_T}, 'HH:mm:ss.SSSSSS'))"
)


class Encoding(Enum):
    """The way in which a line of COPY represents a value."""

    PLAIN = "as Arrow casts it to a string"
    WORD = "as Spark casts it to a string"
    STAMP = "as Spark casts it to a string in UTC, with its zone"
    TEXT = "escaped"
    HEX = r"\x and hexadecimal digits"
    MOMENT = "in UTC, with its zone"
    UTC = "in UTC, without a zone"
    JSON = "a JSON document"
    ARRAY = "an array literal"


class Existing(NamedTuple):
    """A column of an existing table; `base` is the name of its type, or of the type under a domain.

    `element` is the base type of an array's elements; `modifier` is PostgreSQL's atttypmod, -1 for
    no modifier; `type_name` is the type as statements write it; `generated` is True if only the
    server sets its values. The base type of an enum is "enum".
    """

    base: str
    element: str | None
    modifier: int
    type_name: str
    generated: bool = False


_WORD: Final = "cast({0} AS string)"
# A timestamp in UTC: its microseconds since 1970, on a clock that has no zone.
_SINCE: Final = "make_dt_interval(0, 0, 0, 0.000001) * unix_micros({0})"
_UTC: Final = f"cast(timestamp_ntz'1970-01-01' + {_SINCE} AS string)"
_STAMP: Final = f"concat({_UTC}, '+00')"
_NO_UTF8: Final = "cast(X'ff' AS string)"  # a text that RowFilter refuses
_ITEMS: Final = {"elementType": "{}", "keyType": "map_keys({})", "valueType": "map_values({})"}
_COLUMN_TEXTS: Final = {
    Encoding.WORD: _WORD,
    Encoding.STAMP: _STAMP,
    Encoding.JSON: f"to_json({{0}}, {_JSON_OPTIONS})",
}
_ELEMENT_TEXTS: Final = {
    Encoding.HEX: f"concat({_BACKSLASH}, 'x', hex(x))",
    Encoding.UTC: _UTC.format("x"),
    Encoding.MOMENT: _STAMP.format("x"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFormat:
    """The type of a column, the encoding of its values and, for an array, that of its elements."""

    postgres: str
    encoding: Encoding
    element: Encoding | None = None


_FAR: Final = {"date": Encoding.WORD, "timestamp": Encoding.STAMP, "timestamp_ntz": Encoding.WORD}
# Spark's name: (type of a new column, encoding, types that an existing column may have)
_SIMPLE: Final[dict[str, tuple[str, Encoding, frozenset[str]]]] = {
    "byte": ("smallint", Encoding.PLAIN, _WHOLE | _TEXTS),
    "short": ("smallint", Encoding.PLAIN, _WHOLE | _TEXTS),
    "integer": ("integer", Encoding.PLAIN, _WHOLE | _TEXTS),
    "long": ("bigint", Encoding.PLAIN, _WHOLE | _TEXTS),
    "float": ("real", Encoding.PLAIN, frozenset({"float4", "float8", "numeric"}) | _TEXTS),
    "double": ("double precision", Encoding.PLAIN, frozenset({"float8", "numeric"}) | _TEXTS),
    "boolean": ("boolean", Encoding.PLAIN, frozenset({"bool"}) | _TEXTS),
    "binary": ("bytea", Encoding.HEX, frozenset({"bytea"})),
    "date": ("date", Encoding.PLAIN, frozenset({"date", "timestamp"}) | _TEXTS),
    "timestamp": ("timestamp with time zone", Encoding.MOMENT, frozenset({"timestamptz"}) | _TEXTS),
    "timestamp_ntz": ("timestamp", Encoding.PLAIN, frozenset({"timestamp"}) | _TEXTS),
}


def column_format(column: str, spark: Any, existing: Existing | None = None) -> ColumnFormat:
    """Return the format in which to write `spark`, a Spark type as its `jsonValue()`.

    `existing` is the existing column, or None if the column is yet to be created. Raises
    SettingsError for a type that PostgreSQL does not have, or whose values the column could not
    hold unchanged.
    """
    if existing is not None and existing.generated:
        raise SettingsError(
            f"the column {column!r} of the table is GENERATED ALWAYS, but the rows have it too",
            fix="Drop it in the transform, or declare it GENERATED BY DEFAULT",
        )
    if isinstance(spark, dict):
        return _nested(column, spark, existing)
    made, encoding, fits, scale = _simple(column, str(spark))
    if existing is None:
        return ColumnFormat(postgres=made, encoding=encoding)
    base = existing.base
    if encoding is Encoding.MOMENT and base == "timestamp":
        encoding = Encoding.UTC
    elif base not in fits:
        raise _unfit(column, str(spark), existing)
    if base in _TEXTS and str(spark) in _FAR:
        # Arrow writes no year after 32767, and a text column would accept its error text.
        encoding = _FAR[str(spark)]
    if not _exact(str(spark), scale, existing):
        raise _unfit(column, str(spark), existing, "its values would be rounded")
    return ColumnFormat(postgres=existing.type_name, encoding=encoding)


def _simple(column: str, spark: str) -> tuple[str, Encoding, frozenset[str], int | None]:
    """Return the type to create, the encoding, the types that fit, and the number of decimals.

    The number of decimals is None if it is unknown.
    """
    if spark in _SIMPLE:
        made, encoding, fits = _SIMPLE[spark]
        whole = 0 if fits >= _WHOLE else None
        return made, encoding, fits, whole
    decimal = _DECIMAL.fullmatch(spark)
    if decimal is not None:
        scale = int(decimal[2])
        made = f"numeric({decimal[1]}, {scale})"
        return made, Encoding.PLAIN, frozenset({"numeric"}) | _TEXTS, scale
    if _STRING.fullmatch(spark):
        return "text", Encoding.TEXT, _READS_TEXT, None
    if _TIME.fullmatch(spark):
        return "time", Encoding.WORD, frozenset({"time"}) | _TEXTS, None
    raise SettingsError(
        f"column {column!r} has Spark's type {spark}, which PostgresSink cannot write",
        fix="Cast it in the transform (to string, to a number), or drop it",
    )


def _nested(column: str, spark: dict[str, Any], existing: Existing | None) -> ColumnFormat:
    kind = spark.get("type")
    if kind == "udt":
        raise SettingsError(
            f"column {column!r} has a user-defined type, which only Spark knows",
            fix="Extract its values in the transform",
        )
    check_structs(spark, column)
    inner = spark.get("elementType")
    flat = kind == "array" and not isinstance(inner, dict)
    if flat and (existing is None or existing.base not in _JSON):
        made, encoding, fits, scale = _simple(column, str(inner))
        if existing is None:
            return ColumnFormat(postgres=f"{made}[]", encoding=Encoding.ARRAY, element=encoding)
        if encoding is Encoding.MOMENT and existing.element == "timestamp":
            encoding = Encoding.UTC
        elif existing.element is None or existing.element not in fits:
            raise _unfit(column, f"array of {inner}", existing)
        if not _exact(str(inner), scale, existing._replace(base=existing.element)):
            raise _unfit(column, f"array of {inner}", existing, "its values would be rounded")
        return ColumnFormat(postgres=existing.type_name, encoding=Encoding.ARRAY, element=encoding)
    _check_json(column, spark)
    if existing is None:
        return ColumnFormat(postgres="jsonb", encoding=Encoding.JSON)
    if existing.base not in _JSON | _TEXTS:
        raise _unfit(column, str(kind), existing)
    return ColumnFormat(postgres=existing.type_name, encoding=Encoding.JSON)


def _check_json(column: str, spark: Any) -> None:
    """Raise SettingsError for a type that Spark's to_json writes in a form known only to Spark.

    Such a type may be at any depth of a nested type.
    """
    if not isinstance(spark, dict):
        if str(spark).startswith("interval"):
            _simple(column, str(spark))
        return
    key = spark.get("keyType")
    if key is not None and not _KEY.fullmatch(str(key)):
        name = key if isinstance(key, str) else key.get("type")
        raise SettingsError(
            f"column {column!r} has a map with keys of type {name}, which Spark writes to JSON in "
            "a form that cannot be read back",
            fix=f"Make the keys strings in the transform: transform_keys({column}, (k, v) -> ...)",
        )
    for part in (spark.get("elementType"), spark.get("valueType")):
        _check_json(column, part)
    for field in spark.get("fields", ()):
        _check_json(f"{column}.{field['name']}", field["type"])


def _exact(spark: str, scale: int | None, existing: Existing) -> bool:
    """Return True if the type modifier of the column, if any, keeps every digit."""
    if existing.modifier < 0:
        return True
    if existing.base == "numeric":
        bits = (existing.modifier - 4) & 0x7FF
        column_scale = bits - 0x800 if bits & 0x400 else bits
        return scale is not None and scale <= column_scale
    if existing.base in ("timestamp", "timestamptz", "time") and spark != "date":
        return existing.modifier >= _LOSSLESS_MOMENT
    return True


def _unfit(column: str, spark: str, existing: Existing, reason: str | None = None) -> SettingsError:
    kind = _SIMPLE[spark][0] if spark in _SIMPLE else "a type that holds it"
    return SettingsError(
        f"column {column!r} is {spark} in the rows and {existing.type_name} in the table",
        cause=reason or "PostgreSQL would refuse or change its values",
        fix=f"Cast it in the transform, or ALTER TABLE ... ALTER COLUMN ... TYPE {kind}",
    )


def as_text(frame: DataFrame, formats: Sequence[tuple[str, ColumnFormat]]) -> DataFrame:
    """Return `frame` with texts instead of the columns that Spark must encode.

    Structs, maps, and arrays of these become JSON, other arrays PostgreSQL's array literals. The
    expressions are Spark SQL texts, since each call into the JVM that builds an expression would
    cost a batch a millisecond. No expression depends on the session's time zone: Spark Connect
    analyses an expression only when it runs, with the zone that the session has then.
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
    documents = {name for name, made in formats if made.encoding is Encoding.JSON}
    for field in frame.schema.jsonValue()["fields"] if documents else ():
        column = at[field["name"]]
        if field["name"] in documents and (broken := _broken(column, field["type"])):
            texts[column] = f"CASE WHEN {broken} THEN {_NO_UTF8} ELSE {texts[column]} END"
    # By position, so that Spark never parses a column's name.
    plain = frame.toDF(*at.values())
    texts_only = plain.selectExpr(
        *(f"{texts.get(column, column)} AS {column}" for column in at.values())
    )
    return texts_only.toDF(*names)


def _text(value: str, column_format: ColumnFormat) -> str | None:
    if column_format.encoding is Encoding.ARRAY:
        items = f"transform({value}, x -> {_item(column_format.element or Encoding.PLAIN)})"
        return f"concat('{{', array_join({items}, ',', 'NULL'), '}}')"
    text = _COLUMN_TEXTS.get(column_format.encoding)
    return None if text is None else text.format(value)


def _broken(value: str, kind: Any, depth: int = 0) -> str | None:
    """Return SQL that is true if a text inside `value` is not UTF-8; None if it has no texts.

    Spark's to_json would replace such bytes without an error, and two keys of a map could become
    the same.
    """
    if not isinstance(kind, dict):
        if kind == "void" or not _STRING.fullmatch(str(kind)):
            return None
        # In every version of Spark, format_string replaces such bytes too.
        return f"cast({value} AS binary) <> cast(format_string('%s', {value}) AS binary)"
    conditions, item = [], f"x{depth}"
    for part, items in _ITEMS.items():
        if part in kind and (broken := _broken(item, kind[part], depth + 1)):
            conditions.append(f"exists({items.format(value)}, {item} -> {broken})")
    for field in kind.get("fields", ()):
        name = field["name"].replace("`", "``")
        conditions.append(_broken(f"{value}.`{name}`", field["type"], depth) or "")
    return " OR ".join(f"({broken})" for broken in conditions if broken) or None


def _item(encoding: Encoding) -> str:
    """Return the SQL that encodes the element `x` of an array literal."""
    text = _ELEMENT_TEXTS.get(encoding, _WORD.format("x"))
    if encoding is Encoding.PLAIN:
        return text
    for sign in (_BACKSLASH, _DOUBLE):
        text = f"replace({text}, {sign}, concat({_BACKSLASH}, {sign}))"
    return f"concat({_DOUBLE}, {text}, {_DOUBLE})"
