"""Repairs of the ledger of a PostgreSQL schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from eo_listener.model.errors import InUseError, SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_repair import Rename, plan_acceptance, plan_rename
from eo_listener.sinks.postgres.connection import Connection, connect
from eo_listener.sinks.postgres.conninfo import ConnectionSettings, application_name
from eo_listener.sinks.postgres.ledger import Ledger
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.made_up_entries import HOSTILE, QUERY, entry_of, heads_of

TP = TopicPartition("flights", 0)


@pytest.fixture
def schema(dsn: str) -> str:
    """The schema of the test."""
    return dsn.rpartition("%3D")[2]


@pytest.fixture
def key(schema: str) -> LedgerKey:
    """The query's ledger of the table delays."""
    return LedgerKey(f"{schema}.delays", QUERY)


def opened(dsn: str, application: str) -> Connection:
    access = ConnectionSettings(
        dsn=dsn, schema=None, connect_timeout=10, lock_timeout=10, statement_timeout=60
    )
    return connect(access, "the test", application)


@pytest.fixture
def filled(dsn: str, schema: str, key: LedgerKey) -> str:
    """A schema with a table, and its ledger at 5."""
    with closing(opened(dsn, "test")) as link:
        ledger = Ledger(key=key.sink, label="delays", schema=schema)
        ledger.make(link, create=True)
        link.execute("CREATE TABLE delays (word text)")
        ledger.move(link, entry_of({}, {TP: OffsetRange(0, 5)}), rows=5)
    return dsn


@pytest.fixture
def repair(filled: str) -> Iterator[PostgresLedgerRepair]:
    """What repairs it."""
    with closing(PostgresLedgerRepair(filled)) as made:
        yield made


def renamed(repair: PostgresLedgerRepair, key: LedgerKey, query: str) -> Rename:
    heads = {one: ledger.heads for one, ledger in repair.reader.ledgers().items()}
    return plan_rename(heads, key, sink=None, query=query)


def test_a_rename_and_a_gap(repair: PostgresLedgerRepair, key: LedgerKey) -> None:
    """Each in a transaction, with its row in the history; names are data."""
    repair.rename(renamed(repair, key, HOSTILE[5]))
    new = LedgerKey(key.sink, HOSTILE[5])
    heads = repair.reader.ledgers()[new].heads
    repair.accept(key.sink, plan_acceptance(heads, new, TP, OffsetRange(5, 8), run_id="r"))
    assert repair.reader.ledgers()[new].heads[TP].range == OffsetRange(8, 8)
    history = list(repair.reader.history(new))
    assert [one.verdict.split()[0] for one in history] == ["first", "renamed", "gap"]
    assert history[-1].gap == OffsetRange(5, 8)


def test_heads_that_have_moved(repair: PostgresLedgerRepair, key: LedgerKey, filled: str) -> None:
    """Are left alone: what was read before is compared in the transaction."""
    rename = renamed(repair, key, "new")
    entry = plan_acceptance(rename.heads, key, TP, OffsetRange(5, 8), run_id="r")
    with closing(opened(filled, "test")) as link:
        ledger = Ledger(key=key.sink, label="delays", schema=key.sink.partition(".")[0])
        first = heads_of(entry_of({}, {TP: OffsetRange(0, 5)}))
        ledger.move(link, entry_of(first, {TP: OffsetRange(5, 6)}, batch_id=1), rows=1)
    with pytest.raises(InUseError, match="has moved meanwhile"):
        repair.rename(rename)
    with pytest.raises(InUseError):
        repair.accept(key.sink, entry)
    assert repair.reader.ledgers()[key].heads[TP].range == OffsetRange(5, 6)


def test_a_name_that_is_taken_meanwhile(repair: PostgresLedgerRepair, key: LedgerKey) -> None:
    """Two ledgers never become one."""
    rename = renamed(repair, key, "new")
    repair.rename(rename)
    back = renamed(repair, LedgerKey(key.sink, "new"), QUERY)
    with pytest.raises(InUseError, match="of the new name by now"):
        repair.rename(replace(back, new=back.old))


def test_who_is_connected(repair: PostgresLedgerRepair, key: LedgerKey, filled: str) -> None:
    """A sink's connection is known by its name, of this sink and query alone."""
    with closing(opened(filled, application_name(*key))) as link:
        (user,) = repair.users(key)
        assert f"backend {link.info.backend_pid} " in user
        assert repair.users(LedgerKey(key.sink, "another")) == ()


def test_keys_of_tables(
    repair: PostgresLedgerRepair, key: LedgerKey, filled: str, schema: str
) -> None:
    """As a sink has them: with the schema, quoted where it must be; no other schema's."""
    with closing(opened(filled, "test")) as link:
        link.execute('CREATE TABLE "Odd name" (word text)')
    assert repair.key_of("delays") == key.sink
    assert repair.key_of('"Odd name"') == f'{schema}."Odd name"'
    assert repair.key_of("absent") == f"{schema}.absent"
    for sink in (f"{schema}.absent", ""):
        old = LedgerKey(sink, key.query)
        repair.check_rename(Rename(old=old, new=key, heads={}))
    with pytest.raises(SettingsError, match="is still there"):
        repair.check_rename(Rename(old=key, new=LedgerKey("other", key.query), heads={}))
    with pytest.raises(SettingsError, match="is in schema pg_catalog"):
        repair.key_of("pg_class")


def test_a_role_without_rights(filled: str, repair: PostgresLedgerRepair, key: LedgerKey) -> None:
    """Is said which it lacks, and nothing is changed."""
    rename = renamed(repair, key, "new")
    role = f"reader_{key.sink.partition('.')[0]}"
    with closing(opened(filled, "test")) as link:
        schema = key.sink.partition(".")[0]
        link.execute(f"CREATE ROLE {role} LOGIN".encode())
        link.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
        link.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}".encode())
    weak = psycopg.conninfo.make_conninfo(filled, user=role)
    try:
        with closing(PostgresLedgerRepair(weak)) as other:
            other.reader.ledgers()
            with pytest.raises(SinkError, match="SELECT, INSERT, UPDATE"):
                other.rename(rename)
    finally:
        with closing(opened(filled, "test")) as link:
            link.execute(f"DROP OWNED BY {role}".encode())
            link.execute(f"DROP ROLE {role}".encode())
    assert key in repair.reader.ledgers()
