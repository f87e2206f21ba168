"""Batches for a sink as a driver has them, what another connection sees, and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from eo_listener.model.ledger import Applied, Entry
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.connection import Connection
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.made_up_entries import QUERY, Row, plan_of
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.other_writers import SqlStore
from tests.sinks.chapters.target_table import TP, SqlTarget, next_entry, write

__all__ = ["TP", "next_entry", "write"]
STAGES = "SELECT relname FROM pg_class WHERE relname LIKE 'eo_stage%' AND pg_table_is_visible(oid)"
WRITE_METHODS = pytest.mark.parametrize("write_method", ["driver", "staging"])
MODES = pytest.mark.parametrize(
    "mode", [{}, {"mode": "upsert", "keys": "k"}], ids=["append", "upsert"]
)
KV = "k int, v int"
BARE = "bare"
USAGE = "GRANT USAGE ON SCHEMA {schema} TO {role}"
ALL_TABLES = "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
ORIGIN = "topic string, partition int, offset bigint"
SUPPRESS = (
    "CREATE TRIGGER same BEFORE UPDATE ON t FOR EACH ROW "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The schema of a test: what other programs do there, and sinks on it."""

    dsn: str
    stack: ExitStack
    table: str = "t"
    given: Mapping[str, Any] = field(default_factory=dict)
    """Of the sinks, unless another is named."""

    def ask(self, query: str) -> list[Any]:
        return ask(self.dsn, query)

    def script(self, *statements: str) -> None:
        script(self.dsn, *statements)

    @property
    def schema(self) -> str:
        return own_schema(self.dsn)

    def role(self, *statements: str, options: str = "") -> AbstractContextManager[str]:
        return another_role(self.dsn, *statements, options=options)

    def sink(self, table: str = "", **more: Any) -> PostgresSink:
        """Open a sink until the end of the test."""
        given = {"dsn": self.dsn, "table": table or self.table, **self.given, **more}
        return self.stack.enter_context(closing(PostgresSink(**given)))


@pytest.fixture
def db(dsn: str) -> Iterator[Database]:
    with ExitStack() as stack:
        yield Database(dsn=dsn, stack=stack)


def link_of(sink: PostgresSink) -> Connection:
    assert sink._kept.link is not None
    return sink._kept.link


def put(sink: PostgresSink, columns: str, *rows: tuple[Any, ...], query: str = QUERY) -> Applied:
    """Write rows as the sink's next batch; the last value of each is its offset."""
    full = ((*row[:-1], *TP, row[-1]) for row in rows)
    return write(sink, ArrowFrame.rows(f"{columns}, {ORIGIN}", *full), query=query)


def frame_of(entry: Entry) -> ArrowFrame:
    """A row of the table BARE for each offset."""
    offsets = range(*entry.moves[TP].range)
    return ArrowFrame.rows("id bigint, run string", *((one, entry.run_id) for one in offsets))


def write_entry(sink: PostgresSink, entry: Entry) -> Applied:
    return sink.apply(frame_of(entry), entry, plan_of(entry))  # type: ignore[arg-type]  # it stands for one


def ask(dsn: str, query: str) -> list[Any]:
    """Ask on a connection of its own; one column comes without a tuple."""
    with psycopg.connect(dsn) as link:
        found = link.execute(query.encode()).fetchall()
    return [row[0] for row in found] if found and len(found[0]) == 1 else list(found)


def script(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as link:
        for one in statements:
            link.execute(one.encode())


def own_schema(dsn: str) -> str:
    (schema,) = ask(dsn, "SELECT current_schema()")
    return str(schema)


def trigger(body: str, when: str = "BEFORE INSERT") -> tuple[str, str]:
    """Return the statements that make a trigger of t run this PL/pgSQL for each row."""
    return (
        f"CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
        f"CREATE TRIGGER look {when} ON t FOR EACH ROW EXECUTE FUNCTION look()",
    )


@contextmanager
def another_role(dsn: str, *statements: str, options: str = "") -> Iterator[str]:
    """Enter the same schema as a new role; `statements` may name {role} and {schema}."""
    schema = own_schema(dsn)
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
        self.run("DROP TABLE IF EXISTS t, dead, eo_ledger, eo_ledger_history")

    def new_sink(self, **arguments: Any) -> PostgresSink:
        return PostgresSink(self.dsn, "t", **arguments)

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        name = f'"{table}"'
        if self.link.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
            return []
        return self.link.cursor(row_factory=dict_row).execute(f"TABLE {name}".encode()).fetchall()

    def run(self, statement: str) -> None:
        self.link.execute(statement.format(table="t").encode())


class PostgresStore(SqlStore):
    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.dsn = dsn
        self.schema = own_schema(dsn)

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    def make_sink(self) -> PostgresSink:
        return PostgresSink(self.dsn, "t's")

    def make_repair(self) -> PostgresLedgerRepair:
        return PostgresLedgerRepair(self.dsn)

    def rows(self) -> list[Row]:
        return ask(self.dsn, f"SELECT * FROM {self.table}")

    def run(self, statement: str) -> None:
        script(self.dsn, statement)

    def key_of(self, table: str) -> str:
        return f'{self.schema}."{table}"'

    def is_there(self) -> bool:
        there = "SELECT 1 FROM pg_tables WHERE tablename = 't''s' AND schemaname = "
        return ask(self.dsn, f"{there}current_schema()") != []


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    made = PostgresStore(dsn)
    with made.opened:
        yield made
