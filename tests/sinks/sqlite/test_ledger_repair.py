"""The ledger in a SQLite file from outside: read and repaired, and rows that a command counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eo_listener.errors import FormatError, SettingsError, SinkError
from eo_listener.offsets import OffsetRange
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from tests.sinks.chapters.ledger_repair import LedgerRepairs
from tests.sinks.chapters.other_writers import RowOrigins
from tests.sinks.chapters.store import TP
from tests.sinks.sqlite.database import script
from tests.sinks.sqlite.store import SqliteStore, store

__all__ = ["store"]


class TestLedgerRepairs(LedgerRepairs):
    """In one transaction; see also `tests/cli/test_ledger.py`, whose commands repair such files."""


class TestRowOrigins(RowOrigins):
    """Topics that a collation takes for one stay apart."""

    text = "TEXT COLLATE NOCASE"


def test_a_file_is_never_written(store: SqliteStore, tmp_path: Path) -> None:
    """Neither one that is there, nor one that is not."""
    store.write({TP: OffsetRange(0, 5)})
    with closing(SqliteLedgerReader(store.path)) as reader:
        reader.ledgers()
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.connection().execute("DELETE FROM eo_ledger")
    with pytest.raises(SettingsError, match="does not exist"):
        SqliteLedgerReader(tmp_path / "none.db").ledgers()
    assert not (tmp_path / "none.db").exists()


def test_a_file_without_a_ledger(path: Path) -> None:
    """Nothing was written there, or it is another file."""
    script(path, "CREATE TABLE t (a)")
    with closing(SqliteLedgerReader(path)) as reader, pytest.raises(SettingsError, match="no led"):
        reader.ledgers()
    path.write_text("not a database " * 100)
    with closing(SqliteLedgerReader(path)) as reader, pytest.raises(SinkError, match="not a data"):
        reader.ledgers()


def test_a_ledger_of_a_newer_release(store: SqliteStore) -> None:
    """Is not read as if it were known."""
    store.write({TP: OffsetRange(0, 5)})
    store.run("UPDATE eo_ledger SET format = 2; UPDATE eo_ledger_history SET format = 2")
    with closing(SqliteLedgerReader(store.path)) as reader:
        with pytest.raises(FormatError, match="format 2"):
            reader.ledgers()
        with pytest.raises(FormatError, match="format 2"):
            list(reader.history(store.key()))
