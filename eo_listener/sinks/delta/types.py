"""Which columns order the versions of a row, and which of Spark's types say so. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eo_listener.sinks.newest_row import ORIGIN, unordered

_ORDERED: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
)
_OF_KAFKA: Final = ("string", "int", "bigint")

Columns = Mapping[str, str]
"""Spark's types (`simpleString`), by the columns' names."""


def is_traced(rows: Columns) -> bool:
    """Whether rows have topic, partition and offset, as Kafka's own."""
    return tuple(rows.get(name) for name in ORIGIN) == _OF_KAFKA


def check_version(version: str, rows: Columns, table: Columns) -> None:
    """Raise SettingsError for a version whose order is not that of numbers or of time."""
    for where, columns in (("", rows), (" in the table", table)):
        kind = columns.get(version)
        if kind is not None and kind not in _ORDERED:
            raise unordered(version, f"of type {kind}{where}")
