"""Batches for a sink as a driver has them, and what another connection sees of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from eo_listener.model.ledger import Applied, Entry
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.model.protocols import Sink
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.testing.made_up_entries import QUERY, entry_of, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.target_table import SqlTarget

TP = TopicPartition("flights", 0)
STAGES = "SELECT relname FROM pg_class WHERE relname LIKE 'eo_stage%' AND pg_table_is_visible(oid)"
WRITE_METHODS = pytest.mark.parametrize("write_method", ["driver", "staging"])
FLIGHTS = "topic string, partition int, offset bigint, id int, delay double"


def next_entry(sink: Sink, count: int = 10, *, run: str = "run-1", query: str = QUERY) -> Entry:
    """A batch of `count` offsets behind those that the sink has."""
    heads = sink.applied(query)
    head = heads.get(TP)
    start, batch = (head.range.until, head.batch_id + 1) if head else (0, 0)
    ranges = {TP: OffsetRange(start, start + count)}
    return entry_of(heads, ranges, batch_id=batch, run_id=run, query=query)


def write(sink: Sink, frame: Any, count: int = 10, *, query: str = QUERY) -> Applied:
    """Write a frame as the sink's next batch."""
    entry = next_entry(sink, count, query=query)
    return sink.apply(frame, entry, plan_of(entry))


def put(
    sink: PostgresSink,
    fields: Mapping[str, str],
    batches: Iterable[pa.RecordBatch],
    *,
    query: str = QUERY,
) -> Applied:
    """Write record batches as the sink's next batch."""
    made = list(batches)
    return write(sink, ArrowFrame(fields, lambda: made), query=query)


def flights(*rows: tuple[int, int | None, float | None]) -> list[tuple[Any, ...]]:
    """Rows of FLIGHTS from (offset, id, delay)."""
    return [(*TP, offset, number, delay) for offset, number, delay in rows]


def ask(dsn: str, query: str) -> list[Any]:
    """Ask on a connection of its own; one column comes without a tuple."""
    with psycopg.connect(dsn) as link:
        found = link.execute(query.encode()).fetchall()
    return [row[0] for row in found] if found and len(found[0]) == 1 else list(found)


def script(dsn: str, *statements: str) -> None:
    """Run statements on a connection of its own."""
    with psycopg.connect(dsn, autocommit=True) as link:
        for one in statements:
            link.execute(one.encode())


@contextmanager
def another_role(dsn: str, *statements: str, options: str = "") -> Iterator[str]:
    """A way into the same schema as a role that is gone after it.

    `options` go to CREATE ROLE; `statements` may name {role} and {schema}.
    """
    (schema,) = ask(dsn, "SELECT current_schema()")
    role = f"role_{schema}"
    script(
        dsn,
        f"CREATE ROLE {role} LOGIN {options}",
        *(one.format(role=role, schema=schema) for one in statements),
    )
    try:
        yield dsn.replace("postgres@", f"{role}@", 1)
    finally:
        script(dsn, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


class PostgresTarget(SqlTarget):
    """A schema of a server, and rows without Spark."""

    types = MappingProxyType(
        {"integer": "int", "long": "bigint", "string": "text", "double": "float8"}
    )
    key_rule = "PRIMARY KEY"

    @pytest.fixture
    def _store(self, dsn: str) -> Iterator[None]:
        self.dsn = dsn
        # Nothing is prepared: a plan does not outlive a table that is made again.
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as self.link:
            yield

    def begin(self) -> None:
        """Drop what may be there."""
        self.run("DROP TABLE IF EXISTS t, dead, eo_ledger, eo_ledger_history")

    def new_sink(self, **arguments: Any) -> PostgresSink:
        """On the schema."""
        return PostgresSink(self.dsn, "t", **arguments)

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table, none if there is none."""
        name = f'"{table}"'
        if self.link.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
            return []
        return self.link.cursor(row_factory=dict_row).execute(f"TABLE {name}".encode()).fetchall()

    def run(self, statement: str) -> None:
        """With a connection of its own."""
        self.link.execute(statement.format(table="t").encode())
