"""A SQLite file with a ledger, for tests of commands that read or repair one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from eo_listener.model.ledger import Entry, Head, LedgerKey, StoredLedger, TableRollback
from eo_listener.offsets import TopicPartition
from eo_listener.sinks.ledger_sql import LedgerSql
from eo_listener.sinks.sqlite.ledger_reader import SqliteLedgerReader
from eo_listener.testing.made_up_entries import QUERY

KEY = LedgerKey("delays", QUERY)
LEDGER = LedgerSql(placeholder="?", moment="text", schema="main", index_in_schema=True)
BACK = TableRollback("version 7 restored the table", "RESTORE TABLE t TO VERSION AS OF 6")
_BEGUN = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


class Store:
    """A SQLite file with the table delays of rows by source offset, and its ledger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = f"sqlite:{path}"
        self._batches = 0
        for statement in LEDGER.create():
            self.execute(statement)
        self.execute('CREATE TABLE delays (topic TEXT, "partition" INT, "offset" INT)')

    def write(self, entry: Entry) -> dict[TopicPartition, Head]:
        """Write the rows and the ledger of a batch, a minute after the one before: its heads."""
        now = _BEGUN + timedelta(minutes=self._batches)
        self._batches += 1
        rows = [(*tp, offset) for tp, move in entry.moves.items() for offset in range(*move.range)]
        with closing(sqlite3.connect(self.path)) as made:
            made.executemany("INSERT INTO delays VALUES (?, ?, ?)", rows)
            for many in (LEDGER.insert(KEY.sink, entry, now), LEDGER.move(KEY.sink, entry, now)):
                made.executemany(*many)
            made.executemany(*LEDGER.history(KEY.sink, entry, rows=len(rows), now=now))
            made.commit()
        return {tp: entry.head(tp) for tp in entry.moves}

    def execute(self, statement: str, *values: Any) -> None:
        """Change something by hand."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as made:
            made.execute(statement, *values)

    def ledgers(self) -> Mapping[LedgerKey, StoredLedger]:
        with closing(SqliteLedgerReader(self.path)) as reader:
            return reader.ledgers()

    def heads(self, key: LedgerKey = KEY) -> Mapping[TopicPartition, Head]:
        return self.ledgers()[key].heads

    def history(self, key: LedgerKey = KEY) -> list[tuple[TopicPartition, str, Any]]:
        with closing(SqliteLedgerReader(self.path)) as reader:
            return [(one.partition, one.verdict, one.gap) for one in reader.history(key)]
