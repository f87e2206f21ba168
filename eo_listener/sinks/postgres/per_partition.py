"""Writes each Kafka partition in its own transaction, in the task that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql import functions

from eo_listener.errors import ForeignWriterError
from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.postgres.errors import translated
from eo_listener.sinks.postgres.executor_tasks import (
    Batches,
    TaskAttempt,
    await_first,
    connection,
    outcomes,
)
from eo_listener.sinks.postgres.write_methods import Ranges, of_each_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.sinks.postgres.columns import ColumnLayout
    from eo_listener.sinks.postgres.connection import Connection
    from eo_listener.sinks.postgres.transaction import Rows, TransactionWriter


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
            heads = self.writer.ledger.read(link, entry.query, tp)
        except psycopg.Error as error:
            raise translated(error, self.writer.label, "reading its ledger") from None
        return tp in heads and heads[tp].head == entry.head(tp)


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
        heads = self.writer.ledger.read(link, entry.query)
        moves = {
            tp: move
            for tp, move in entry.moves.items()
            if tp not in heads or heads[tp].head != entry.head(tp)  # not done by an earlier attempt
        }
        if moves:
            with self.writer.transaction(link, replace(entry, moves=moves)):
                pass  # no row belongs to an empty range


def rows_of(rows: DataFrame, ranges: Ranges, entry: Entry) -> DataFrame:
    """Return only the rows of the partitions in `entry`; each task must read one partition."""
    return rows.where(functions.spark_partition_id().isin(*of_each_task(ranges, entry)))
