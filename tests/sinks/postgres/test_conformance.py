"""PostgresSink is a sink as every other, and its ledger from outside: read and repaired."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eo_listener.errors import SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.ledger_repair import LedgerRepair, Rename
from eo_listener.sinks.ledger_sql import quoted
from eo_listener.sinks.postgres import PostgresSink
from eo_listener.sinks.postgres.ledger_reader import PostgresLedgerReader
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.conformance import SinkConformance
from eo_listener.testing.made_up_entries import FRAME, QUERY, Row
from tests.sinks.arrow_frame import ArrowFrame
from tests.sinks.chapters.ledger_repair import LedgerRepairs, rename
from tests.sinks.chapters.other_writers import RowOrigins
from tests.sinks.chapters.store import TP
from tests.sinks.postgres.course import USAGE, PostgresStore, another_role, ask, link_of, script


class TestPostgresSink(SinkConformance):
    """Through the driver, by append."""

    # At "sink.commit-sent" the answer is on its way: what is durable then, nobody can say.
    fault_points = ("sink.begun", "sink.copying", "sink.rows-written", "sink.ledger-moved")
    fault_points_after = ("sink.committed",)

    @pytest.fixture(autouse=True)
    def _store(self, dsn: str) -> None:
        self.dsn = dsn

    def open_sink(self, target: str) -> PostgresSink:
        return PostgresSink(self.dsn, target)

    def read_rows(self, target: str) -> list[Row]:
        try:
            return ask(self.dsn, f"TABLE {quoted(target)}")
        except psycopg.errors.UndefinedTable:
            return []

    def make_frame(self, rows: Sequence[Row]) -> Any:
        return ArrowFrame.rows(FRAME, *rows)


class TestRowOrigins(RowOrigins):
    """In a schema."""


@pytest.fixture
def filled(store: PostgresStore) -> PostgresStore:
    """A schema with a ledger of two batches."""
    for number, offset_range in enumerate((OffsetRange(0, 5), OffsetRange(5, 9))):
        store.write({TP: offset_range}, number)
    return store


def test_heads_and_history(filled: PostgresStore) -> None:
    """Of the schema that the search_path finds; through a connection that cannot write."""
    with closing(PostgresLedgerReader(filled.dsn)) as reader:
        assert reader.ledgers()[filled.key()].heads[TP].range == OffsetRange(5, 9)
        history = [one.head.range for one in reader.history(filled.key())]
        assert history == [OffsetRange(0, 5), OffsetRange(5, 9)]
        assert f"schema {filled.schema}" in reader.label
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.connection().execute("DELETE FROM eo_ledger")


def test_no_ledger(dsn: str) -> None:
    """Is an error of the settings."""
    refused = pytest.raises(SettingsError, match="no ledger")
    with closing(PostgresLedgerReader(dsn, schema="nosuch")) as reader, refused:
        reader.ledgers()


class TestLedgerRepairs(LedgerRepairs):
    """In one transaction, which locks the heads."""

    def test_who_is_connected(self, written: PostgresStore, repair: LedgerRepair) -> None:
        """A sink's connection is known by its name, of this sink and query alone."""
        written.opened.close()
        sink = written.make_sink()
        sink.applied(QUERY)
        with closing(sink), closing(written.make_repair()) as fresh:
            (user,) = fresh.users(written.key())
            assert f"backend {link_of(sink).backend} " in user
            assert fresh.users(LedgerKey(written.name, "another")) == ()

    def test_keys_of_tables(self, written: PostgresStore, repair: LedgerRepair) -> None:
        """As a sink has them: with the schema, quoted where it must be; no other schema's."""
        script(written.dsn, 'CREATE TABLE "Odd name" (word text)')
        key, schema = written.key(), written.schema
        assert repair.key_of(written.table) == key.sink
        assert repair.key_of('"Odd name"') == f'{schema}."Odd name"'
        assert repair.key_of("absent") == f"{schema}.absent"
        for sink in (f"{schema}.absent", ""):
            repair.check_rename(Rename(old=LedgerKey(sink, QUERY), new=key, heads={}))
        with pytest.raises(SettingsError, match="still exists"):
            repair.check_rename(Rename(old=key, new=LedgerKey("other", QUERY), heads={}))
        with pytest.raises(SettingsError, match="is in schema pg_catalog"):
            repair.key_of("pg_class")

    def test_a_role_without_rights(self, written: PostgresStore, repair: LedgerRepair) -> None:
        """Is said which it lacks, and nothing is changed."""
        plan = rename(written, repair)
        grant = "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
        with (
            another_role(written.dsn, USAGE, grant) as weak,
            closing(PostgresLedgerRepair(weak)) as other,
        ):
            other.reader.ledgers()
            with pytest.raises(SinkError, match="SELECT, INSERT, UPDATE"):
                other.rename(plan)
        assert written.key() in repair.reader.ledgers()
