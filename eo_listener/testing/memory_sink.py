"""A sink in memory, and the transactional store to which it writes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from eo_listener.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import TopicPartition

Ledger = dict[tuple[str, str], dict[TopicPartition, Head]]
"""The heads, by the sink's key and the query's name."""

KEPT = 1000  # entries of the history of each sink


class MemoryStore:
    """Rows, heads and history, by the sink's key. Only a transaction's commit changes them.

    Only one transaction at a time can move heads; the next transaction waits `lock_timeout` seconds
    at most.
    """

    def __init__(self, *, lock_timeout: float = 5.0) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.heads: Ledger = {}
        self.history: dict[str, list[tuple[Entry, Applied]]] = {}
        self.lock_timeout = lock_timeout
        self.late_commit: Transaction | None = None
        self.lock = threading.Lock()

    def begin(self) -> Transaction:
        """Begin a transaction."""
        return Transaction(self)

    def read(self, key: str, query: str) -> Mapping[TopicPartition, Head]:
        """Return the durable heads of a sink and query."""
        return dict(self.heads.get((key, query), {}))

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return the heads whose last move was by `query_id`, keyed by sink and query."""
        moved = {
            LedgerKey(*key): {tp: head for tp, head in heads.items() if head.query_id == query_id}
            for key, heads in self.heads.items()
        }
        return {key: heads for key, heads in moved.items() if heads}


class Transaction:
    """Changes that take effect together, at `commit`, or never."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: list[tuple[str, Any]] = []
        self._moved: Ledger = {}
        self._recorded: list[tuple[str, Entry, Applied]] = []
        self._locked = False

    def insert(self, key: str, rows: Iterable[Any]) -> int:
        """Add rows, and return their number."""
        before = len(self._rows)
        self._rows.extend((key, row) for row in rows)
        return len(self._rows) - before

    def move(
        self, key: str, query: str, tp: TopicPartition, expected: Head | None, head: Head
    ) -> int:
        """Set a head if the current head is `expected`; return the number of heads set, 0 or 1.

        From this call until the end of this transaction, no other transaction can move heads.
        Raises SinkLockedError.
        """
        self._wait_for_lock()
        heads = self._store.heads.get((key, query), {})
        moved = self._moved.setdefault((key, query), {})
        if moved.get(tp, heads.get(tp)) != expected:
            return 0
        moved[tp] = head
        return 1

    def record(self, key: str, entry: Entry, applied: Applied) -> None:
        """Add an entry to the history."""
        self._recorded.append((key, entry, applied))

    def commit(self) -> None:
        """Make all changes durable."""
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
        """Delay the commit until the next transaction moves a head."""
        self._store.late_commit = self

    def rollback(self) -> None:
        """Discard the changes that were not committed."""
        self._rows, self._moved, self._recorded = [], {}, []
        if self._locked:
            self._locked = False
            self._store.lock.release()

    def _wait_for_lock(self) -> None:
        if self._locked:
            return
        late, self._store.late_commit = self._store.late_commit, None
        if late is not None:
            late.commit()
        if not self._store.lock.acquire(timeout=self._store.lock_timeout):
            raise SinkLockedError(
                "another transaction of the in-memory store has not ended within "
                f"{self._store.lock_timeout:g} s",
                fix="End it, or wait longer",
            )
        self._locked = True


class SinkFault(Enum):
    """A fault that a test injects into one transaction."""

    REFUSED = "the store refuses it"
    TRY_AGAIN = "a conflict that a retry resolves"
    BUSY = "another connection holds the lock for too long"
    LOST = "the connection is lost, and nothing was committed"
    ANSWER_LOST = "it is committed, but its answer is lost"
    LATE = "the connection is lost, but it is committed a moment later"


class MemorySink:
    """A `Sink` that keeps rows and ledger in a `MemoryStore`, and changes both together.

    A frame is a DataFrame, or any iterable of rows. With `per_partition`, each row names its
    origin, as `row["topic"]` and `row["partition"]`. Each transaction takes its fault, or None for
    no fault, from the front of `faults`. The next `unreadable` reads of heads fail.
    """

    def __init__(
        self, store: MemoryStore | None = None, *, key: str = "rows", per_partition: bool = False
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.faults: deque[SinkFault | None] = deque()
        self.unreadable = 0
        self.closed = False
        self._key = key
        self._per_partition = per_partition

    @property
    def label(self) -> str:
        """The sink's name for display."""
        return f"memory {self._key}"

    @property
    def key(self) -> str:
        """The sink's name in the ledger."""
        return self._key

    @property
    def per_partition(self) -> bool:
        """True if each partition has a transaction of its own."""
        return self._per_partition

    @property
    def rows(self) -> list[Any]:
        """The durable rows."""
        return list(self.store.rows.get(self._key, ()))

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Return the durable heads of a query."""
        if self.unreadable:
            self.unreadable -= 1
            raise SinkError(f"{self.label} cannot be read")
        return self.store.read(self._key, query)

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]]:
        """Return the heads whose last move was by `query_id`, keyed by sink and query."""
        return self.store.moved_by(query_id)

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        """Write the rows and the entry, in one transaction, or in one for each partition."""
        rows = frame.collect() if hasattr(frame, "collect") else list(frame)
        if not self._per_partition or plan.counted is not None:
            return self._transact(rows, entry)
        written = 0
        for tp, move in entry.moves.items():
            own = [row for row in rows if (row["topic"], row["partition"]) == tp]
            written += self._transact(own, replace(entry, moves={tp: move})).rows or 0
        return Applied(rows=written)

    def close(self) -> None:
        """Record that the sink was closed."""
        self.closed = True

    def _transact(self, rows: list[Any], entry: Entry) -> Applied:
        fault = self.faults.popleft() if self.faults else None
        fault_point("sink.begun")
        transaction = self.store.begin()
        try:
            written = Applied(rows=transaction.insert(self._key, rows))
            fault_point("sink.rows-written")
            self._move(transaction, entry)
            transaction.record(self._key, entry, written)
            fault_point("sink.ledger-moved")
            self._commit(transaction, fault)
        except BaseException:  # a killed driver's changes must not stay either
            if self.store.late_commit is not transaction:
                transaction.rollback()
            raise
        fault_point("sink.committed")
        return written

    def _move(self, transaction: Transaction, entry: Entry) -> None:
        for tp, move in entry.moves.items():
            moved = transaction.move(self._key, entry.query, tp, move.expected, entry.head(tp))
            if moved != 1:
                raise ForeignWriterError(
                    f"another driver moved the ledger of {self.label}, at {tp}",
                    ranges={tp: move.range for tp, move in entry.moves.items()},
                    cause="a second driver runs this query, or this driver has a successor",
                    fix="Stop all drivers of the query but one, and restart the query",
                )

    def _commit(self, transaction: Transaction, fault: SinkFault | None) -> None:
        match fault:
            case SinkFault.REFUSED:
                raise SinkError(f"{self.label} refuses the batch")
            case SinkFault.TRY_AGAIN:
                raise RetriableSinkError(f"{self.label}: {fault.value}")
            case SinkFault.BUSY:
                raise SinkLockedError(f"{self.label}: {fault.value}")
        fault_point("sink.commit-sent")
        if fault is SinkFault.LATE:
            transaction.commit_late()
        elif fault is not SinkFault.LOST:
            transaction.commit()
        if fault is not None:
            raise OutcomeUnknownError(f"{self.label}: {fault.value}")
