"""Reads back of which source offset each row of a SQLite table is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from eo_listener.model.errors import SettingsError
from eo_listener.sinks.ledger_sql import quoted
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
    missing = [name for name in columns if name not in there]
    if missing:
        raise SettingsError(
            f"the database has no table {table!r}"
            if not there
            else f"table {table!r} has no column {missing[0]!r}",
            cause="rows are counted by the source's topic, partition and offset, which the "
            "transform must keep",
            fix="Name the columns that have them: --columns TOPIC,PARTITION,OFFSET",
        )
    topic, partition, offset = map(quoted, columns)
    names = f"{topic}, {partition}, {offset}"
    empty = " OR ".join(f"{name} IS NULL" for name in (topic, partition, offset))
    # By the bytes of texts, whatever the column's own collation is.
    order = f"{empty}, {topic} COLLATE BINARY, {partition}, {offset}"
    cursor = connection.execute(f"SELECT {names} FROM {in_file(table)} ORDER BY {order}")
    cursor.arraysize = _AT_ONCE
    while rows := cursor.fetchmany():
        yield from rows
