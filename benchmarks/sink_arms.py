"""What is compared for the sinks: each arm writes the same cached DataFrame into a table.

An arm is prepared (its table and ledger are emptied), which is not timed, and then run.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame

from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_rows import TaskSize
from eo_listener.sinks.postgres.catalog import existing_tables
from eo_listener.sinks.postgres.columns import ColumnLayout
from eo_listener.sinks.postgres.copy import Lines
from eo_listener.sinks.target import Target

TABLE = "flights"
TARGET = Target.from_arguments(
    table=TABLE, mode="append", keys=(), apply=None, create=True, dead_letters=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What every arm is given: the frame of foreachBatch (cached), its number, and its plan."""

    frame: DataFrame
    number: int
    plan: PlannedBatch


@dataclass(slots=True, kw_only=True)
class Arm:
    """One write method; `times` are the seconds of its runs."""

    name: str
    prepare: Callable[[], None]
    run: Callable[[Batch], None]
    times: list[float] = field(default_factory=list)

    def measure(self, batch: Batch, *, count: bool = True, prepared: bool = False) -> float:
        """Prepare, run, and keep the time unless it was a warm-up."""
        if not prepared:
            self.prepare()
        begun = time.perf_counter()
        self.run(batch)
        took = time.perf_counter() - begun
        if count:
            self.times.append(took)
        return took


class Postgres:
    """A server, and the bare ways into it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._size = TaskSize()
        self._link = psycopg.connect(dsn, autocommit=True)
        self._lines = b""

    def empty(self) -> None:
        """Take all rows, and all that ledgers know, and leave a quiet server."""
        tables = self._link.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        for (name,) in tables:
            self._link.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(name)))
        self._link.execute("CHECKPOINT")

    def count(self) -> int:
        """How many rows there are."""
        row = self._link.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608  # our own name
        assert row is not None
        return int(row[0])

    def copy(self, batch: Batch) -> None:
        """COPY straight into the table, pulled by the sink's own iterator; no guard, no ledger."""
        layout = self._layout(batch.frame)
        with (
            closing(self._size.stream(batch.frame, batch.plan)) as batches,
            self._link.transaction(),
            self._link.cursor() as cursor,
            cursor.copy(layout.copy(sql.Identifier(TABLE))) as copy,
        ):
            for one in batches:
                copy.write(Lines.from_batch(one, layout.formats).text())

    def keep_lines(self, batch: Batch) -> None:
        """Have the lines ready, for `copy_ready`."""
        forms = self._layout(batch.frame).formats
        with closing(self._size.stream(batch.frame, batch.plan)) as batches:
            self._lines = b"".join(Lines.from_batch(one, forms).text() for one in batches)

    def copy_ready(self, batch: Batch) -> None:
        """COPY of bytes that lie ready: the distance to what the server can take."""
        statement = self._layout(batch.frame).copy(sql.Identifier(TABLE))
        with (
            self._link.transaction(),
            self._link.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            for at in range(0, len(self._lines), 1 << 20):
                copy.write(self._lines[at : at + (1 << 20)])

    def copy_by_executors(self, batch: Batch) -> None:
        """Each task copies its lines into a staging table; then one statement moves them all."""
        layout = self._layout(batch.frame)
        self._link.execute("DROP TABLE IF EXISTS bare_staging")
        self._link.execute(f"CREATE UNLOGGED TABLE bare_staging (LIKE {TABLE})")
        statement = layout.copy(sql.Identifier("bare_staging")).as_string(self._link).encode()
        dsn, forms = self._dsn, layout.formats

        def task(batches: Iterable[Any]) -> Iterable[Any]:
            with (
                psycopg.connect(dsn) as link,
                link.cursor() as cursor,
                cursor.copy(statement) as copy,
            ):
                for one in batches:
                    copy.write(Lines.from_batch(one, forms).text())
            return ()

        batch.frame.mapInArrow(task, "done int").write.format("noop").mode("overwrite").save()
        with self._link.transaction():
            self._link.execute(f"INSERT INTO {TABLE} SELECT * FROM bare_staging")  # noqa: S608  # our own names
        self._link.execute("DROP TABLE bare_staging")

    def _layout(self, frame: DataFrame) -> ColumnLayout:
        link: Any = self._link  # any connection will do
        there = existing_tables(link, None, [TABLE])[TABLE].columns
        return ColumnLayout.from_schema(frame.schema.jsonValue(), there, TARGET, direct=True)

    def close(self) -> None:
        self._link.close()


class Sqlite:
    """A file, with the sink's own settings, and the bare way into it."""

    def __init__(self, path: Path) -> None:
        self._link = sqlite3.connect(
            path, isolation_level=None, timeout=30, check_same_thread=False
        )
        self._size = TaskSize()
        self._link.execute("PRAGMA journal_mode = WAL")
        self._link.execute("PRAGMA synchronous = FULL")

    def empty(self) -> None:
        """Take all rows, and all that ledgers know."""
        there = self._link.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in there:
            self._link.execute(f"DELETE FROM {name}")  # noqa: S608  # our own names
        self._link.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def count(self) -> int:
        """How many rows there are."""
        (found,) = self._link.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608  # our own name
        return int(found)

    def executemany(self, batch: Batch) -> None:
        """All rows by one executemany in one transaction, pulled by the sink's own iterator."""
        places = ", ".join("?" * len(batch.frame.columns))
        with closing(self._size.stream(batch.frame, batch.plan)) as batches:
            rows = (
                row
                for one in batches
                for row in zip(*(column.to_pylist() for column in one.columns), strict=True)
            )
            first = next(rows)  # computed before the transaction begins, as the sink does
            self._link.execute("BEGIN IMMEDIATE")
            insert = f"INSERT INTO {TABLE} VALUES ({places})"  # noqa: S608  # our own name
            self._link.execute(insert, first)
            self._link.executemany(insert, rows)
            self._link.execute("COMMIT")

    def close(self) -> None:
        self._link.close()
