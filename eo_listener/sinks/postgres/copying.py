"""Record batches of lines into COPY, and the rows that the server refuses for their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import psycopg
import pyarrow as pa

from eo_listener.errors import SinkError
from eo_listener.fault_points import reached
from eo_listener.sinks.poison import ORIGIN, REASON, DeadLetter
from eo_listener.sinks.postgres.failures import REFUSED, reason
from eo_listener.sinks.postgres.spelling import LINE, ROW, decoded

if TYPE_CHECKING:
    from psycopg import sql

    from eo_listener.sinks.postgres.connection import Link

CHUNK_BYTES: Final = 4 << 20
CHUNK_ROWS: Final = 20_000
"""What one COPY and its savepoint take at least; a refused row is looked for within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Some of the lines of a record batch, `start` up to but not including `until`."""

    batch: pa.RecordBatch
    start: int
    until: int

    def text(self) -> memoryview:
        """The lines end to end, as they lie in Arrow's buffer; marked rows are empty there."""
        column = self.batch.column(LINE)
        _, offsets, data = column.buffers()
        if data is None:
            return memoryview(b"")
        where = memoryview(offsets).cast("q" if pa.types.is_large_string(column.type) else "i")
        begin, end = where[column.offset + self.start], where[column.offset + self.until]
        return memoryview(data)[begin:end]

    def rows(self) -> int:
        """How many rows are to be written."""
        return len(column := self._column(LINE)) - int(column.null_count)

    def marked(self) -> list[DeadLetter]:
        """The rows that the transform has marked."""
        reasons = self._column(REASON)
        if reasons.null_count == len(reasons):
            return []
        found = [(self.start + at, why.as_py()) for at, why in enumerate(reasons) if why.is_valid]
        return [self._letter(at, why, _text(self.batch.column(ROW), at)) for at, why in found]

    def refused(self, why: str, names: Sequence[str]) -> DeadLetter:
        """The only row of these, which the server refuses, as a dead letter."""
        row = decoded(bytes(self.text()), names)
        return self._letter(self.start, why, json.dumps(row, ensure_ascii=False))

    def _letter(self, at: int, why: str, row: str) -> DeadLetter:
        topic, partition, offset = (self.batch.column(name)[at].as_py() for name in ORIGIN)
        return DeadLetter(topic=topic, partition=partition, offset=offset, reason=why, row=row)

    def _column(self, name: str) -> pa.Array:
        return self.batch.column(name).slice(self.start, self.until - self.start)


def _text(column: pa.Array, at: int) -> str:
    raw: bytes = column.slice(at, 1).cast(pa.large_binary(), safe=False)[0].as_py()
    return raw.decode("utf-8", "backslashreplace")


Chunk = tuple[Lines, ...]


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """Gather record batches to what is worth a COPY of its own."""
    held: list[Lines] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        lines = Lines(batch=batch, start=0, until=batch.num_rows)
        held.append(lines)
        rows += batch.num_rows
        size += len(lines.text())
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield tuple(held)
            held, rows, size = [], 0, 0
    if held:
        yield tuple(held)


def halves(chunk: Chunk) -> tuple[Chunk, Chunk] | None:
    """Cut a chunk in two; None for a single row."""
    if len(chunk) > 1:
        middle = len(chunk) // 2
        return chunk[:middle], chunk[middle:]
    (only,) = chunk
    if only.until - only.start < 2:
        return None
    middle = (only.start + only.until) // 2
    return (replace(only, until=middle),), (replace(only, start=middle),)


@dataclass(kw_only=True)
class Copier:
    """Copies chunks into one table, in the transaction that `link` is in.

    `names` are the columns of the lines. `put_aside` takes the rows that cannot be written, a
    chunk's at a time, and may raise. `rows` counts what was copied.
    """

    link: Link
    statement: sql.Composed
    names: Sequence[str]
    put_aside: Callable[[list[DeadLetter]], None]
    rows: int = 0

    def take(self, chunk: Chunk) -> None:
        """Copy a chunk; the savepoint is what a refused row leaves the rest of it by."""
        letters = [letter for lines in chunk for letter in lines.marked()]
        letters += self._copied(chunk)
        if letters:
            self.put_aside(letters)

    def _copied(self, chunk: Chunk) -> list[DeadLetter]:
        wanted = sum(lines.rows() for lines in chunk)
        if not wanted:
            return []
        try:
            with self.link.transaction(), self.link.cursor() as cursor:
                with cursor.copy(self.statement) as copy:
                    for lines in chunk:
                        copy.write(lines.text())
                        reached("sink.copying")
                landed = cursor.rowcount
        except REFUSED as error:
            return self._parted(chunk, error)
        if landed != wanted:
            raise SinkError(f"COPY took {landed} rows where {wanted} were sent: none were kept")
        self.rows += landed
        return []

    def _parted(self, chunk: Chunk, error: psycopg.Error) -> list[DeadLetter]:
        parts = halves(chunk)
        if parts is None:
            return [chunk[0].refused(reason(error), self.names)]
        return self._copied(parts[0]) + self._copied(parts[1])
