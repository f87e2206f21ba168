"""Has the executors write a large batch: into a staging table, or each partition for itself.

Either the tasks fill a staging table, and one statement moves its rows (`Staging`), or the task
that reads a Kafka partition writes it in a transaction of its own (`Partitions`).

A staging table belongs to one sink and query, and to one attempt to write one batch. Each row
carries the number of the attempt that wrote it, since Spark may run a task twice; the sink moves
only the rows of the attempts that Spark counts as successful. The sink also checks how many rows it
has moved, since a crash of the server empties an unlogged table.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors, sql
from pyspark.sql import functions

from eo_listener.errors import ForeignWriterError, RetriableSinkError, SinkError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.dead_letters import LETTER, REDACTED, DeadLetter
from eo_listener.sinks.ledger_sql import Statement
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.postgres.catalog import identifier, run
from eo_listener.sinks.postgres.columns import ATTEMPT, listed
from eo_listener.sinks.postgres.copy import SAVEPOINTS, Copier, chunks
from eo_listener.sinks.postgres.dead_letters import statements_on
from eo_listener.sinks.postgres.errors import left_out, translated
from eo_listener.sinks.postgres.executor_tasks import (
    Batches,
    TaskAttempt,
    await_first,
    connection,
    outcomes,
)
from eo_listener.sinks.postgres.transaction import begin, commit, roll_back
from eo_listener.sinks.postgres.user_sql import apply_users
from eo_listener.sinks.postgres.write_methods import Ranges, of_each_task
from eo_listener.sinks.target import STAGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from eo_listener.sinks.dead_letters import Refusals
    from eo_listener.sinks.postgres.columns import ColumnLayout
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.executor_tasks import TaskResult
    from eo_listener.sinks.postgres.transaction import Rows, TransactionWriter, WriteCounts

_SETTING: Final = "eo.attempt"
_LEFT_OVER: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND starts_with(c.relname, %s) AND n.nspname = %s
"""


class NoStagingError(SinkError):
    """The role has no right to create the staging table; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """Writes the rows of one task into the staging table; Spark sends it to executors."""

    writer: TransactionWriter
    layout: ColumnLayout
    stage: str
    entry: Entry

    def __call__(self, attempt: TaskAttempt, batches: Batches) -> tuple[int, int]:
        """Write the task's rows; the sink does not move rows that a failed attempt left behind."""
        gathered = chunks(batches, self.layout, end=f"\t{attempt.number}\n")
        first = next(gathered, None)
        if first is None:
            return 0, 0
        table = identifier(self.writer.access.schema, self.stage)
        with connection(self.writer) as link:
            dead_letters = self.writer.dead_letters(link, self.entry, staged=True)
            copier = Copier(
                link=link,
                statement=self.layout.copy(table, ATTEMPT).as_bytes(link),
                layout=self.layout,
                dead_letters=dead_letters,
                savepoints=None,
            )
            try:
                for number, chunk in enumerate(chain([first], gathered)):
                    if number % SAVEPOINTS == 0:  # a failed attempt's rows do not count
                        if number:
                            self._end(link, copier)
                        self._begin(link, attempt.number)
                    copier.take(chunk)
                self._end(link, copier)
            except psycopg.Error as error:
                raise translated(error, self.writer.label, "staging rows") from None
            return copier.rows, dead_letters.count

    def _begin(self, link: Connection, attempt: int) -> None:
        begin(link, self.writer.access)
        if self.writer.target.dead_letters is not None:
            link.execute("SELECT set_config(%s, %s, true)", (_SETTING, str(attempt)))

    def _end(self, link: Connection, copier: Copier) -> None:
        copier.finish_chunk()
        commit(link, self.writer.label, link.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Writes a batch through a staging table; executors open at most `at_most` connections."""

    writer: TransactionWriter
    logged: bool
    at_most: int | None

    def write(self, link: Connection, rows: Rows, entry: Entry) -> Applied:
        """Have the executors stage `rows`; then move the rows and the heads in one transaction."""
        dead = self.writer.target.dead_letters is not None
        stage = f"{self._prefix()}{entry.batch_id}_{secrets.token_hex(4)}"
        letters_stage = f"{stage}_dead" if dead else None
        self._prepare(link, rows.layout, entry, stage, letters_stage)
        try:
            # The user's function runs on the driver: it need not be sent.
            target = replace(self.writer.target, apply=None, dead_letters=letters_stage)
            task = StageTask(
                writer=replace(self.writer, target=target),
                layout=rows.layout,
                stage=stage,
                entry=replace(entry, moves={}),
            )
            # Fewer tasks from the start: one task may stage the rows of several.
            frame = rows.frame
            fewer = frame if self.at_most is None else frame.coalesce(self.at_most)
            done = outcomes(fewer, task)
            fault_point("sink.staged")
            with self.writer.transaction(link, entry) as counts:
                self._move(link, rows.layout, stage, letters_stage, done, entry, counts)
        finally:
            self._drop(link, [name for name in (stage, letters_stage) if name is not None])
        return counts.applied()

    def _prefix(self) -> str:
        name = f"{self.writer.ledger.key}\x00{self.writer.query}"
        return f"eo_stage_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"

    def _prepare(
        self,
        link: Connection,
        layout: ColumnLayout,
        entry: Entry,
        stage: str,
        letters_stage: str | None,
    ) -> None:
        """Check that this driver still owns the heads; create staging tables, and drop old ones."""
        schema, target = self.writer.access.schema, self.writer.target
        try:
            self.writer.begin(link, entry)
            leftovers = link.execute(_LEFT_OVER, (self._prefix(), schema)).fetchall()
            shape = layout.shape(None if target.apply is not None else self.writer.table)
            kind = sql.SQL("" if self.logged else "UNLOGGED ")
            table = identifier(schema, stage)
            text = "CREATE {}TABLE {} WITH (autovacuum_enabled = false) AS {} WITH NO DATA"
            link.execute(sql.SQL(text).format(kind, table, shape))
            link.execute(_add_attempt(table, sql.NULL))
            if self.logged:  # a publication FOR ALL TABLES forbids DELETE without an identity
                link.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table))
            if letters_stage is not None:
                letters = statements_on(link, schema, letters_stage, staged=True)
                run(link, Statement(letters.create()))
                # The statements that insert letters do not name the attempt.
                attempt = sql.SQL("current_setting({}, true)::bigint").format(sql.Literal(_SETTING))
                link.execute(_add_attempt(identifier(schema, letters_stage), attempt))
            commit(link, self.writer.label, link.limit)
        except errors.InsufficientPrivilege as error:
            roll_back(link)
            failure = translated(error, self.writer.label, "creating the staging table")
            raise failure.as_kind(NoStagingError) from error
        except psycopg.Error as error:
            roll_back(link, error)
            raise translated(error, self.writer.label, "creating the staging table") from error
        except BaseException:  # any error: the transaction must not stay open
            roll_back(link)
            raise
        for schema, name in leftovers:
            self._drop(link, [name], schema)

    def _move(
        self,
        link: Connection,
        layout: ColumnLayout,
        stage: str,
        letters_stage: str | None,
        done: Sequence[TaskResult],
        entry: Entry,
        counts: WriteCounts,
    ) -> None:
        schema, target = self.writer.access.schema, self.writer.target
        staged = identifier(schema, stage)
        attempts = sql.Literal([result.attempt for result in done])
        counted = sql.SQL("{} = ANY ({})").format(sql.Identifier(ATTEMPT), attempts)
        wanted = sum(result.rows for result in done)
        dead = sum(result.dead_letters for result in done)
        counts.total = wanted + dead
        if letters_stage is not None and dead:
            self._move_dead(link, letters_stage, counted, counts.dead_letters.refusals)
        if counts.dead_letters.count != dead:
            raise self._emptied()
        if not self.writer.direct and _count(link, staged, counted) != wanted:
            raise self._emptied()
        if target.apply is not None:
            view = sql.SQL("CREATE TEMP VIEW {} AS SELECT {} FROM {} WHERE {}").format(
                sql.Identifier(STAGED), listed(layout.names), staged, counted
            )
            link.execute(view)
            apply_users(link, target, entry, self.writer.label)
            link.execute(sql.SQL("DROP VIEW pg_temp.{}").format(sql.Identifier(STAGED)))
            counts.rows = wanted
            return
        counts.rows = self.writer.merge(link, layout, staged, counted).run(counts.dead_letters)
        # If rows are appended, each staged row is now moved or refused.
        moved = counts.rows + counts.dead_letters.count - dead
        if self.writer.direct and moved != wanted:
            if _count(link, staged, counted) != wanted:
                raise self._emptied()
            raise left_out(self.writer.label, moved, wanted)

    def _move_dead(
        self, link: Connection, name: str, condition: sql.Composable, refusals: Refusals
    ) -> None:
        schema, target = self.writer.access.schema, self.writer.target
        staged, letter = identifier(schema, name), listed(LETTER)
        text = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {}").format(
            identifier(schema, target.dead_letters or ""), letter, letter, staged, condition
        )
        moved = link.execute(text).rowcount
        redacted, first = sql.Identifier(REDACTED), listed((*ORIGIN, REDACTED))
        asked = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT 1").format(
            first, staged, condition, listed(("offset", "partition", "topic"))
        )
        for *origin, reason in link.execute(asked):
            refusals.first = DeadLetter.from_origin(origin, reason)
        frequent = sql.SQL(
            "SELECT {0}, count(*) FROM {1} WHERE {2} GROUP BY 1 ORDER BY 2 DESC LIMIT 100"
        ).format(redacted, staged, condition)
        refusals.reasons.update(dict(link.execute(frequent).fetchall()))
        refusals.count = moved

    def _emptied(self) -> RetriableSinkError:
        return RetriableSinkError(
            f"{self.writer.label}: the staging table does not hold the rows that the tasks wrote",
            cause="the server has since crashed, which empties an unlogged table",
            fix="Nothing to do: the batch is staged again; logged_staging=True keeps the "
            "rows across a crash",
        )

    def _drop(self, link: Connection, names: Sequence[str], schema: str | None = None) -> None:
        """Drop staging tables; if a stopped task still locks a table, a later batch drops it."""
        # In milliseconds. The lock watch looks for the holder of a lock only after a longer wait.
        wait = max(1, int(min(1.0, link.stall_timeout) * 500))
        for name in names:
            try:
                with link.transaction():
                    link.execute(f"SET LOCAL lock_timeout = {wait}".encode())
                    table = identifier(schema or self.writer.access.schema, name)
                    link.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
            except errors.LockNotAvailable:
                continue
            except (psycopg.Error, SinkError):
                return  # the connection is lost, or the table is not ours: nothing depends on it


def _add_attempt(table: sql.Identifier, default: sql.Composable) -> sql.Composed:
    text = "ALTER TABLE {} ADD COLUMN {} bigint DEFAULT {}"
    return sql.SQL(text).format(table, sql.Identifier(ATTEMPT), default)


def _count(link: Connection, staged: sql.Identifier, condition: sql.Composable) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(staged, condition)
    row = link.execute(query).fetchone()
    return 0 if row is None else int(row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """Writes the rows and the head of one task's partition; Spark sends it to executors.

    `entries` are keyed by the number of the task; a task without an entry has nothing to write.
    """

    writer: TransactionWriter
    layout: ColumnLayout
    entries: Mapping[int, Entry]

    def __call__(self, attempt: TaskAttempt, batches: Batches) -> tuple[int, int]:
        """Write the partition, unless its head shows that an earlier attempt of this task wrote it.

        If the COMMIT of an earlier attempt is still in flight, that attempt has locked the head,
        and this attempt waits for the lock.
        """
        entry = self.entries.get(attempt.task)
        if entry is None:
            return 0, 0
        if not attempt.is_first:  # before anything is computed
            with connection(self.writer) as link:
                if self._done(link, entry):
                    return 0, 0
        rows = await_first(batches)
        with connection(self.writer) as link:
            try:
                done = self._writer(attempt).write_arrow(link, self.layout, rows, entry)
            except ForeignWriterError:
                if self._done(link, entry):
                    return 0, 0
                raise
            return done.rows or 0, done.dead_letters

    def _writer(self, attempt: TaskAttempt) -> TransactionWriter:
        """Return the writer for an attempt, which can read its rows only once.

        If Spark would repeat the task after the first attempt, only the first COPYs of that attempt
        have a savepoint. In any other attempt, each COPY has a savepoint, so a row that the server
        refuses does not end the batch.
        """
        again = attempt.is_first and not attempt.is_last
        # One task prunes for all: the others would wait for its deletes until its COMMIT.
        ledger = replace(self.writer.ledger, prunes=attempt.task == min(self.entries))
        savepoints = self.writer.savepoints if again else None
        return replace(self.writer, ledger=ledger, savepoints=savepoints)

    def _done(self, link: Connection, entry: Entry) -> bool:
        (tp,) = entry.moves
        try:
            heads = self.writer.ledger.read(link, entry.query, tp).heads
        except psycopg.Error as error:
            raise translated(error, self.writer.label, "reading its ledger") from None
        return heads.get(tp) == entry.head(tp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """Writes a batch with a transaction for each partition; `ranges` are the offsets of the tasks.

    `at_most` limits the number of tasks, and thus of connections, at a time.
    """

    writer: TransactionWriter
    ranges: Ranges
    at_most: int | None

    def write(self, link: Connection, rows: Rows, entry: Entry) -> Applied:
        """Have tasks write the partitions of `entry` that they read; move other heads on `link`."""
        read = of_each_task(self.ranges, entry)
        tasks = {number: replace(entry, moves={tp: entry.moves[tp]}) for number, tp in read.items()}
        work = PartitionTask(writer=self.writer, layout=rows.layout, entries=tasks)
        done = outcomes(rows.frame, work, at_most=self.at_most)
        rest = {tp: move for tp, move in entry.moves.items() if tp not in set(read.values())}
        if rest:
            self._move_empty(link, replace(entry, moves=rest))
        return Applied(
            rows=sum(result.rows for result in done),
            dead_letters=sum(result.dead_letters for result in done),
        )

    def _move_empty(self, link: Connection, entry: Entry) -> None:
        heads = self.writer.ledger.read(link, entry.query).heads
        moves = {
            tp: move
            for tp, move in entry.moves.items()
            if heads.get(tp) != entry.head(tp)  # not done by an earlier attempt
        }
        if moves:
            with self.writer.transaction(link, replace(entry, moves=moves)):
                pass  # no row belongs to an empty range


def rows_of(rows: DataFrame, ranges: Ranges, entry: Entry) -> DataFrame:
    """Return only the rows of the partitions in `entry`; each task must read one partition."""
    return rows.where(functions.spark_partition_id().isin(*of_each_task(ranges, entry)))
