"""A checkpoint as Spark writes it, and a SQLite store with its ledger, for tests of commands."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

from eo_listener.model.ledger import Entry, Head
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.offsets_json import write_offsets
from eo_listener.sinks.ledger_sql import LedgerSql

QUERY_ID = "0f8c2a11-0000-4000-8000-000000000000"
LEDGER = LedgerSql(placeholder="?", moment="text", schema="main", index_in_schema=True)
_BEGUN = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


class CheckpointFiles:
    """A checkpoint that a test plans and commits batches in."""

    def __init__(self, folder: Path, began: Mapping[TopicPartition, int]) -> None:
        self.folder = folder
        (folder / "offsets").mkdir(parents=True)
        (folder / "commits").mkdir()
        (folder / "sources" / "0").mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": QUERY_ID}))
        (folder / "sources" / "0" / "0").write_text("\0v1\n" + write_offsets(began))

    def plan(self, batch: int, ends: Mapping[TopicPartition, int]) -> None:
        """Write `offsets/N`."""
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1764000000000 + batch, "conf": {}}
        text = f"v1\n{json.dumps(metadata)}\n{write_offsets(ends)}"
        (self.folder / "offsets" / str(batch)).write_text(text)

    def commit(self, batch: int) -> None:
        """Write `commits/N`."""
        (self.folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


class StoreFile:
    """A SQLite file with a table of rows by source offset, and its ledger."""

    def __init__(self, path: Path, sink: str = "delays") -> None:
        self.path, self.sink = path, sink
        self._batches = 0
        with closing(self._connection()) as made:
            for statement in LEDGER.create():
                made.execute(statement)
            made.execute(f'CREATE TABLE {sink} (topic TEXT, "partition" INT, "offset" INT)')

    def apply(self, entry: Entry) -> dict[TopicPartition, Head]:
        """Write the rows and the ledger of a batch; returns its heads."""
        now = _BEGUN + timedelta(seconds=self._batches)
        self._batches += 1
        with closing(self._connection()) as link:
            rows = [
                (*tp, offset) for tp, move in entry.moves.items() for offset in range(*move.range)
            ]
            link.execute("BEGIN")
            link.executemany(f"INSERT INTO {self.sink} VALUES (?, ?, ?)", rows)
            for many in (
                LEDGER.insert(self.sink, entry, now),
                LEDGER.move(self.sink, entry, now),
                LEDGER.history(self.sink, entry, rows=len(rows), now=now),
            ):
                link.executemany(*many)
            link.execute("COMMIT")
        return {tp: entry.head(tp) for tp in entry.moves}

    def execute(self, statement: str) -> None:
        """Change something by hand."""
        with closing(self._connection()) as link:
            link.execute(statement)

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None)
