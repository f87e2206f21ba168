"""Which Spark type becomes which PostgreSQL type, and how its values are spelt. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from eo_listener.errors import SettingsError


class Spelling(Enum):
    """How a value is written in a line of COPY."""

    PLAIN = "as Arrow casts it to a string"
    WORD = "as Spark casts it to a string"
    TEXT = "escaped"
    HEX = r"\x and hexadecimal digits"
    MOMENT = "in UTC, with its zone"
    UTC = "in UTC, without a zone"
    JSON = "a JSON document"
    ARRAY = "an array literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """A column that a table has: `base` is its type's own name, of a domain the type beneath it.

    `element` is the base type of an array's elements; `modifier` is PostgreSQL's atttypmod, -1
    without one; `spelt` is what to write in a statement.
    """

    base: str
    element: str | None
    modifier: int
    spelt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How values of a Spark type reach a column: its type, and the spelling of them (of arrays:
    of their elements too).
    """

    postgres: str
    spelling: Spelling
    element: Spelling | None = None


_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})
_WHOLE: Final = frozenset({"int2", "int4", "int8", "numeric"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_STRING: Final = re.compile(r"(string|(var)?char\(\d+\)|string collate .*|void)")
_TIME: Final = re.compile(r"time(\(\d\))?")
_JSON: Final = frozenset({"json", "jsonb"})
_LOSSLESS_MOMENT: Final = 6  # digits of a second that Spark has

# Spark's name: (type of a new column, spelling, types that an existing column may have)
_SIMPLE: Final[dict[str, tuple[str, Spelling, frozenset[str]]]] = {
    "byte": ("smallint", Spelling.PLAIN, _WHOLE | _TEXTS),
    "short": ("smallint", Spelling.PLAIN, _WHOLE | _TEXTS),
    "integer": ("integer", Spelling.PLAIN, _WHOLE | _TEXTS),
    "long": ("bigint", Spelling.PLAIN, _WHOLE | _TEXTS),
    "float": ("real", Spelling.PLAIN, frozenset({"float4", "float8", "numeric"}) | _TEXTS),
    "double": ("double precision", Spelling.PLAIN, frozenset({"float8", "numeric"}) | _TEXTS),
    "boolean": ("boolean", Spelling.PLAIN, frozenset({"bool"}) | _TEXTS),
    "binary": ("bytea", Spelling.HEX, frozenset({"bytea"})),
    "date": ("date", Spelling.PLAIN, frozenset({"date", "timestamp"}) | _TEXTS),
    "timestamp": ("timestamp with time zone", Spelling.MOMENT, frozenset({"timestamptz"}) | _TEXTS),
    "timestamp_ntz": ("timestamp", Spelling.PLAIN, frozenset({"timestamp"}) | _TEXTS),
}


def form(column: str, spark: Any, existing: Existing | None = None) -> Form:
    """Return how `spark`, a Spark type as its `jsonValue()`, is written.

    `existing` is the column that is there, None where it is to be made. Raises SettingsError for a
    type that PostgreSQL has no form for, or that the column could not hold unchanged.
    """
    if isinstance(spark, dict):
        return _nested(column, spark, existing)
    made, spelling, fits, scale = _simple(column, str(spark))
    if existing is None:
        return Form(postgres=made, spelling=spelling)
    base = existing.base
    if spelling is Spelling.MOMENT and base == "timestamp":
        spelling = Spelling.UTC
    elif fits is not None and base not in fits:
        raise _unfit(column, str(spark), existing)
    if spelling is Spelling.TEXT and (base == "bytea" or existing.element is not None):
        raise _unfit(column, str(spark), existing)
    if not _exact(str(spark), scale, existing):
        raise _unfit(column, str(spark), existing, "its values would be rounded")
    return Form(postgres=existing.spelt, spelling=spelling)


def _simple(column: str, spark: str) -> tuple[str, Spelling, frozenset[str] | None, int | None]:
    """Type to make, spelling, types that fit (None: any that reads a text), digits to keep."""
    if spark in _SIMPLE:
        made, spelling, fits = _SIMPLE[spark]
        whole = 0 if fits >= _WHOLE else None
        return made, spelling, fits, whole
    decimal = _DECIMAL.fullmatch(spark)
    if decimal is not None:
        scale = int(decimal[2])
        made = f"numeric({decimal[1]}, {scale})"
        return made, Spelling.PLAIN, frozenset({"numeric"}) | _TEXTS, scale
    if _STRING.fullmatch(spark):
        return "text", Spelling.TEXT, None, None
    if _TIME.fullmatch(spark):
        return "time", Spelling.WORD, frozenset({"time"}) | _TEXTS, None
    raise SettingsError(
        f"column {column!r} is of Spark's type {spark}, for which PostgreSQL has no form here",
        fix="Cast it in the transform (to string, to a number), or drop it",
    )


def _nested(column: str, spark: dict[str, Any], existing: Existing | None) -> Form:
    kind = spark.get("type")
    if kind == "udt":
        raise SettingsError(
            f"column {column!r} is of a user-defined type, which only Spark knows",
            fix="Take the values out of it in the transform",
        )
    inner = spark.get("elementType")
    flat = kind == "array" and not isinstance(inner, dict)
    if flat and (existing is None or existing.base not in _JSON):
        made, spelling, fits, _ = _simple(column, str(inner))
        if existing is None:
            return Form(postgres=f"{made}[]", spelling=Spelling.ARRAY, element=spelling)
        if spelling is Spelling.MOMENT and existing.element == "timestamp":
            spelling = Spelling.UTC
        elif existing.element is None or (fits is not None and existing.element not in fits):
            raise _unfit(column, f"array of {inner}", existing)
        return Form(postgres=existing.spelt, spelling=Spelling.ARRAY, element=spelling)
    if existing is None:
        return Form(postgres="jsonb", spelling=Spelling.JSON)
    if existing.base not in _JSON | _TEXTS:
        raise _unfit(column, str(kind), existing)
    return Form(postgres=existing.spelt, spelling=Spelling.JSON)


def _exact(spark: str, scale: int | None, existing: Existing) -> bool:
    """Tell whether a type modifier of the column keeps every digit."""
    if existing.modifier < 0:
        return True
    if existing.base == "numeric":
        there = (existing.modifier - 4) & 0x7FF
        there = there - 0x800 if there & 0x400 else there
        return scale is not None and scale <= there
    if existing.base in ("timestamp", "timestamptz", "time") and spark != "date":
        return existing.modifier >= _LOSSLESS_MOMENT or spark.startswith(("string", "var", "char"))
    return True


def _unfit(column: str, spark: str, existing: Existing, why: str | None = None) -> SettingsError:
    return SettingsError(
        f"column {column!r} is {spark} in the rows and {existing.spelt} in the table",
        cause=why or "PostgreSQL would refuse or change its values",
        fix=f"Cast it in the transform, or ALTER TABLE ... ALTER COLUMN ... TYPE {_made(spark)}",
    )


def _made(spark: str) -> str:
    return _SIMPLE[spark][0] if spark in _SIMPLE else "one that holds it"
