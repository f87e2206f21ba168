"""Has the executors write a batch: each task's producer joins the driver's transaction.

One task sends all rows for a partition, in the order of the rows. Each producer begins with
sequence number 0: if two producers sent to one partition, the broker would take the records of the
second for duplicates, acknowledge them, and not write them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from eo_listener.client_config.kafka_options import Partitioner
from eo_listener.errors import JvmError, KafkaError, PoisonRowError, SettingsError, SinkError
from eo_listener.kafka.java_transactions import (
    DescribedTransaction,
    JavaTransactions,
    JoinedTransaction,
    TaskReport,
    failure,
)
from eo_listener.model.fault_points import fault_point
from eo_listener.sinks.arrow_rows import schema_of
from eo_listener.sinks.dead_letters import REASON
from eo_listener.sinks.kafka.transaction import BegunTransaction
from eo_listener.sinks.kafka.types import RecordColumns
from eo_listener.spark.computed_rows import is_connect

_SPECULATION: Final = "spark.speculation"
# By the numbers that the shim's TargetPartitions and RowColumns give to rows that are not sent.
_REASONS: Final = {
    -1: "its topic is null",
    -2: "its topic is not one of the sink's topics",
    -3: "its partition, or the partition that kafka.partitioner.class chose, does not exist "
    "in its topic",
    -4: "one of its headers is null or has no key",
    -5: f"the transform marked it with {REASON}",
    -6: "it is larger than kafka.max.request.size or kafka.buffer.memory (1,048,576 and 33,554,432 "
    "bytes by default)",
    -9: "its identity has a string that is not UTF-8, which two rows may share: keep it binary",
}


class ExecutorWriter:
    """The `RowWriter` for `write_method="executors"`. Raises SettingsError and KafkaError."""

    joined = True

    def __init__(
        self,
        frame: Any,
        transactions: JavaTransactions,
        *,
        one_topic: bool,
        timeout: float,
        partitioner: Partitioner | None,
    ) -> None:
        schema = schema_of(frame)
        self._frame = frame
        self._columns = RecordColumns.from_schema(schema, one_topic=one_topic)
        self._mark = REASON if REASON in schema.names else None
        self._transactions = transactions
        self._timeout = timeout
        self._partitioner = partitioner
        self._tasks = task_count(frame)

    def prepare(self) -> int:
        """Return how many tasks will write: as many as Spark runs at the same time."""
        return self._tasks

    def write(self, begun: BegunTransaction) -> Sequence[TaskReport]:
        """Have Spark run the tasks, and return their reports."""
        from eo_listener.spark.jvm.row_writer import RecordLayout, write_rows  # noqa: PLC0415  # needs Spark

        batch = uuid.uuid4().hex
        topics = [(name, len(target.partitions)) for name, target in begun.targets.topics.items()]
        producer = begun.epoch
        joined = JoinedTransaction(begun.transactional_id, producer.producer_id, producer.epoch)
        self._transactions.open_batch(batch, topics=topics, tasks=self._tasks, transaction=joined)
        try:
            fault_point("sink.copying")
            layout = RecordLayout(topics, self._tasks, self._columns.names, self._mark)
            with begun.producer.polled():
                write_rows(self._frame, batch, layout, self._partitioner)
            planned, reports = self._transactions.reports(batch)
        finally:
            with suppress(KafkaError):  # a JVM that does not answer forgets the batch when it ends
                self._transactions.close_batch(batch)
        refuse_errors(reports)
        for reason, count in sorted(refusal_counts(reports).items(), reverse=True):
            raise PoisonRowError(
                refusal_text(begun.dead_letters.label, reason, count),
                cause="such a row fails its batch; nothing was written",
                fix='Filter such rows out, or name a topic for them, dead_letters="...", with '
                'write_method="driver"',
            )
        return task_reports(reports, planned=planned, tasks=self._tasks)

    def describe(self, begun: BegunTransaction, /) -> DescribedTransaction | None:
        """Return the coordinator's description of the transaction."""
        return self._transactions.describe(begun.transactional_id, self._timeout)

    def close(self) -> None:
        """Do nothing: the tasks have ended with Spark's job."""


def task_count(frame: Any) -> int:
    """Return how many tasks of this session run at the same time."""
    return max(1, int(frame.sparkSession.sparkContext.defaultParallelism))


class Request(NamedTuple):
    """The argument of the sink that asks executors to send rows, and the fix if they cannot."""

    argument: str
    instead: str


BY_EXECUTORS: Final = Request('write_method="executors"', 'Use write_method="driver"')
UNFENCED: Final = Request(
    "transactions=False",
    "Remove transactions=False: the driver then sends the rows, in a transaction",
)


def joining(frame: Any, properties: Mapping[str, str], request: Request) -> JavaTransactions:
    """Return the client through which the tasks of the session of `frame` join a transaction.

    `properties` are the properties of a producer, under their Java names. Raises SettingsError if
    tasks of this session cannot write. Does not check whether kafka-clients can join:
    `missing_members` checks that.
    """
    if is_connect(frame):
        raise SettingsError(
            f"{request.argument} cannot be used with Spark Connect",
            cause="executors send the rows, but a Spark Connect client has no JVM to prepare "
            "their tasks",
            fix=request.instead,
        )
    configured = frame.sparkSession.sparkContext.getConf().get(_SPECULATION, "false")
    if str(configured).lower() == "true":
        raise SettingsError(
            f"{request.argument} cannot be used with {_SPECULATION}=true",
            cause="only the first copy of a task may send records: if another copy ends first, "
            "the whole batch is written again",
            fix=f"Set {_SPECULATION}=false; or: {request.instead}",
        )
    from eo_listener.spark.jvm.calls import JvmShimClient  # noqa: PLC0415  # needs Spark

    return JavaTransactions(JvmShimClient(), properties)


def missing_members(transactions: JavaTransactions, request: Request) -> str | None:
    """Return what kafka-clients lacks for joining a transaction, or None if it has everything.

    Raises SettingsError if the JVM has no shim, because a retry would not help.
    """
    try:
        return transactions.missing()
    except KafkaError as error:
        jvm_error = error.__cause__
        if not isinstance(jvm_error, JvmError):
            raise
        raise SettingsError(
            f"{request.argument} cannot be used: {jvm_error.problem}",
            cause=jvm_error.cause,
            fix=f"{jvm_error.fix}; or: {request.instead}",
        ) from error


def task_reports(
    reports: Sequence[TaskReport], *, planned: int, tasks: int
) -> Sequence[TaskReport]:
    """Return one report for each of `tasks`.

    Raises SinkError if Spark has planned a different number of tasks.

    If there are no rows, Spark may leave out the shuffle and plan a single task; the other reports
    are then empty.
    """
    if planned == tasks:
        return reports
    if planned != 1 or len(reports) != 1 or reports[0].records:
        raise SinkError(
            f"Spark planned {planned} tasks for the rows of a batch, not {tasks}",
            cause="a Spark extension changes its plans",
            fix="Remove that extension from the session",
        )
    empty = (
        TaskReport(partition_id=number, attempt=0, stage_attempt=0, records={})
        for number in range(1, tasks)
    )
    return [*reports, *empty]


def refuse_errors(reports: Sequence[TaskReport]) -> None:
    """Raise KafkaError for a task that has failed."""
    for report in reports:
        if report.error is not None:
            raise failure(f"writing in task {report.partition_id}", report.error)


def refusal_text(label: str, reason: int, count: int) -> str:
    """Return the error text for rows that tasks did not send.

    `reason` is the shim's number of the reason.
    """
    return f"a row cannot be written to {label}: {_REASONS[reason]} ({count} rows)"


def refusal_counts(reports: Sequence[TaskReport]) -> Counter[int]:
    """Return how many rows the tasks did not send, by the shim's number of the reason."""
    return sum((Counter(report.refused) for report in reports), Counter[int]())
