"""PostgreSQL as the chapters use it: a table in a schema of the test's own; without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.made_up_entries import Row
from tests.sinks.chapters.other_writers import SqlStore
from tests.sinks.postgres.course import ask, own_schema, script


class PostgresStore(SqlStore):
    """One table."""

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
    """A schema without a table."""
    made = PostgresStore(dsn)
    with made.opened:
        yield made
