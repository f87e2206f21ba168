"""Repairs of the ledger in a SQLite file, and the rows that a command counts in it."""

from __future__ import annotations

from tests.sinks.chapters.ledger_repair import LedgerRepairs
from tests.sinks.chapters.other_writers import RowOrigins
from tests.sinks.sqlite.store import store

__all__ = ["store"]


class TestLedgerRepairs(LedgerRepairs):
    """In one transaction; see also `tests/cli/test_ledger.py`, whose commands repair such files."""


class TestRowOrigins(RowOrigins):
    """Topics that a collation takes for one stay apart."""

    text = "TEXT COLLATE NOCASE"
