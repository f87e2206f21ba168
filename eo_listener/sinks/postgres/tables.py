"""The tables of a sink: looked at, and made where they are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eo_listener.errors import SettingsError
from eo_listener.sinks.postgres.statements import identifier, making
from eo_listener.sinks.postgres.types import Existing

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Cursor, Link
    from eo_listener.sinks.postgres.layout import Layout

_COLUMNS: Final = """
SELECT a.attname,
       CASE COALESCE(b.typtype, t.typtype) WHEN 'e' THEN 'enum'
       ELSE COALESCE(b.typname, t.typname) END,
       CASE e.typtype WHEN 'e' THEN 'enum' ELSE e.typname END,
       CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END,
       format_type(a.atttypid, a.atttypmod), a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_type e ON COALESCE(b.typcategory, t.typcategory) = 'A'
                   AND e.oid = COALESCE(b.typelem, t.typelem)
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

_FLEETING: Final = """
SELECT FROM pg_class WHERE relpersistence <> 'p' AND (oid = to_regclass(%s)
    OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s))))
LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A table that is there. `fleeting`: a crash, or the end of a connection, empties it.

    A partitioned table's own word says nothing of that: its parts are asked too.
    """

    columns: dict[str, Existing]
    fleeting: bool


def look(link: Link, schema: str | None, names: Sequence[str]) -> dict[str, Found]:
    """Look at tables, those that are there, in one round trip."""
    asked: list[tuple[Cursor, Cursor, Cursor]] = []
    with link.pipeline():
        for name in names:
            text = identifier(schema, name).as_string(link)
            there = link.execute("SELECT to_regclass(%s) IS NOT NULL", (text,))
            columns = link.execute(_COLUMNS, (text,))
            asked.append((there, columns, link.execute(_FLEETING, (text, text))))
    found = {}
    for name, (there, columns, fleeting) in zip(names, asked, strict=True):
        if there.fetchone() == (True,):
            kinds = {
                one: Existing(base=base, element=part, modifier=limit, spelt=spelt, generated=made)
                for one, base, part, limit, spelt, made in columns.fetchall()
            }
            found[name] = Found(columns=kinds, fleeting=fleeting.fetchone() is not None)
    return found


def columns(link: Link, schema: str | None, table: str) -> dict[str, Existing] | None:
    """Return the columns of a table, None where there is no such table."""
    found = look(link, schema, [table]).get(table)
    return None if found is None else found.columns


def check_durable(link: Link, schema: str | None, table: str, found: Found) -> None:
    """Raise SettingsError for a table that a crash, or the end of a connection, empties."""
    if found.fleeting:
        name = identifier(schema, table).as_string(link)
        raise SettingsError(
            f"the table {name} is UNLOGGED or temporary",
            cause="a crash of the server would empty it, while the ledger still counts its rows",
            fix=f"ALTER TABLE {name} SET LOGGED",
        )


def make_target(
    link: Link,
    layout: Layout,
    keys: tuple[str, ...],
    where: tuple[str | None, str],
    *,
    create: bool,
) -> None:
    """Make the target for the rows that came; without `create` raise SettingsError instead."""
    statement = layout.definition(identifier(*where), keys)
    if not create:
        raise SettingsError(
            f"there is no table {identifier(*where).as_string(link)}, and create=False forbids "
            "creating it",
            fix=f"As a role that may create it: {statement.as_string(link)};",
        )
    with making(link):
        link.execute(statement)
