"""Which columns of a frame go where, and as what. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from eo_listener.errors import SettingsError
from eo_listener.sinks.poison import ORIGIN, Sieve
from eo_listener.sinks.postgres.types import Existing, Form, form
from eo_listener.sinks.target import Target

NUMBER, PLACE, TURN, ATTEMPT, ALIAS = RESERVED = (
    "eo_number",
    "eo_place",
    "eo_turn",
    "eo_attempt",
    "eo_staged",
)
"""Names that staged rows have columns of beside their own."""

_ORIGINS: Final = {"topic": "string", "partition": "integer", "offset": "long"}
_LONGEST: Final = 63  # bytes; PostgreSQL cuts a longer name, and two of them may then be one


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a line, in order, with their forms.

    `written` are those that the target takes; the others only travel, to find the newest of two
    rows with one key, or where a refused row came from. `sieve` parts the rows that are marked.
    `traced`: lines tell topic, partition and offset, as Kafka's own.
    """

    forms: tuple[tuple[str, Form], ...]
    written: tuple[str, ...]
    sieve: Sieve
    traced: bool

    @classmethod
    def of(
        cls,
        schema: Mapping[str, Any],
        existing: Mapping[str, Existing] | None,
        target: Target,
        *,
        direct: bool,
    ) -> Layout:
        """From a frame's schema (`schema.jsonValue()`) and the columns that the target has.

        `existing` is None where the target is to be made, or is `apply=`, which has none. `direct`
        rows go into the target at once, so nothing else travels. Raises SettingsError where they
        do not fit.
        """
        kinds = {one["name"]: one["type"] for one in schema["fields"]}
        names = [str(one["name"]) for one in schema["fields"]]
        sieve = Sieve.of(names, existing)
        check_names(names)
        taken = sorted(set(names) & set(RESERVED))
        if taken:
            raise SettingsError(
                f"the rows have the columns {', '.join(map(repr, taken))}, which PostgresSink uses "
                "itself",
                fix="Rename them in the transform",
            )
        known = all(kinds.get(name) == kind for name, kind in _ORIGINS.items())
        travelling = ORIGIN if not direct and known else ()
        columns = (*sieve.columns, *(name for name in travelling if name not in sieve.columns))
        lacking = sorted(set(target.keys) - set(sieve.columns))
        if lacking:
            raise SettingsError(
                f"keys= names {', '.join(map(repr, lacking))}, which the rows or the table lack",
                fix="Name columns that both have",
            )
        there = existing or {}
        return cls(
            forms=tuple((name, form(name, kinds[name], there.get(name))) for name in columns),
            written=sieve.columns,
            sieve=sieve,
            traced=known and set(ORIGIN) <= set(columns),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a line."""
        return tuple(name for name, _ in self.forms)

    def definition(self, table: sql.Identifier, keys: Sequence[str]) -> sql.Composed:
        """Return the statement that makes the target."""
        made = dict(self.forms)
        parts: list[sql.Composable] = [
            sql.SQL("{} {}").format(sql.Identifier(name), type_name(made[name]))
            for name in self.written
        ]
        if keys:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(listed(keys)))
        statement = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})")
        return statement.format(table, sql.SQL(", ").join(parts))

    def copy(self, table: sql.Identifier, *more: str) -> sql.Composed:
        """Return the statement that takes lines, whose ends hold the columns `more`."""
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT text, ENCODING 'UTF8')")
        return statement.format(table, listed((*self.names, *more)))

    def shape(self, target: sql.Identifier | None) -> sql.Composed:
        """Return a query without rows that has the line's columns, in the types of the target."""
        parts = [
            sql.Identifier(name)
            if target is not None and name in self.written
            else sql.SQL("NULL::{} AS {}").format(type_name(made), sql.Identifier(name))
            for name, made in self.forms
        ]
        query = sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts))
        return query if target is None else sql.SQL("{} FROM {}").format(query, target)


def listed(names: Sequence[str]) -> sql.Composed:
    """Return names as identifiers, with commas between."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def type_name(made: Form) -> sql.SQL:
    """Return a type that we make a column of; only ever one of `types`."""
    return sql.SQL(made.postgres)


def check_names(names: Sequence[str]) -> None:
    """Raise SettingsError for a name that PostgreSQL would not keep whole."""
    for name in names:
        if not name or "\x00" in name:
            raise SettingsError(
                f"{name!r} cannot be a name in PostgreSQL",
                fix="Give a name that is not empty and has no NUL character",
            )
        if len(name.encode()) > _LONGEST:
            raise SettingsError(
                f"the name {name!r} is longer than {_LONGEST} bytes",
                cause="PostgreSQL would shorten it silently",
                fix="Give it a shorter name",
            )
