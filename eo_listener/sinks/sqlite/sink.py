"""Writes a batch's rows and its ledger entry in one transaction of one SQLite file.

BEGIN IMMEDIATE takes the only write lock before anything is read or written, so a transaction never
fails halfway because of another writer. If Spark delivers the rows of a batch at once, the sink
fetches them before it takes the lock; it fetches the rows of a larger batch while it holds the
lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from itertools import chain, islice
from operator import length_hint
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from eo_listener.errors import SettingsError
from eo_listener.model.check_finding import CheckFinding, checked
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.ledger_place import LedgerPlace
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import TASK_ROWS, TaskSize, schema_of
from eo_listener.sinks.dead_letters import SHARE, DeadLetter, DeadLetterSql, Refusals
from eo_listener.sinks.sqlite import check
from eo_listener.sinks.sqlite.catalog import Table, columns_of, in_file, target_table
from eo_listener.sinks.sqlite.connection import Connection, DatabaseFile, absolute
from eo_listener.sinks.sqlite.errors import explain_commit
from eo_listener.sinks.sqlite.ledger import Ledger
from eo_listener.sinks.sqlite.merge import STAGE, Merge, RowWrites
from eo_listener.sinks.sqlite.types import flaws, unreadable_values, values
from eo_listener.sinks.sqlite.user_sql import run_apply
from eo_listener.sinks.target import Apply, Target, refuse_dotted, refuse_dropped

_LETTERS: Final = 1000  # how many dead letters are in memory at once


class Writing(RowWrites):
    """Writes the rows of one batch into `table`, and counts the rows written."""

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        super().__init__(connection)
        self._table = table

    def write(self, batch: pa.RecordBatch) -> Generator[DeadLetter, None, None]:
        """Write the rows of `batch`, and yield those that were not written.

        Writes no more rows once the caller stops iterating. Raises sqlite3.Error for an error that
        does not come from a single row's values.
        """
        batch, marked = self._table.row_filter.sift(batch)
        yield from marked
        keys = self._table.keys
        batch, flawed = self._sift(
            batch, lambda name, column: flaws(name, column, key=name in keys)
        )
        yield from flawed
        try:
            columns = self._values(batch)
        except OverflowError:
            batch, flawed = self._sift(batch, unreadable_values)
            yield from flawed
            columns = self._values(batch)
        yield from self._insert(batch, columns)

    def _values(self, batch: pa.RecordBatch) -> list[list[Any]]:
        return [values(batch.column(name)) for name in self._table.columns]

    def _sift(
        self, batch: pa.RecordBatch, check: Callable[[str, pa.Array], dict[int, str]]
    ) -> tuple[pa.RecordBatch, Iterable[DeadLetter]]:
        """Return the rows in which `check` finds no flaw, and the others as dead letters."""
        row_filter = self._table.row_filter
        reasons: dict[int, str] = {}
        for name in row_filter.columns:
            reasons.update(check(name, batch.column(name)))
        letters = (row_filter.letter(batch, at, flaw) for at, flaw in sorted(reasons.items()))
        is_good = [at not in reasons for at in range(batch.num_rows)]
        return batch.filter(pa.array(is_good, pa.bool_())) if reasons else batch, letters

    def _insert(self, batch: pa.RecordBatch, columns: list[list[Any]]) -> Iterator[DeadLetter]:
        size = len(columns[0])
        first = iter(columns[0])  # its length hint shows how many values were taken
        rows = zip(first, *columns[1:], strict=True)

        def taken() -> int:
            return size - length_hint(first)

        for refusal in self._write_each(self._table.insert, rows, taken):
            yield self._table.row_filter.letter(batch, taken() - 1, *refusal)


class SqliteSink:
    """Writes batches into `table` of the SQLite file `path`, each batch once.

    `mode`: "append", or "upsert" with `keys`, which keeps the newest row of each key, by
    `version_column` if you name one, otherwise by offset. `apply`: your own SQL statements, one in
    each string, or a function of (connection, entry). They run in the same transaction, and find
    the batch's rows in the temporary table `eo_batch`; the sink itself does not write to `table`.
    `dead_letters` names a table for rows that cannot be written. `max_dead_letters` limits them in
    each batch: an int is a number of rows, a float a share of the rows. `busy_timeout` is in
    seconds. With `foreign_keys`, the default, SQLite enforces foreign keys, which it does not do on
    its own. With `create=False`, the sink creates neither file nor tables.

    Raises SettingsError for invalid arguments.
    """

    per_partition = False

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        mode: str = "append",
        keys: str | Sequence[str] = (),
        version_column: str | None = None,
        apply: Apply | None = None,
        create: bool = True,
        dead_letters: str | None = None,
        max_dead_letters: float = SHARE,
        atomicity: Literal["batch"] = "batch",
        busy_timeout: float = 30.0,
        foreign_keys: bool = True,
        task_rows: int = TASK_ROWS,
    ) -> None:
        if atomicity != "batch":
            raise SettingsError(
                f"SQLite, which has one writer at a time, does not support atomicity={atomicity!r}",
                fix='Remove it: a batch is one transaction. PostgresSink supports "partition"',
            )
        if str(path) in ("", ":memory:"):
            raise SettingsError(
                "an in-memory database loses its ledger when the process ends",
                fix="Name a file: SqliteSink('delays.db', table='delays')",
            )
        self._target = Target.from_arguments(
            table=table,
            mode=mode,
            keys=keys,
            version_column=version_column,
            apply=apply,
            create=create,
            dead_letters=dead_letters,
            max_dead_letters=max_dead_letters,
        )
        self._file = DatabaseFile(
            absolute(path), create=create, busy_timeout=busy_timeout, foreign_keys=foreign_keys
        )
        self._letters = (
            DeadLetterSql(table=in_file(dead_letters), placeholder="?", moment="text")
            if dead_letters is not None
            else None
        )
        self._size = TaskSize(task_rows)
        self._ledger = Ledger(key=self.key, label=self.label, path=self._file.path, create=create)

    @property
    def label(self) -> str:
        """The table and its file, for display."""
        return f"table {self._target.table!r} of {self._file.path}"

    @property
    def key(self) -> str:
        """The table's name in lower case, since SQLite ignores the case of names."""
        return folded(self._target.table)

    @property
    def ledger_place(self) -> LedgerPlace:
        """The address of the file."""
        return LedgerPlace(address=f"sqlite:{self._file.path}")

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads of `query`."""
        connection = self._file.connection()
        with self._file.translated():
            try:
                return self._ledger.applied(connection, query)
            except BaseException:
                self._roll_back(connection)
                raise

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Read the heads in this file's ledger whose last move was by `query_id`."""
        with self._file.translated():
            return self._ledger.moved_by(self._file.connection(), query_id)

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows of `frame`, and the ledger entry `entry`, in one transaction."""
        schema = schema_of(frame)
        with closing(self._size.stream(frame, plan)) as rows:
            return self._apply(schema, rows, entry)

    def _apply(self, schema: pa.Schema, rows: Iterator[pa.RecordBatch], entry: Entry) -> Applied:
        first = next(rows, None)
        connection = self._file.connection()
        with self._file.translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                fault_point("sink.begun")
                batches = chain((first,) if first is not None else (), rows)
                applied = self._write(connection, schema, batches, entry)
                fault_point("sink.rows-written")
                moved = self._ledger.move(connection, entry, rows=applied.rows or 0)
                if moved:
                    fault_point("sink.ledger-moved")
                    fault_point("sink.commit-sent")
            except BaseException:
                self._roll_back(connection)
                raise
            if not moved:
                self._roll_back(connection)
                raise self._ledger.foreign_writer(connection, entry)
        self._commit(connection)
        fault_point("sink.committed")
        return applied

    def check(self, query: str | None = None) -> list[CheckFinding]:
        """Return findings about obstacles and risks for the batches; change nothing.

        The method checks the file, the tables, and the ledger of `query`.
        """
        found = check.findings(self._file, self._target, self.key, query)
        return list(checked(f"file {self._file.path}", found))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(
        self,
        connection: Connection,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        entry: Entry,
    ) -> Applied:
        if self._target.apply is None and not columns_of(connection, self._target.table):
            heads = self._ledger.read(connection, entry.query).heads
            refuse_dropped(self.label, self.key, entry.query, heads)
        table = target_table(connection, self._target, schema)
        writing = Writing(connection, table)
        if self._letters is not None and self._target.create:
            name = self._target.dead_letters or ""
            if not columns_of(connection, name):
                refuse_dotted("dead_letters", name, has_schemas=False)
            connection.execute(self._letters.create())
        refusals = Refusals(label=self.label, limit=self._target.limit)
        write_letters = partial(self._write_dead_letters, connection, entry, refusals)
        row_count = 0
        for number, batch in enumerate(batches):
            row_count += batch.num_rows
            write_letters(writing.write(batch))
            if number == 0:
                fault_point("sink.copying")
        if self._target.apply is not None:
            run_apply(connection, self._target, entry)
        rows = writing.rows
        if table.upsert is not None:
            merge = Merge(connection, table.upsert)
            write_letters(merge.run())
            connection.execute(f"DROP TABLE {STAGE}")
            rows = merge.rows
        refusals.check(row_count)
        return Applied(rows=rows, dead_letters=refusals.count)

    def _write_dead_letters(
        self,
        connection: Connection,
        entry: Entry,
        refusals: Refusals,
        letters: Generator[DeadLetter, None, None],
    ) -> None:
        """Write `letters`; raise PoisonRowError for the first if there is no table for them."""
        with closing(letters):
            while refused := list(islice(letters, 1 if self._letters is None else _LETTERS)):
                if self._letters is None:
                    raise refused[0].error(self.label)
                refusals.add(refused)
                connection.executemany(
                    *self._letters.insert(entry, refused, datetime.now(timezone.utc))
                )

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            rolled_back = self._roll_back(connection)
            self._file.close()  # opening it again shows what was made durable
            path, waited = self._file.path, self._file.busy_timeout
            raise explain_commit(error, path, rolled_back=rolled_back, waited=waited) from error

    def _roll_back(self, connection: Connection) -> bool:
        """Roll back, if necessary by closing the file; return True if the file is still open."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:  # the end of the connection ends the transaction too
            self._file.close()
            return False
        return True


def folded(name: str) -> str:
    """Return a name as SQLite compares it: it ignores the case of ASCII letters only."""
    return "".join(character.lower() if character.isascii() else character for character in name)
