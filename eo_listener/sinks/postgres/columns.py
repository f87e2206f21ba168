"""The columns of a batch's rows, and their formats in COPY and in the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from eo_listener.errors import SettingsError
from eo_listener.sinks.dead_letters import RowFilter
from eo_listener.sinks.newest_row import ORIGIN, STAGED_ORIGIN, unordered
from eo_listener.sinks.postgres.types import ColumnFormat, Encoding, Existing, column_format
from eo_listener.sinks.target import Target

NUMBER, PLACE, TIED, TURN, ATTEMPT, ALIAS, *_ = RESERVED = (
    "eo_number",
    "eo_place",
    "eo_tied",
    "eo_turn",
    "eo_attempt",
    "eo_staged",
    *STAGED_ORIGIN,
)
"""The columns that staged rows have in addition to the user's columns."""

_ORIGINS: Final = {"topic": "string", "partition": "integer", "offset": "long"}
_ORIGIN_FORMATS: Final = (
    ("topic", ColumnFormat(postgres="text", encoding=Encoding.TEXT)),
    ("partition", ColumnFormat(postgres="integer", encoding=Encoding.PLAIN)),
    ("offset", ColumnFormat(postgres="bigint", encoding=Encoding.PLAIN)),
)
_WHOLE: Final = frozenset({"int2", "int4", "int8", "numeric"})
_ORIGIN_BASES: Final = {
    "topic": frozenset({"text", "varchar", "citext"}),
    "partition": _WHOLE,
    "offset": _WHOLE,
}
_VERSIONS: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _WHOLE),
    "date": frozenset({"date", "timestamp"}),
    "timestamp": frozenset({"timestamp", "timestamptz"}),
    "timestamp_ntz": frozenset({"timestamp"}),
}
"""The Spark types that a version may have, and the column types that order values as Spark does."""
_LONGEST: Final = 63  # bytes; PostgreSQL truncates longer names, so two of them may become the same


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """The columns of a line of COPY data, in order, with their formats.

    `formats` are the formats of the target's columns. `row_filter` removes rows that cannot be
    written. With `traced`, lines end with a copy of topic, partition and offset, in columns that
    only the sink uses: these show which of two rows with the same key is newer, and from which
    source offset a refused row comes. `located` is True if the target also has these columns, in
    suitable types.
    """

    formats: tuple[tuple[str, ColumnFormat], ...]
    row_filter: RowFilter
    traced: bool
    located: bool

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[str, Any],
        existing: Mapping[str, Existing] | None,
        target: Target,
        *,
        direct: bool,
    ) -> ColumnLayout:
        """Return the layout for a frame's schema (`schema.jsonValue()`) and the target's columns.

        `existing` is None if the target is yet to be created, or if `apply=` replaces it. With
        `direct`, COPY writes the lines straight into the target, so the lines have no columns that
        only the sink uses. Raises SettingsError if the frame does not fit the target.
        """
        kinds = {field["name"]: field["type"] for field in schema["fields"]}
        names = [str(field["name"]) for field in schema["fields"]]
        row_filter = RowFilter.for_target(names, existing, target.version_column, keys=target.keys)
        check_names(names)
        taken = sorted(set(names) & set(RESERVED))
        if taken:
            raise SettingsError(
                f"the rows have the columns {', '.join(map(repr, taken))}, which PostgresSink uses "
                "itself",
                fix="Rename them in the transform",
            )
        has_origin = all(kinds.get(name) == kind for name, kind in _ORIGINS.items())
        columns = existing or {}
        if target.version_column is not None:
            _check_version(target.version_column, kinds, columns)
        return cls(
            formats=tuple(
                (name, column_format(name, kinds[name], columns.get(name)))
                for name in row_filter.columns
            ),
            row_filter=row_filter,
            traced=has_origin and not direct and target.apply is None,
            located=has_origin and _keeps_origin(row_filter.columns, columns),
        )

    @property
    def written(self) -> tuple[str, ...]:
        """The columns that the sink writes into the target."""
        return self.row_filter.columns

    @property
    def fields(self) -> tuple[tuple[str, ColumnFormat], ...]:
        """The columns of a line of COPY data, in order, with their formats."""
        return (*self.formats, *(_ORIGIN_FORMATS if self.traced else ()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that COPY fills, in the order of a line's values."""
        return (*self.written, *(STAGED_ORIGIN if self.traced else ()))

    def definition(self, table: sql.Identifier, keys: Sequence[str]) -> sql.Composed:
        """Return the CREATE TABLE statement for the target."""
        made = dict(self.formats)
        parts: list[sql.Composable] = [
            sql.SQL("{} {}").format(sql.Identifier(name), type_name(made[name]))
            for name in self.written
        ]
        if keys:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(listed(keys)))
        statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})")
        return statement.format(table, sql.SQL(", ").join(parts))

    def copy(self, table: sql.Identifier, *more: str) -> sql.Composed:
        """Return the COPY statement for lines that end with values for the columns `more`."""
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT text, ENCODING 'UTF8')")
        return statement.format(table, listed((*self.names, *more)))

    def shape(self, target: sql.Identifier | None) -> sql.Composed:
        """Return a query for CREATE TABLE AS: the columns of a line, in the target's types."""
        parts = [
            sql.Identifier(name)
            if target is not None and name in self.written
            else sql.SQL("NULL::{} AS {}").format(type_name(made), sql.Identifier(name))
            for name, (_, made) in zip(self.names, self.fields, strict=True)
        ]
        query = sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts))
        return query if target is None else sql.SQL("{} FROM {}").format(query, target)


def _check_version(
    version: str, kinds: Mapping[str, Any], existing: Mapping[str, Existing]
) -> None:
    """Raise SettingsError if the column `version` would order values differently from Spark."""
    kind, column = str(kinds[version]), existing.get(version)
    if kind not in _VERSIONS:
        raise unordered(version, f"of Spark's type {kind}")
    if column is not None and column.base not in _VERSIONS[kind]:
        raise unordered(version, f"{column.type_name} in the table")


def _keeps_origin(written: Sequence[str], existing: Mapping[str, Existing]) -> bool:
    """Return True if the sink writes topic, partition and offset into columns of suitable types."""
    return set(ORIGIN) <= set(written) and all(
        name not in existing or existing[name].base in _ORIGIN_BASES[name] for name in ORIGIN
    )


def listed(names: Sequence[str]) -> sql.Composed:
    """Return `names` as identifiers, separated by commas."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def type_name(made: ColumnFormat) -> sql.SQL:
    """Return the type of a column as SQL, always a text from the module `types`."""
    return sql.SQL(made.postgres)


def check_names(names: Sequence[str]) -> None:
    """Raise SettingsError for a name that PostgreSQL would refuse or truncate."""
    for name in names:
        if not name or "\x00" in name:
            raise SettingsError(
                f"{name!r} is not a valid PostgreSQL name",
                fix="Give a non-empty name without NUL characters",
            )
        if len(name.encode()) > _LONGEST:
            raise SettingsError(
                f"the name {name!r} is longer than {_LONGEST} bytes",
                cause="PostgreSQL would truncate it silently",
                fix="Give it a shorter name",
            )
