"""Writes a batch's rows into a table, and returns those that cannot be written.

A statement that SQLite refuses changes nothing, and the ones before it stay: each is a savepoint
of its own. So the rows go in as one stream, which goes on behind a row that was refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from operator import length_hint
from typing import Any

import pyarrow as pa

from eo_listener.sinks.dead_letters import DeadLetter
from eo_listener.sinks.sqlite.catalog import Table
from eo_listener.sinks.sqlite.errors import REFUSED, check_open, why
from eo_listener.sinks.sqlite.types import flaws, unreadable, values


class Writing:
    """Writes the rows of one batch into `table`; counts what went in."""

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        self.rows = 0
        self._connection = connection
        self._table = table

    def write(self, batch: pa.RecordBatch) -> Generator[DeadLetter, None, None]:
        """Write the rows of `batch`, and yield those that were not written.

        Nothing more is written once the caller stops asking. Raises sqlite3.Error for what is no
        single row's fault.
        """
        batch, letters = self._table.row_filter.sift(batch)
        yield from letters
        found: dict[int, str] = {}
        for name in self._table.row_filter.columns:
            found.update(flaws(name, batch.column(name), key=name in self._table.keys))
        yield from self._letters(batch, found)
        batch = _without(batch, found)
        try:
            columns = self._values(batch)
        except OverflowError:
            found = {}
            for name in self._table.row_filter.columns:
                found.update(unreadable(name, batch.column(name)))
            yield from self._letters(batch, found)
            batch = _without(batch, found)
            columns = self._values(batch)
        yield from self._insert(batch, columns)

    def _values(self, batch: pa.RecordBatch) -> list[list[Any]]:
        return [values(batch.column(name)) for name in self._table.columns]

    def _letters(self, batch: pa.RecordBatch, found: Mapping[int, str]) -> Iterator[DeadLetter]:
        return (
            self._table.row_filter.letter(batch, at, flaw) for at, flaw in sorted(found.items())
        )

    def _insert(self, batch: pa.RecordBatch, columns: list[list[Any]]) -> Iterator[DeadLetter]:
        first = iter(columns[0])  # it knows how many of its values were taken
        rows = zip(first, *columns[1:], strict=True)
        taken = 0
        while taken < batch.num_rows:
            before, changed = taken, self._connection.total_changes
            try:
                self._connection.executemany(self._table.insert, rows)
            except REFUSED as error:
                check_open(self._connection, error)
                taken = batch.num_rows - length_hint(first)
                self._count(taken - before - 1, changed)
                yield self._table.row_filter.letter(batch, taken - 1, *why(error))
            else:
                taken = batch.num_rows
                self._count(taken - before, changed)

    def _count(self, tried: int, changed: int) -> None:
        """Count what was written: a constraint may say ON CONFLICT IGNORE, a trigger RAISE(IGNORE).

        A trigger's own changes are among those that SQLite counts, and may hide rows so dropped.
        """
        self.rows += min(tried, self._connection.total_changes - changed)


def _without(batch: pa.RecordBatch, found: Mapping[int, str]) -> pa.RecordBatch:
    if not found:
        return batch
    return batch.filter(pa.array([at not in found for at in range(batch.num_rows)]))
