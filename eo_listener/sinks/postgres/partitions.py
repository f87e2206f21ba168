"""One transaction for each Kafka partition, in the task that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eo_listener.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    SettingsError,
    TryAgainError,
)
from eo_listener.ledger import Applied, Entry
from eo_listener.offsets import Span
from eo_listener.sinks.postgres.executors import Batches, outcomes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eo_listener.offsets import TopicPartition
    from eo_listener.sinks.postgres.connection import Link
    from eo_listener.sinks.postgres.layout import Layout
    from eo_listener.sinks.postgres.writing import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """What one task does: its partition's rows and head. Is sent out.

    `entries` are by the number of the task; a task without one has nothing to write.
    """

    writer: Writer
    layout: Layout
    entries: Mapping[int, Entry]

    def __call__(self, task: int, attempt: int, batches: Batches) -> tuple[int, int]:  # noqa: ARG002  # the head tells attempts apart
        """Write, unless an earlier attempt of this task has: then its head is where ours would
        be.
        """
        entry = self.entries.get(task)
        if entry is None:
            return 0, 0
        with self.writer.open() as link:
            try:
                done = self.writer.write(link, self.layout, (one for one in batches), entry)
            except ForeignWriterError:
                if self._done(link, entry):
                    return 0, 0
                raise
            except OutcomeUnknownError as error:
                # Its rows are used up; the batch is repeated, and finds what was written.
                raise TryAgainError(error.problem, cause=error.cause) from error
            return done.rows, done.dead

    def _done(self, link: Link, entry: Entry) -> bool:
        (tp,) = entry.moves
        there = self.writer.ledger.read(link, entry.query, tp)
        return tp in there and there[tp].head == entry.head(tp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The road of a batch with a transaction for each partition; `ranges` are the tasks'."""

    writer: Writer
    layout: Layout
    ranges: Sequence[tuple[TopicPartition, Span]]

    def write(self, link: Link, rows: DataFrame, entry: Entry) -> Applied:
        """Write each partition of `entry` that has a task there, and move the other heads here."""
        tasks = {
            number: replace(entry, moves={tp: entry.moves[tp]})
            for number, (tp, _) in enumerate(self.ranges)
            if tp in entry.moves
        }
        self._check(entry)
        read = {tp for one in tasks.values() for tp in one.moves}
        writer = replace(self.writer, savepoints=None)  # a task's rows come once
        done = outcomes(rows, PartitionTask(writer=writer, layout=self.layout, entries=tasks))
        rest = {tp: move for tp, move in entry.moves.items() if tp not in read}
        if rest:
            self._move_empty(link, replace(entry, moves=rest))
        return Applied(rows=sum(one.rows for one in done), dead=sum(one.dead for one in done))

    def _check(self, entry: Entry) -> None:
        """Refuse a plan in which a partition's rows are not those of one task."""
        there = dict(self.ranges)
        for tp, move in entry.moves.items():
            span = there.get(tp, Span(move.span.start, move.span.start))
            if span != move.span:
                raise SettingsError(
                    f"the batch has offsets {move.span} of {tp}, but its task reads {span}",
                    cause="a task must be one partition's whole range to have its own transaction",
                    fix="Give the sink per_partition=False",
                )

    def _move_empty(self, link: Link, entry: Entry) -> None:
        there = self.writer.ledger.read(link, entry.query)
        moves = {
            tp: move
            for tp, move in entry.moves.items()
            if tp not in there or there[tp].head != entry.head(tp)  # not done by an earlier try
        }
        if moves:
            with self.writer.transaction(link, replace(entry, moves=moves)):
                pass  # no row belongs to an empty range
