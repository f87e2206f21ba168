"""A store with transactions in memory: rows and ledgers of sinks, which outlive the sinks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from eo_listener.model.errors import SinkLockedError
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition

Ledger = dict[tuple[str, str], dict[TopicPartition, Head]]
"""The heads, by the sink's key and the query's name."""

KEPT = 1000  # entries of history, of each sink


class MemoryStore:
    """Rows, heads and history, by the sink's key; each changes with a transaction's commit alone.

    One transaction at a time can move heads: another waits for it `patience` seconds.
    """

    def __init__(self, *, patience: float = 5.0) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.heads: Ledger = {}
        self.history: dict[str, list[tuple[Entry, Applied]]] = {}
        self.patience = patience
        self.late: Transaction | None = None
        self.lock = threading.Lock()

    def begin(self) -> Transaction:
        """Begin a transaction."""
        return Transaction(self)

    def read(self, key: str, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads that are durable."""
        return dict(self.heads.get((key, query), {}))

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Read the heads that a query id has moved last, of each sink and query that has any."""
        found = {
            LedgerKey(*key): {tp: head for tp, head in heads.items() if head.query_id == query_id}
            for key, heads in self.heads.items()
        }
        return {key: heads for key, heads in found.items() if heads}


class Transaction:
    """Changes that take effect together, at `commit`, or never."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: list[tuple[str, Any]] = []
        self._moved: Ledger = {}
        self._recorded: list[tuple[str, Entry, Applied]] = []
        self._locked = False

    def insert(self, key: str, rows: Iterable[Any]) -> int:
        """Add rows, and say how many."""
        before = len(self._rows)
        self._rows.extend((key, row) for row in rows)
        return len(self._rows) - before

    def move(self, key: str, query: str, tp: TopicPartition, found: Head | None, head: Head) -> int:
        """Set a head where it is still as it was `found`; says how many heads were set: 0 or 1.

        From here to its end no other transaction moves any. Raises SinkLockedError.
        """
        self._wait_for_lock()
        held = self._store.heads.get((key, query), {})
        moved = self._moved.setdefault((key, query), {})
        if moved.get(tp, held.get(tp)) != found:
            return 0
        moved[tp] = head
        return 1

    def record(self, key: str, entry: Entry, applied: Applied) -> None:
        """Add to the history."""
        self._recorded.append((key, entry, applied))

    def commit(self) -> None:
        """Let all of it take effect."""
        for key, row in self._rows:
            self._store.rows.setdefault(key, []).append(row)
        for where, heads in self._moved.items():
            self._store.heads.setdefault(where, {}).update(heads)
        for key, entry, applied in self._recorded:
            history = self._store.history.setdefault(key, [])
            history.append((entry, applied))
            del history[:-KEPT]
        self.rollback()

    def commit_late(self) -> None:
        """Let it take effect when the next transaction wants to move a head."""
        self._store.late = self

    def rollback(self) -> None:
        """Give up what has not taken effect."""
        self._rows, self._moved, self._recorded = [], {}, []
        if self._locked:
            self._locked = False
            self._store.lock.release()

    def _wait_for_lock(self) -> None:
        if self._locked:
            return
        late, self._store.late = self._store.late, None
        if late is not None:
            late.commit()
        if not self._store.lock.acquire(timeout=self._store.patience):
            raise SinkLockedError(
                "another transaction of the store in memory has not ended in "
                f"{self._store.patience:g} s",
                fix="End it, or wait for longer",
            )
        self._locked = True
