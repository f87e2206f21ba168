"""The rows of a batch without transactions through the driver: in the order of their identities.

Spark has sorted them, so two rows of one identity are neighbours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from zlib import crc32

import pyarrow as pa

from eo_listener.kafka.record_producer import TooLargeError
from eo_listener.model.fault_points import reached
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_rows import stream
from eo_listener.sinks.dead_letters import RowFilter
from eo_listener.sinks.kafka.driver_writer import explained
from eo_listener.sinks.kafka.row_identity import HEADER, RowIdentity
from eo_listener.sinks.kafka.types import Record
from eo_listener.sinks.kafka.unfenced_batch import Places
from eo_listener.sinks.kafka.unfenced_rows import KnownRows, RowsTarget, stays, twice
from eo_listener.sinks.spark_columns import quoted


class OrderedRows:
    """The rows of one try of a batch, through the driver. Raises SettingsError for columns."""

    def __init__(
        self,
        frame: Any,
        plan: PlannedBatch,
        *,
        label: str,
        one_topic: bool,
        identity: Sequence[str] | None,
    ) -> None:
        self._label = label
        self._known = KnownRows.of(frame, plan, one_topic=one_topic, identity=identity)
        self._filter = RowFilter(columns=tuple(self._known.schema.names), marked=self._known.marked)
        ordered = in_order(frame, self.identity)
        self._batches = explained(stream(ordered, plan, task_rows=sys.maxsize))
        self._rows: Iterator[pa.RecordBatch] = self._batches
        self._last: str | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which rows are known."""
        return self._known.identity.names

    def prepare(self) -> None:
        """Have Spark compute the first rows, which may be all of the work."""
        first = next(self._batches, None)
        self._rows = chain(() if first is None else (first,), self._batches)

    def absent(self, there: Places) -> Places:
        """Those of them that no row has. Spark computes the rows once more for it."""
        return self._known.absent(there)

    def write(self, target: RowsTarget, there: Places) -> int:
        """Send each row that is not `there`; returns how many. What it meets is taken out of it.

        On return each row is acknowledged.
        """
        sent = 0
        for number, batch in enumerate(self._rows):
            sent += self._send(batch, target, there)
            if number == 0:
                reached("sink.copying")
        target.producer.flush()
        return sent

    def close(self) -> None:
        """Have Spark stop, where rows were not all fetched."""
        self._batches.close()

    def _send(self, batch: pa.RecordBatch, target: RowsTarget, there: Places) -> int:
        rows, letters = self._filter.sift(batch)
        if letters:
            raise stays(letters[0].error(self._label))
        sent = 0
        records = self._known.columns.records(rows, target.targets)
        for index, (values, record) in enumerate(
            zip(self._known.identity.values(rows), records, strict=True)
        ):
            if values == self._last:
                raise twice(self._label, self.identity, f", {values}")
            self._last = values
            why = record if isinstance(record, str) else None
            if isinstance(record, Record) and there.pop(values, None) is None:
                why = _sent(record, values, target)
                sent += 1
            if why is not None:
                raise stays(self._filter.letter(rows, index, why).error(self._label))
        return sent


def in_order(frame: Any, names: Sequence[str]) -> Any:
    """The rows of a DataFrame in the order of these columns."""
    return frame.sort(*map(quoted, names))


def place_of(values: str, partitions: int) -> int:
    """The partition of a row without a key: by its identity, so always the same."""
    return crc32(values.encode()) % partitions


def _sent(record: Record, values: str, target: RowsTarget) -> str | None:
    """Send it; or say why the client does not take it."""
    partition = record.partition
    if partition < 0 and record.key is None:
        partition = place_of(values, target.targets.topics[record.topic].partitions)
    identity = RowIdentity(target.writer, target.batch, values).encode()
    try:
        target.producer.send(
            record.topic,
            record.value,
            key=record.key,
            headers=[*(record.headers or ()), (HEADER, identity)],
            partition=partition,
        )
    except TooLargeError as error:
        return str(error)
    return None
