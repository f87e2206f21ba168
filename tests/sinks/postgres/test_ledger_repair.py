"""Repairs of the ledger of a PostgreSQL schema: the chapter, and who may and who is connected."""

from __future__ import annotations

from contextlib import closing

import pytest

from eo_listener.model.errors import SettingsError, SinkError
from eo_listener.model.ledger import LedgerKey
from eo_listener.sinks.ledger_repair import LedgerRepair, Rename
from eo_listener.sinks.postgres.ledger_repair import PostgresLedgerRepair
from eo_listener.testing.made_up_entries import QUERY
from tests.sinks.chapters.ledger_repair import LedgerRepairs, rename
from tests.sinks.postgres.course import another_role, script
from tests.sinks.postgres.store import PostgresStore, store

__all__ = ["store"]


class TestLedgerRepairs(LedgerRepairs):
    """In one transaction, which locks the heads."""

    def test_who_is_connected(self, written: PostgresStore, repair: LedgerRepair) -> None:
        """A sink's connection is known by its name, of this sink and query alone."""
        written.opened.close()
        sink = written.make_sink()
        sink.applied(QUERY)
        assert sink._kept.link is not None
        with closing(sink), closing(written.make_repair()) as fresh:
            (user,) = fresh.users(written.key())
            assert f"backend {sink._kept.link.backend} " in user
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
        with pytest.raises(SettingsError, match="is still there"):
            repair.check_rename(Rename(old=key, new=LedgerKey("other", QUERY), heads={}))
        with pytest.raises(SettingsError, match="is in schema pg_catalog"):
            repair.key_of("pg_class")

    def test_a_role_without_rights(self, written: PostgresStore, repair: LedgerRepair) -> None:
        """Is said which it lacks, and nothing is changed."""
        plan = rename(written, repair)
        grants = (
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        )
        with (
            another_role(written.dsn, *grants) as weak,
            closing(PostgresLedgerRepair(weak)) as other,
        ):
            other.reader.ledgers()
            with pytest.raises(SinkError, match="SELECT, INSERT, UPDATE"):
                other.rename(plan)
        assert written.key() in repair.reader.ledgers()
