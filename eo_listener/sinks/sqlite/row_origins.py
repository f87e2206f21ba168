"""Reads back of which source offset each row of a SQLite table is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.origin_columns import require_origin_columns
from eo_listener.sinks.sqlite.catalog import columns_of, in_file

_AT_ONCE: Final = 10_000


def row_origins(
    connection: sqlite3.Connection, table: str, columns: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each row, in this order; rows without one of them last.

    SQLite sorts them, in temporary files where they are many. `columns` are the names of the three.
    Raises SettingsError where there is no such table or column, and sqlite3.Error.
    """
    there = columns_of(connection, table)
    require_origin_columns(repr(table), there, columns)
    topic, partition, offset = map(quoted, columns)
    names = f"{topic}, {partition}, {offset}"
    empty = " OR ".join(f"{name} IS NULL" for name in (topic, partition, offset))
    # By the bytes of texts, whatever the column's own collation is.
    order = f"{empty}, {topic} COLLATE BINARY, {partition}, {offset}"
    cursor = connection.execute(f"SELECT {names} FROM {in_file(table)} ORDER BY {order}")
    cursor.arraysize = _AT_ONCE
    while rows := cursor.fetchmany():
        yield from rows
