"""Writes the rows of a batch without transactions: one task sends all rows of a partition.

Possible faults of a task, and the measures against them:

- The task dies, and the rows that it has sent stay. They are the first rows of each of its
  partitions, because a task has only one request in flight, and sends nothing after a record that
  failed. The sink writes the batch again, and leaves out existing rows, which it finds by their
  identity.
- Spark starts another attempt of the task, or of its stage. That attempt sends nothing, and reports
  its attempt number. Then nobody knows how far the first attempt came, so the sink ends its own
  attempt to write the batch. The sink refuses speculation.
- The task outlives the sink's attempt: Spark kills tasks, but does not wait for their end. So a
  failed attempt ends only when Spark reports that no task is running.
- The task goes on although Spark has lost its executor, or one of its requests arrives late: nobody
  can prevent this. The next batch detects and reports rows that were written twice.

Two rows with one identity may go to different partitions. So a separate shuffle detects such rows
before Spark brings the rows to their tasks. The sink leaves out an existing row, whichever
partition the row is in.
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa

from eo_listener.errors import KafkaError, PoisonRowError, SettingsError, SinkError
from eo_listener.kafka.java_transactions import JavaTransactions, TaskReport
from eo_listener.model.fault_points import fault_point
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import schema_of, stream
from eo_listener.sinks.dead_letters import REASON
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.driver_writer import explained
from eo_listener.sinks.kafka.executor_writer import (
    refusal_counts,
    refusal_text,
    refuse_errors,
    task_reports,
)
from eo_listener.sinks.kafka.row_identity import (
    HEADER,
    around_values,
    identity_columns,
    identity_values,
)
from eo_listener.sinks.kafka.transaction import refuse_repeated
from eo_listener.sinks.kafka.types import PARTITION, TOPIC, RecordColumns
from eo_listener.sinks.spark_names import quoted

Places = dict[str, tuple[TopicPartition, int]]
"""The partition and offset of each row, by the row's identity."""

TWICE: Final = -7
PRESENT: Final = -8
"""The shim's numbers (RowColumns) of two reasons not to send a row.

An earlier row has the same identity, or the row exists already.
"""

_BLOCK: Final = "max.block.ms"
_BLOCK_MS: Final = "60000"  # Kafka's default
_DELIVERY: Final = "delivery.timeout.ms"
_DELIVERY_MS: Final = "120000"  # Kafka's default
_LONGEST: Final = 3600.0  # seconds: a time-out of 2**31 ms is common, and means no more than "long"
_PAUSE: Final = 0.05  # seconds between two checks if tasks still run

logger = logging.getLogger("eo_listener")


def unfenced_properties(java: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for producers of tasks without transactions, under their Java names.

    With one request at a time, a record can never overtake the record that was sent before it, not
    even if the broker does not know the producer yet. To make up for the single request, requests
    are larger. Before the first record, a producer waits for brokers at most as long as for the
    delivery of a record.
    """
    properties = {name: text for name, text in java.items() if name != "transaction.timeout.ms"}
    longest = properties.get(_DELIVERY, _DELIVERY_MS).strip()
    block = properties.get(_BLOCK, "").strip()
    if block.isdigit() and longest.isdigit() and int(block) > int(longest):
        properties[_BLOCK] = longest
    return {"batch.size": "262144", **properties, "max.in.flight.requests.per.connection": "1"}


def end_timeout(java: Mapping[str, str], timeout: float) -> float:
    """Return the longest time, in seconds, that tasks may still send after a failed attempt.

    A task may first wait for space in its producer's buffer (max.block.ms), and then for Kafka's
    answer (delivery.timeout.ms). The result is limited to one hour, but is never less than
    `timeout`.
    """
    properties = unfenced_properties(java)
    times = properties.get(_BLOCK, _BLOCK_MS), properties.get(_DELIVERY, _DELIVERY_MS)
    longest = sum(int(text) for text in times if text.strip().isdigit()) / 1000
    return max(timeout, min(longest, _LONGEST))


class RowsTarget(NamedTuple):
    """The target topics of rows, the id of the writer, and the number of the batch."""

    targets: Targets
    writer: str
    batch: int


class TaskRows:
    """Writes the rows of a batch, in one attempt. Raises SettingsError for unsuitable columns.

    Columns of the identity do not choose a row's partition. `tasks` is the number of writing tasks.
    After a failed attempt, the object waits at most `timeout` seconds for the tasks to end (see
    `end_timeout`).
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
        schema = schema_of(frame)
        self._frame, self._plan, self._label = frame, plan, label
        self.identity = identity_columns(schema, identity)
        record_schema = _without_origin(schema, self.identity, one_topic=one_topic)
        self._columns = RecordColumns.from_schema(record_schema, one_topic=one_topic)
        self._mark = REASON if REASON in schema.names else None
        self._transactions = transactions
        self._timeout = timeout
        self._tasks = tasks

    def absent(self, existing: Places) -> Places:
        """Return the identities in `existing` that no row has. Has Spark compute the rows."""
        remaining = dict(existing)
        id_frame = identities(self._frame, self.identity)
        with closing(explained(stream(id_frame, self._plan, task_rows=sys.maxsize))) as batches:
            for batch in batches:
                for values in identity_values(batch, self.identity):
                    remaining.pop(values, None)
                if not remaining:
                    break
        return remaining

    def write(self, target: RowsTarget, existing: Places) -> int:
        """Send each row whose identity is not in `existing`, and return how many were sent.

        Removes from `existing` the rows that belong to the batch.

        On return, each row is acknowledged. Raises RetriableSinkError unless all of Spark's tasks
        ended at their first attempt.
        """
        reports = self._written(target, existing)
        skipped = refusal_counts(reports)[PRESENT]
        remaining = {} if skipped == len(existing) else self.absent(existing)
        if skipped + len(remaining) != len(existing):
            raise SinkError(
                f"{self._label}: of {len(existing):,} existing rows of this batch {skipped:,} were "
                f"skipped, but {len(remaining):,} do not belong to it",
                cause="the transform returns different rows each time",
                fix="Let it give a row the same values in the columns of id= each time",
            )
        for values in existing.keys() - remaining.keys():
            del existing[values]
        return sum(sum(report.records.values()) for report in reports)

    def _written(self, target: RowsTarget, existing: Places) -> Sequence[TaskReport]:
        batch = uuid.uuid4().hex
        topics = [(name, len(topic.partitions)) for name, topic in target.targets.topics.items()]
        self._transactions.open_batch(batch, topics=topics, tasks=self._tasks, transaction=None)
        try:
            self._transactions.leave_out(batch, existing)
            fault_point("sink.copying")
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
            RecordLayout,
            write_identified_rows,
        )

        layout = RecordLayout(topics, self._tasks, self._columns.names, self._mark)
        header = IdentityHeader(HEADER, *around_values(target.writer, target.batch))
        write_identified_rows(self._frame, batch, layout, self.identity, header)

    def _refuse_rows(self, reports: Sequence[TaskReport]) -> None:
        counts = refusal_counts(reports)
        counts.pop(PRESENT, None)
        for reason, count in sorted(counts.items(), reverse=True):
            if reason == TWICE:
                raise _twice(self._label, self.identity, count)
            raise PoisonRowError(
                refusal_text(self._label, reason, count),
                cause="such a row fails its batch; rows already written stay, and are not "
                "written again",
                fix="Filter such rows out in the transform",
            )

    def _await_end(self, batch: str) -> None:
        """Wait until none of the tasks can still send; log a warning if that takes too long."""
        deadline = time.monotonic() + self._timeout
        while self._transactions.is_running(batch):
            if time.monotonic() >= deadline:
                logger.warning(
                    "%s: tasks of a failed attempt to write a batch are still running after %g s. "
                    "Rows that they send from now on may be duplicates; the sink reports such rows "
                    "with the next batch",
                    self._label,
                    self._timeout,
                )
                return
            time.sleep(_PAUSE)


def identities(frame: Any, names: Sequence[str]) -> Any:
    """Return the DataFrame `frame` with only the columns `names`, which are the identity."""
    return frame.select(*map(quoted, names))


def _twice(label: str, identity: tuple[str, ...], count: int) -> PoisonRowError:
    return PoisonRowError(
        f"{label}: the batch has two rows with one identity ({count} such rows)",
        cause=f"the columns {', '.join(identity)} are equal in both; after a crash nothing would "
        "show which of them was written. Other rows of the batch may already be written",
        fix="(1) Drop one of them in the transform: existing rows are not written again. (2) Or "
        'name other columns that are unique together, id=("column", ...), and start once with '
        'on_repeated="accept": the batch is then written whole, after the existing rows',
    )


def _without_origin(schema: pa.Schema, identity: tuple[str, ...], *, one_topic: bool) -> pa.Schema:
    """Return the schema without the columns topic and partition if they are in the identity."""
    in_identity = {TOPIC, PARTITION} & set(identity)
    if TOPIC in in_identity and not one_topic:
        raise SettingsError(
            "the sink has several topics, and the column 'topic' is part of the rows' identity",
            cause="it would have to be both the topic that a row comes from and the topic it "
            "goes to",
            fix="Rename the source's columns in the transform, and name them: "
            'id=("source_topic", "source_partition", "source_offset")',
        )
    return pa.schema([field for field in schema if field.name not in in_identity])
