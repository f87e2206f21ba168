"""The rows of a batch without transactions by the executors: all rows of a partition in one task.

What can happen to a task, and what is done about it:

- It dies, and what it has sent stays: the beginning of the rows of each of its partitions, since it
  has one request on its way at a time, and sends nothing behind a record that failed. The batch is
  written again, and what is there is left out by its identity.
- Another attempt of it, or of its stage, is made: that one sends nothing, and reports its number.
  Then nobody knows how far the first one came, so the try ends. Speculation is refused.
- It outlives its try: Spark kills tasks, and does not wait for them. So the end of the try waits
  until Spark says that none runs.
- It runs on where Spark has lost its executor, or a request of it arrives late: nobody can keep
  these out. What they write twice is found, and named, with the next batch.

Rows of one identity may go to different partitions, so they are found before the rows are brought
to their tasks, by a shuffle of its own. What is there is left out wherever it lies.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from eo_listener.kafka.java_transactions import JavaTransactions, WrittenRows
from eo_listener.model.errors import KafkaError, PoisonRowError, SettingsError, SinkError
from eo_listener.model.fault_points import reached
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.dead_letters import REASON
from eo_listener.sinks.kafka.batch_transaction import refuse_repeated
from eo_listener.sinks.kafka.executor_writer import (
    INSTEAD,
    refuse_errors,
    refused,
    refused_rows,
    task_reports,
)
from eo_listener.sinks.kafka.row_identity import HEADER, around_values
from eo_listener.sinks.kafka.unfenced_batch import Places
from eo_listener.sinks.kafka.unfenced_rows import KnownRows, RowsTarget, stays, twice

TWICE: Final = -7
PRESENT: Final = -8
"""As the shim's RowColumns: an earlier row has the identity of this one, or it is there."""

_BLOCK: Final = "max.block.ms"
_BLOCK_MS: Final = "60000"  # Kafka's default
_DELIVERY: Final = "delivery.timeout.ms"
_DELIVERY_MS: Final = "120000"  # Kafka's default
_LONGEST: Final = 3600.0  # seconds: a time-out of 2**31 ms is common, and means no more than "long"
_PAUSE: Final = 0.05  # seconds between two questions whether tasks still run

logger = logging.getLogger("eo_listener")


def unfenced_properties(java: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of tasks' producers without transactions, in Java's names.

    With one request at a time a record can never be there before the one that was sent before it,
    not even where the broker does not know the producer yet. So requests are larger. And brokers
    are waited for no longer before the first record than for a record.
    """
    given = {name: text for name, text in java.items() if name != "transaction.timeout.ms"}
    longest = given.get(_DELIVERY, _DELIVERY_MS).strip()
    block = given.get(_BLOCK, "").strip()
    if block.isdigit() and longest.isdigit() and int(block) > int(longest):
        given[_BLOCK] = longest
    return {"batch.size": "262144", **given, "max.in.flight.requests.per.connection": "1"}


def end_timeout(java: Mapping[str, str], timeout: float) -> float:
    """For how many seconds a task may still send that is not to send any more.

    At least `timeout`, at most an hour. It may wait for room for a record, and then for the answer
    to what it has sent.
    """
    given = unfenced_properties(java)
    parts = given.get(_BLOCK, _BLOCK_MS).strip(), given.get(_DELIVERY, _DELIVERY_MS).strip()
    longest = sum(int(one) for one in parts if one.isdigit()) / 1000
    return max(timeout, min(longest, _LONGEST))


class TaskRows:
    """The `UnfencedRows` for `write_method="executors"`.

    Raises SettingsError for columns. `tasks` is how many write; `timeout` is how many seconds those
    of a try that has failed are waited for, as `end_timeout` says.
    """

    def __init__(
        self,
        frame: Any,
        plan: PlannedBatch,
        transactions: JavaTransactions,
        *,
        label: str,
        one_topic: bool,
        identity: Sequence[str] | None,
        tasks: int,
        timeout: float,
    ) -> None:
        self._label = label
        self._known = KnownRows.of(frame, plan, one_topic=one_topic, identity=identity)
        _refuse_times(self._known)
        self._transactions = transactions
        self._timeout = timeout
        self._tasks = tasks

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which rows are known."""
        return self._known.identity.names

    def prepare(self) -> None:
        """Do nothing: the rows are computed when they are sent."""

    def absent(self, there: Places) -> Places:
        """Those of them that no row has. Spark computes their identities once more for it."""
        return self._known.absent(there)

    def write(self, target: RowsTarget, there: Places) -> int:
        """Have Spark run the tasks. Raises RetriableSinkError unless all ended at once."""
        reports = self._written(target, there)
        met = refused_rows(reports)[PRESENT]
        left = {} if met == len(there) else self.absent(there)
        if met + len(left) != len(there):
            raise SinkError(
                f"{self._label}: of {len(there):,} rows that are there of this batch {met:,} were "
                f"left out, and {len(left):,} are not rows of it",
                cause="the transform gives other rows each time they are computed",
                fix="Have it give each row the same values in the columns of id= each time",
            )
        for values in there.keys() - left.keys():
            del there[values]
        return sum(sum(one.records.values()) for one in reports)

    def close(self) -> None:
        """Do nothing: the tasks have ended with the try."""

    def _written(self, target: RowsTarget, there: Places) -> Sequence[WrittenRows]:
        batch = uuid.uuid4().hex
        topics = [(name, one.partitions) for name, one in target.targets.topics.items()]
        self._transactions.open_unfenced_batch(batch, topics=topics, tasks=self._tasks)
        try:
            self._transactions.leave_out(batch, there)
            reached("sink.copying")
            self._run(batch, topics, target)
            planned, reports = self._transactions.reports(batch)
            refuse_errors(reports)
            self._refuse_rows(reports)
            refuse_repeated(task_reports(reports, planned=planned, tasks=self._tasks), self._tasks)
        except BaseException:
            with suppress(KafkaError):  # the JVM has gone, and the tasks with it
                self._await_end(batch)
            raise
        finally:
            with suppress(KafkaError):
                self._transactions.close_batch(batch)
        return reports

    def _run(self, batch: str, topics: Sequence[tuple[str, int]], target: RowsTarget) -> None:
        from eo_listener.spark.jvm.row_writer import (  # noqa: PLC0415  # needs Spark
            IdentityHeader,
            write_identified_rows,
        )

        write_identified_rows(
            self._known.frame,
            batch,
            topics=topics,
            tasks=self._tasks,
            columns=self._known.columns.names,
            mark=REASON if self._known.marked else None,
            identity=self.identity,
            header=IdentityHeader(HEADER, *around_values(target.writer, target.batch)),
        )

    def _refuse_rows(self, reports: Sequence[WrittenRows]) -> None:
        """Raise PoisonRowError for rows that were not sent, and are not there."""
        found = refused_rows(reports)
        found.pop(PRESENT, None)
        for reason, count in sorted(found.items(), reverse=True):
            if reason == TWICE:
                raise twice(self._label, self.identity, f" ({count} such rows)")
            raise stays(PoisonRowError(refused(self._label, reason, count)))

    def _await_end(self, batch: str) -> None:
        """Wait until no task of the try can send any more; say so where that takes too long."""
        deadline = time.monotonic() + self._timeout
        while self._transactions.is_running(batch):
            if time.monotonic() >= deadline:
                logger.warning(
                    "%s: tasks of a try that has failed still run after %g s; rows that they send "
                    "from here on may be there twice, and are named with the next batch",
                    self._label,
                    self._timeout,
                )
                return
            time.sleep(_PAUSE)


def _refuse_times(known: KnownRows) -> None:
    for name in known.identity.names:
        kind = known.schema.field(name).type
        if pa.types.is_timestamp(kind):
            raise SettingsError(
                f'the column {name!r} is of type {kind}, which with write_method="executors" '
                "cannot be part of an identity",
                cause="Java and Python write times in different ways",
                fix=f"Cast it to a string or a whole number in the transform; or: {INSTEAD}",
            )
