"""The rows of a batch without transactions, as both write methods know them: by their identity."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from eo_listener.kafka.record_producer import RecordProducer
from eo_listener.model.errors import PoisonRowError, SettingsError
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.sinks.arrow_rows import schema_of, stream
from eo_listener.sinks.dead_letters import REASON
from eo_listener.sinks.kafka.catalog import Targets
from eo_listener.sinks.kafka.driver_writer import explained
from eo_listener.sinks.kafka.row_identity import IdentityColumns
from eo_listener.sinks.kafka.types import PARTITION, TOPIC, RecordColumns
from eo_listener.sinks.kafka.unfenced_batch import Places
from eo_listener.sinks.newest_row import ORIGIN
from eo_listener.sinks.spark_columns import quoted


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


def identities(frame: Any, names: Sequence[str]) -> Any:
    """The rows of a DataFrame, of these columns alone."""
    return frame.select(*map(quoted, names))


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
