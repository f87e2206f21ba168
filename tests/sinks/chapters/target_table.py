"""One table with rows of any columns: `class TestUpsert(SqliteTarget, UpsertChapter)`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.protocols import Sink
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.sinks.arrow_frame import ArrowFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TP = TopicPartition("flights", 0)
ORIGIN: Mapping[str, str] = {"topic": "string", "partition": "integer", "offset": "long"}
KINDS: Mapping[str, str] = MappingProxyType(
    {"id": "integer", "word": "string", "at": "long", **ORIGIN}
)
"""Columns and their types, as Spark calls them."""

ARROW = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

Row: TypeAlias = Mapping[str, Any]


def row(number: int | None, word: str | None, offset: int, partition: int = 0, **more: Any) -> Row:
    origin = {"topic": TP.topic, "partition": partition, "offset": offset}
    return {"id": number, "word": word, **more, **origin}


def columns_of(rows: Sequence[Row], kinds: Mapping[str, str]) -> dict[str, str]:
    """Those of `kinds` that the rows have; all of them without rows."""
    return {name: kind for name, kind in kinds.items() if not rows or name in rows[0]}


def record_batch(rows: Sequence[Row], kinds: Mapping[str, str] = KINDS) -> pa.RecordBatch:
    columns = columns_of(rows, kinds)
    arrays = [pa.array([one[name] for one in rows], ARROW[kind]) for name, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def union(rows: Iterable[str]) -> str:
    return " UNION ALL ".join(f"SELECT {one}" for one in rows)


def next_entry(sink: Sink, count: int = 10, *, run: str = "run-1", query: str = QUERY) -> Entry:
    """A batch of `count` offsets behind those that the sink has."""
    heads = sink.applied(query)
    head = heads.get(TP)
    start, batch = (head.range.until, head.batch_id + 1) if head else (0, 0)
    ranges = {TP: OffsetRange(start, start + count)}
    return entry_of(heads, ranges, batch_id=batch, run_id=run, query=query)


def write(sink: Sink, frame: Any, count: int = 10, *, query: str = QUERY) -> Applied:
    entry = next_entry(sink, count, query=query)
    return sink.apply(frame, entry, plan_of(entry))


class TargetTable:
    """A table of a test's own, and sinks on it."""

    counts_changes = True
    """Whether `Applied.rows` leaves out the rows that changed nothing."""

    opened: list[Any]

    def new_sink(self, **arguments: Any) -> Any:
        raise NotImplementedError

    def begin(self) -> None:
        """Have no table and no ledger, as at the start of a test."""
        raise NotImplementedError

    def make_table(self, columns: Mapping[str, str], **rules: str) -> None:
        """Make the table, with a `key`, a `check` and a `required` column, if rules have these."""
        raise NotImplementedError

    def apply(self, sink: Any, rows: Sequence[Row], kinds: Mapping[str, str], at: Entry) -> Applied:
        raise NotImplementedError

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return what another connection sees of the table, in order; nothing without a table."""
        raise NotImplementedError

    def run(self, statement: str) -> None:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _sinks(self, _store: None) -> Iterator[None]:
        self.opened = []
        yield
        for sink in self.opened:
            sink.close()

    def sink(self, **arguments: Any) -> Any:
        """Open a sink on the table, until the end of the test."""
        self.opened.append(self.new_sink(**arguments))
        return self.opened[-1]

    def put(self, sink: Any, rows: Sequence[Row], kinds: Mapping[str, str] = KINDS) -> Applied:
        return self.apply(sink, rows, kinds, next_entry(sink))


class SqlTarget(TargetTable):
    """A store of SQL, and rows without Spark."""

    types: Mapping[str, str]
    """The store's own types, by Spark's."""
    key_rule: str
    """What stands behind the type of a column that is the key."""

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def make_table(self, columns: Mapping[str, str], **rules: str) -> None:
        behind = {rules.get("required"): " NOT NULL", rules.get("key"): f" {self.key_rule}"}
        listed = [
            f'"{name}" {self.types[kind]}{behind.get(name, "")}' for name, kind in columns.items()
        ]
        listed += [f"CHECK ({rules['check']})"] if "check" in rules else []
        self.run(f"CREATE TABLE {{table}} ({', '.join(listed)})")

    def apply(self, sink: Any, rows: Sequence[Row], kinds: Mapping[str, str], at: Entry) -> Applied:
        frame = ArrowFrame(columns_of(rows, kinds), lambda: [record_batch(rows, kinds)])
        applied: Applied = sink.apply(frame, at, plan_of(at))
        return applied

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(cells[name] for name in columns) for cells in self.rows_of("t"))

    def letters(self) -> list[dict[str, Any]]:
        return self.rows_of("bad; rows")


class SparkRows(TargetTable):
    """Rows as DataFrames that the JVM makes: createDataFrame takes ten times as long."""

    spark: SparkSession

    def frame(self, query: str, **args: Any) -> DataFrame:
        return self.spark.sql(query, args=args)

    def apply(self, sink: Any, rows: Sequence[Row], kinds: Mapping[str, str], at: Entry) -> Applied:
        fields = ", ".join(f"{name} {kind}" for name, kind in columns_of(rows, kinds).items())
        text = json.dumps([dict(one) for one in rows], default=datetime.isoformat)
        query = f"SELECT inline(from_json(:rows, 'array<struct<{fields}>>'))"
        applied: Applied = sink.apply(self.frame(query, rows=text), at, plan_of(at))
        return applied

    def put_frame(self, sink: Any, frame: Any) -> Applied:
        return write(sink, frame)


class SparkTarget(SparkRows):
    """A store whose tables are Spark's."""

    provider: str

    def make_table(self, columns: Mapping[str, str], **rules: str) -> None:
        null = {rules.get("required"): " NOT NULL"}
        listed = ", ".join(f"{name} {kind}{null.get(name, '')}" for name, kind in columns.items())
        self.run(f"CREATE TABLE {{table}} ({listed}) USING {self.provider}")
