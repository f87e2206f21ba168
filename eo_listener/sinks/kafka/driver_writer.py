"""Writes the rows of a batch through the driver, which fetches them in Arrow's format.

The driver receives the rows task by task. It never splits a task into smaller tasks, because that
would change the order of the rows. Rows with the same key that were read from one partition are
sent in the order in which they were read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from eo_listener.errors import SinkError
from eo_listener.kafka.java_transactions import DescribedTransaction, TaskReport
from eo_listener.kafka.producers import BatchProducer, TooLargeError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.arrow_rows import TooManyBytesError, schema_of, stream
from eo_listener.sinks.dead_letters import REASON, DeadLetter, RowFilter
from eo_listener.sinks.kafka.transaction import BegunTransaction
from eo_listener.sinks.kafka.types import Record, RecordColumns


class DriverWriter:
    """The `RowWriter` for `write_method="driver"`.

    Raises SettingsError if the columns of `frame` cannot make records.
    """

    joined = False

    def __init__(self, frame: Any, plan: PlannedBatch, *, one_topic: bool) -> None:
        schema = schema_of(frame)
        self._columns = RecordColumns.from_schema(schema, one_topic=one_topic)
        self._filter = RowFilter(columns=tuple(schema.names), marked=REASON in schema.names)
        self._batches = explained(stream(frame, plan, task_rows=sys.maxsize))
        self._rows: Iterator[pa.RecordBatch] = self._batches

    def prepare(self) -> int:
        """Have Spark compute the first rows, so that the transaction is open for less time."""
        first = next(self._batches, None)
        self._rows = chain(() if first is None else (first,), self._batches)
        return 1

    def write(self, begun: BegunTransaction) -> Sequence[TaskReport]:
        """Send each row, or a dead letter instead of it, and wait for Kafka's acknowledgements."""
        sent: Counter[str] = Counter()
        row_count = 0
        for number, batch in enumerate(self._rows):
            row_count += batch.num_rows
            letters = self._send(batch, begun, sent)
            begun.dead_letters.send(begun.producer, letters)
            if number == 0:
                fault_point("sink.copying")
        begun.producer.flush()
        begun.dead_letters.refusals.check(row_count)
        # Kafka's client has chosen the partitions: only the number of rows matters here.
        records = {TopicPartition(topic, -1): count for topic, count in sent.items()}
        return [TaskReport(partition_id=0, attempt=0, stage_attempt=0, records=records)]

    def describe(self, _: BegunTransaction) -> DescribedTransaction | None:
        """Return None: no other producer has joined the transaction."""
        return None

    def close(self) -> None:
        """Stop fetching rows from Spark."""
        self._batches.close()

    def _send(
        self, batch: pa.RecordBatch, begun: BegunTransaction, sent: Counter[str]
    ) -> list[DeadLetter]:
        rows, letters = self._filter.sift(batch)
        only, pairs = begun.targets.only, self._columns.pairs(rows)
        if only is not None and pairs is not None:
            refused = begun.producer.send_each(only, *pairs)
            sent[only] += rows.num_rows - len(refused)
            return letters + [self._filter.letter(rows, *refusal) for refusal in refused.items()]
        for index, record in enumerate(self._columns.records(rows, begun.targets)):
            reason = record if isinstance(record, str) else _sent(begun.producer, record)
            if reason is not None:
                letters.append(self._filter.letter(rows, index, reason))
            elif isinstance(record, Record):
                sent[record.topic] += 1
        return letters


def _sent(producer: BatchProducer, record: Record) -> str | None:
    """Send a record; return the reason if the client refuses it, otherwise None."""
    try:
        producer.send(
            record.topic,
            record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition,
        )
    except TooLargeError as error:
        return str(error)
    return None


def explained(
    batches: Generator[pa.RecordBatch, None, None],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches; raise SinkError, which names a fix, if a task has too many bytes."""
    try:
        yield from batches
    except TooManyBytesError as error:
        raise SinkError(
            error.problem,
            cause="the rows of a task go to the driver as a whole, since splitting them would "
            "change their order",
            fix="Set minPartitions on the reader, lower maxOffsetsPerTrigger, or raise "
            "spark.driver.maxResultSize",
        ) from error
