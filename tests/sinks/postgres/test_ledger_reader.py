"""The ledger of a PostgreSQL schema, read from outside."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.offsets import OffsetRange
from eo_listener.sinks.postgres.ledger_reader import PostgresLedgerReader
from tests.postgres_server import PostgresServer
from tests.sinks.chapters.other_writers import RowOrigins
from tests.sinks.chapters.store import TP
from tests.sinks.postgres.course import another_role, script
from tests.sinks.postgres.store import PostgresStore, store

__all__ = ["store"]


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


def test_the_right_to_read_is_enough(filled: PostgresStore) -> None:
    """And where it is missing, the GRANT is said."""
    with another_role(filled.dsn, "GRANT USAGE ON SCHEMA {schema} TO {role}") as onlooker:
        refused = pytest.raises(SinkError, match="GRANT SELECT ON")
        with closing(PostgresLedgerReader(onlooker)) as reader, refused:
            reader.ledgers()
        all_of_it = f"ALL TABLES IN SCHEMA {filled.schema} TO role_{filled.schema}"
        script(filled.dsn, f"GRANT SELECT ON {all_of_it}")
        with closing(PostgresLedgerReader(onlooker)) as reader:
            assert filled.key() in reader.ledgers()
            assert list(reader.history(filled.key()))


def test_no_ledger(dsn: str) -> None:
    """Is an error of the settings."""
    refused = pytest.raises(SettingsError, match="no ledger")
    with closing(PostgresLedgerReader(dsn, schema="nosuch")) as reader, refused:
        reader.ledgers()


@pytest.mark.parametrize("way", ["u:hidden@127.0.0.1:1", None], ids=["away", "refused"])
def test_a_way_in_that_fails_is_said_without_the_password(
    postgres: PostgresServer, way: str | None
) -> None:
    """Nobody answers, or the password is wrong."""
    wrong = postgres.dsn().replace("postgres@", "checked:hidden@")
    reader = PostgresLedgerReader(f"postgresql://{way}/d" if way else wrong)
    with closing(reader), pytest.raises(SinkError) as raised:
        reader.ledgers()
    assert "hidden" not in str(raised.value)
