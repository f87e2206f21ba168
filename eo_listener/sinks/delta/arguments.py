"""The arguments of a DeltaSink, and their checks. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eo_listener.errors import SettingsError
from eo_listener.sinks.spark_names import quoted
from eo_listener.sinks.target import WriteRules

_PART = re.compile(r"`(?:[^`]|``)+`|\w+")


def at(location: str) -> str:
    """Return the name of the table at `location` for Spark SQL."""
    return f"delta.{quoted(location)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(WriteRules):
    """The table to write, and how to write its rows. Raises SettingsError for invalid arguments."""

    #: Exactly one of `table` and `path` is set.
    table: str | None = None
    path: str | None = None
    #: The partition columns of a table that the sink creates.
    partition_by: tuple[str, ...] = ()
    #: True if the sink adds columns that the table lacks.
    new_columns: bool = False
    create: bool = False

    def __post_init__(self) -> None:
        _check_place(self.table, self.path)
        WriteRules.__post_init__(self)

    @classmethod
    def to_read(cls, place: str) -> Target:
        """Return a target for reading only: `place` is a name as in SQL, or a path with a slash.

        Raises SettingsError.
        """
        is_name = ".".join(_PART.findall(place)) == place
        if not is_name and "/" not in place:
            raise SettingsError(
                f"{place!r} is neither a table name nor a path",
                fix="Write delta:lake.delays, or a path with a slash: delta:/lake/delays, "
                "delta:./delays, delta:s3a://bucket/delays",
            )
        return cls(table=place) if is_name else cls(path=place)

    @property
    def label(self) -> str:
        """The table or the path, for display."""
        return f"Delta table {self.table}" if self.table else f"Delta table at {self.path}"

    @property
    def parts(self) -> list[str]:
        """The parts of the table's name as written, with any backticks; empty for a path."""
        return [] if self.table is None else _PART.findall(self.table)

    def reference(self, location: str | None = None, database: str | None = None) -> str:
        """Return the table's name for Spark SQL.

        `location` is the table's path with a scheme; `database` completes a name without a
        database.
        """
        if self.table is None:
            return at(location or self.path or "")
        bare = len(_PART.findall(self.table)) == 1
        return f"{quoted(database)}.{self.table}" if bare and database else self.table


def _check_place(table: str | None, path: str | None) -> None:
    if (table is None) == (path is None) or not (table or path):
        raise SettingsError(
            "a DeltaSink needs exactly one of a table and a path",
            fix='DeltaSink("lake.delays"), or DeltaSink(path="s3a://bucket/delays")',
        )
    if table is not None:
        parts = _PART.findall(table)
        if ".".join(parts) != table or len(parts) > 3:
            raise SettingsError(
                f"{table!r} is not a table name",
                cause="a name has up to three parts, as in catalog.database.table; a part with "
                "characters other than letters, digits and _ needs backticks",
                fix='For a path: DeltaSink(path="...")',
            )


def column_names(setting: str, columns: str | Sequence[str]) -> tuple[str, ...]:
    """Return an argument's column names as a tuple. Raises SettingsError for an empty name."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(names):
        raise SettingsError(
            f"{setting}= names columns, got {columns!r}", fix="Remove the empty name"
        )
    return names
