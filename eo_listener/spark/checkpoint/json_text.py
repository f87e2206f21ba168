"""Strict JSON: hostile texts end in Unreadable, within bounded time and memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from eo_listener.spark.checkpoint.errors import FileFindingKind, Unreadable

_LONGEST_NUMBER = 20  # a Java long has 19 digits and a sign


def decode(text: str) -> Any:
    """Read one JSON value. Raises Unreadable, also for a name that an object holds twice."""
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_refuse
        )
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        kind = FileFindingKind.CUT if ends else FileFindingKind.GARBLED
        raise Unreadable(kind, "its JSON does not end" if ends else "no JSON") from None
    except RecursionError:
        raise Unreadable(FileFindingKind.GARBLED, "its JSON is nested too deeply") from None


def decode_object(text: str) -> Mapping[str, Any]:
    """Read a JSON object. Raises Unreadable."""
    value = decode(text)
    if not isinstance(value, dict):
        raise Unreadable(FileFindingKind.GARBLED, "a JSON object was expected")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Unreadable(FileFindingKind.GARBLED, "a name stands twice in one JSON object")
    return made


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:  # Python would take quadratic time for very long ones
        raise Unreadable(FileFindingKind.OUT_OF_RANGE, "a number is too long")
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise Unreadable(FileFindingKind.GARBLED, f"{text} is no JSON")
