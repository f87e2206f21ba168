"""Reads back of which source offset each row of a PostgreSQL table is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from psycopg import sql

from eo_listener.sinks.origin_columns import require_origin_columns

if TYPE_CHECKING:
    from eo_listener.sinks.postgres.connection import Connection

_AT_ONCE: Final = 10_000
_COLUMNS: Final = """
SELECT a.attname FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


def row_origins(
    link: Connection, table: str, columns: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each row, in this order; rows without one of them last.

    The server sorts them, in temporary files where they are many. `table` is a name as SQL writes
    it, as the ledger has it; `columns` are the names of the three. Raises SettingsError where there
    is no such table or column, and psycopg.Error.
    """
    there = {name for (name,) in link.execute(_COLUMNS, (table,))}
    require_origin_columns(table, there, columns)
    row = link.execute("SELECT to_regclass(%s)::text", (table,)).fetchone()
    name = str(row[0]) if row is not None else table  # as the server itself writes it
    three = [sql.Identifier(column) for column in columns]
    empty = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(one) for one in three)
    # Texts in the order of their bytes, as Python compares them, whatever the database's own is.
    order = sql.SQL('{} COLLATE "C", {}, {}').format(*three)
    text = sql.SQL("SELECT {} FROM {} ORDER BY {}, {}").format(
        sql.SQL(", ").join(three),
        sql.SQL(name),  # written by the server itself
        empty,
        order,
    )
    with link.transaction(), link.cursor("eo_origins") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(text)
        yield from cursor
