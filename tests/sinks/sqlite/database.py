"""What another program sees in a database file, and batches for it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.sqlite import SqliteSink
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of

TP = TopicPartition("flights", 0)


def ask(path: Path, sql: str) -> list[Any]:
    """Read with a connection of its own; one column comes without a tuple."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(sql).fetchall()
    return [row[0] for row in found] if found and len(found[0]) == 1 else found


def script(path: Path, sql: str) -> None:
    """Run statements with a connection of its own."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def next_entry(sink: SqliteSink, count: int = 10, batch_id: int = 0) -> Entry:
    """A batch of `count` offsets behind those that the sink has."""
    heads = sink.applied(QUERY)
    start = heads[TP].range.until if TP in heads else 0
    return entry_of(heads, {TP: OffsetRange(start, start + count)}, batch_id=batch_id)


def write(sink: SqliteSink, frame: DataFrame, count: int = 10, batch_id: int = 0) -> Applied:
    """Write a frame as the sink's next batch."""
    entry = next_entry(sink, count, batch_id)
    return sink.apply(frame, entry, plan_of(entry))


def put(sink: SqliteSink, rows: pa.RecordBatch) -> Applied:
    """Write a record batch as the sink's next batch: what it does without Spark."""
    return sink._apply(rows.schema, iter([rows]), next_entry(sink))
