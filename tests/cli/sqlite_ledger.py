"""A SQLite file with a ledger, for tests of commands that read or repair one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from eo_listener.model.ledger import Entry, Head, LedgerKey, StoredLedger
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.ledger_sql import LedgerSql
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import QUERY

KEY = LedgerKey("delays", QUERY)
LEDGER = LedgerSql(placeholder="?", moment="text", schema="main", index_in_schema=True)


class Store:
    """A SQLite file with a table and its ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = f"sqlite:{path}"
        self.batch = 0
        with self.connected() as made:
            for statement in ("CREATE TABLE delays (word text)", *LEDGER.create()):
                made.execute(statement)

    def connected(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.path, isolation_level=None))

    def write(self, entry: Entry, sink: str = "delays") -> None:
        now = datetime(2026, 11, 21, 12, self.batch, tzinfo=timezone.utc)
        self.batch += 1
        with self.connected() as made:
            for many in (LEDGER.insert(sink, entry, now), LEDGER.move(sink, entry, now)):
                made.executemany(*many)
            made.executemany(*LEDGER.history(sink, entry, rows=5, now=now))

    def execute(self, statement: str) -> None:
        with self.connected() as made:
            made.execute(statement)

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        with closing(SqliteLedgerReader(self.path)) as reader:
            return reader.ledgers()

    def heads(self, key: LedgerKey = KEY) -> Mapping[TopicPartition, Head]:
        return self.ledgers()[key].heads

    def history(self, key: LedgerKey = KEY) -> list[tuple[TopicPartition, str, Any]]:
        with closing(SqliteLedgerReader(self.path)) as reader:
            return [(one.partition, one.verdict, one.gap) for one in reader.history(key)]
