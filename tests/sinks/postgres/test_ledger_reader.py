"""The ledger of a PostgreSQL schema, read from outside."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.postgres.ledger import Ledger
from eo_listener.sinks.postgres.ledger_reader import PostgresLedgerReader
from eo_listener.testing.made_up_entries import QUERY, entry_of, heads_of
from tests.postgres_server import PostgresServer

TP = TopicPartition("flights", 0)


def schema(dsn: str) -> str:
    return dsn.rpartition("%3D")[2]


@pytest.fixture
def filled(dsn: str) -> str:
    """A schema with a ledger of two batches."""
    first = entry_of({}, {TP: OffsetRange(0, 5)})
    second = entry_of(heads_of(first), {TP: OffsetRange(5, 9)}, batch_id=1)
    reader = PostgresLedgerReader(dsn)
    link = reader.connection()
    link.execute("SET default_transaction_read_only = off")
    ledger = Ledger(key="delays", label="delays", schema=schema(dsn))
    ledger.make(link, create=True)
    for entry in (first, second):
        ledger.move(link, entry, rows=5)
    reader.close()
    return dsn


def test_heads_and_history(filled: str) -> None:
    """Of the schema that the search_path finds; through a connection that cannot write."""
    with closing(PostgresLedgerReader(filled)) as reader:
        found = reader.ledgers()[LedgerKey("delays", QUERY)]
        assert found.heads[TP].range == OffsetRange(5, 9)
        history = list(reader.history(LedgerKey("delays", QUERY)))
        assert [one.head.range for one in history] == [OffsetRange(0, 5), OffsetRange(5, 9)]
        assert f"schema {schema(filled)}" in reader.label
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.connection().execute("DELETE FROM eo_ledger")


def test_the_right_to_read_is_enough(filled: str) -> None:
    """And where it is missing, the GRANT is said."""
    with psycopg.connect(filled, autocommit=True) as link:
        link.execute("DROP ROLE IF EXISTS onlooker")
        link.execute("CREATE ROLE onlooker LOGIN")
        link.execute(f"GRANT USAGE ON SCHEMA {schema(filled)} TO onlooker")
        other = filled.replace("postgres@", "onlooker@")
        assert other != filled
        refused = pytest.raises(SinkError, match="GRANT SELECT ON")
        with closing(PostgresLedgerReader(other)) as reader, refused:
            reader.ledgers()
        link.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema(filled)} TO onlooker")
        with closing(PostgresLedgerReader(other)) as reader:
            assert LedgerKey("delays", QUERY) in reader.ledgers()
            assert list(reader.history(LedgerKey("delays", QUERY)))
        link.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema(filled)} FROM onlooker")
        link.execute(f"REVOKE ALL ON SCHEMA {schema(filled)} FROM onlooker")
        link.execute("DROP ROLE onlooker")


def test_no_ledger_and_no_server(dsn: str) -> None:
    """Each in one line, with no secret in it."""
    refused = pytest.raises(SettingsError, match="no ledger")
    with closing(PostgresLedgerReader(dsn, schema="nosuch")) as reader, refused:
        reader.ledgers()
    away = PostgresLedgerReader("postgresql://u:hidden@127.0.0.1:1/d")
    with pytest.raises(SinkError) as raised:
        away.ledgers()
    assert "hidden" not in str(raised.value)


def test_rows_come_by_source_offset(filled: str) -> None:
    """In the order of bytes; rows without an origin come last. A name is never a statement."""
    rows = [("b", 0, 2), ("B", 0, 1), ("b", 0, 1), (None, 0, 5), ("a", 1, 0), ("B", 0, 2)]
    with psycopg.connect(filled, autocommit=True) as link:
        link.execute('CREATE TABLE "De lays" (topic text, partition int, "offset" bigint)')
        with link.cursor() as cursor:
            cursor.executemany('INSERT INTO "De lays" VALUES (%s, %s, %s)', rows)
    table = f'{schema(filled)}."De lays"'
    with closing(PostgresLedgerReader(filled)) as reader:
        found = list(reader.row_origins(table, ("topic", "partition", "offset")))
        assert found == [
            ("B", 0, 1),
            ("B", 0, 2),
            ("a", 1, 0),
            ("b", 0, 1),
            ("b", 0, 2),
            (None, 0, 5),
        ]
        with pytest.raises(SettingsError, match="no column 'at'"):
            list(reader.row_origins(table, ("topic", "partition", "at")))
        with pytest.raises(SettingsError, match="no table"):
            list(reader.row_origins("x; DROP TABLE eo_ledger", ("a", "b", "c")))


def test_a_wrong_password(postgres: PostgresServer) -> None:
    """Is said without it."""
    dsn = postgres.dsn().replace("postgres@", "checked:hidden@")
    with closing(PostgresLedgerReader(dsn)) as reader, pytest.raises(SinkError) as raised:
        reader.ledgers()
    assert "hidden" not in str(raised.value)
