"""The rows of a batch without transactions: in the order of their identities, each but once.

Here they come through the driver, sorted by Spark, so two rows of one identity are neighbours.
`task_rows` has the executors send them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import pyarrow as pa

from eo_listener.kafka.record_producer import RecordProducer, TooLargeError
from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.model.fault_points import reached
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_rows import schema_of, stream
from eo_listener.sinks.dead_letters import REASON, RowFilter
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.driver_writer import explained
from eo_listener.sinks.kafka.row_identity import HEADER, IdentityColumns, RowIdentity
from eo_listener.sinks.kafka.types import PARTITION, TOPIC, Record, RecordColumns
from eo_listener.sinks.kafka.unfenced_batch import Places
from eo_listener.sinks.newest_row import ORIGIN


class RowsTarget(NamedTuple):
    """Where rows go: through which producer, to which topics; and whose they are."""

    producer: RecordProducer
    targets: Targets
    writer: str
    batch: int


class UnfencedRows(Protocol):
    """The rows of one try of a batch, by either write method."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns by which rows are known."""
        ...

    def prepare(self) -> None:
        """Do what can be done before the batch is begun."""
        ...

    def absent(self, there: Places) -> Places:
        """Those of them that no row has; sends nothing."""
        ...

    def write(self, target: RowsTarget, there: Places) -> int:
        """Send each row that is not `there`; returns how many. What it meets is taken out of it.

        On return each row is acknowledged.
        """
        ...

    def close(self) -> None:
        """Release what the try has opened; called once, whatever happened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """A DataFrame whose rows are known by their identity, and of which columns its records are.

    `marked`: it has the column by which the transform marks rows.
    """

    frame: Any
    plan: PlannedBatch
    schema: pa.Schema
    identity: IdentityColumns
    columns: RecordColumns
    marked: bool

    @classmethod
    def of(
        cls, frame: Any, plan: PlannedBatch, *, one_topic: bool, identity: Sequence[str] | None
    ) -> KnownRows:
        """Choose the columns; raises SettingsError.

        Columns that are part of the identity do not say where a row goes.
        """
        schema = schema_of(frame)
        known = IdentityColumns.of(schema, identity)
        others = _without_origin(schema, known.names, one_topic=one_topic)
        return cls(
            frame=frame,
            plan=plan,
            schema=schema,
            identity=known,
            columns=RecordColumns.of(others, one_topic=one_topic),
            marked=REASON in schema.names,
        )

    def absent(self, there: Places) -> Places:
        """Those of them that no row has. Spark computes the rows once more for it."""
        left = dict(there)
        only = identities(self.frame, self.identity.names)
        with closing(explained(stream(only, self.plan, task_rows=sys.maxsize))) as batches:
            for batch in batches:
                for values in self.identity.values(batch):
                    left.pop(values, None)
                if not left:
                    break
        return left


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


def twice(label: str, identity: tuple[str, ...], which: str) -> PoisonRowError:
    """Two rows of a batch have one identity; `which` is shown where it has no value of a row."""
    return PoisonRowError(
        f"{label}: the batch has two rows of one identity{which if identity == ORIGIN else ''}",
        cause=f"the columns {', '.join(identity)} are equal in both; after a crash it could not be "
        "said which of them is there. Others of its rows may be written already",
        fix="Drop one of them in the transform: what is there is then not written again. Or "
        'name other columns, that no two rows share, id=("column", ...), and start with '
        'on_repeated="accept", once: the batch is then written whole, behind what is there',
    )


def _without_origin(schema: pa.Schema, identity: tuple[str, ...], *, one_topic: bool) -> pa.Schema:
    """The columns that say what a record is, and where it goes."""
    taken = {TOPIC, PARTITION} & set(identity)
    if TOPIC in taken and not one_topic:
        raise SettingsError(
            "the sink has several topics, and the column 'topic' is part of the rows' identity",
            cause="it would have to be the topic that a row is from, and the one it goes to",
            fix="Rename the source's columns in the transform, and name them: "
            'id=("source_topic", "source_partition", "source_offset")',
        )
    return pa.schema([field for field in schema if field.name not in taken])


def identities(frame: Any, names: Sequence[str]) -> Any:
    """The rows of a DataFrame, of these columns alone."""
    return frame.select(*map(_quoted, names))


def in_order(frame: Any, names: Sequence[str]) -> Any:
    """The rows of a DataFrame in the order of these columns."""
    return frame.sort(*map(_quoted, names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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


def stays(error: PoisonRowError) -> PoisonRowError:
    """Say of it what is true without transactions."""
    return PoisonRowError(
        error.problem,
        partition=error.partition,
        offset=error.offset,
        cause="the batch fails at such a row; what was written of it before stays, and is not "
        "written again",
        fix="Filter such rows out in the transform",
    )
