"""A sink in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from eo_listener.model.errors import (
    ForeignWriterError,
    OutcomeUnknownError,
    RetriableSinkError,
    SinkError,
    SinkLockedError,
)
from eo_listener.model.fault_points import reached
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.testing.memory_store import MemoryStore, Transaction


class SinkFault(Enum):
    """What befalls one transaction."""

    REFUSED = "the store refuses it"
    TRY_AGAIN = "a conflict that repeating it solves"
    BUSY = "somebody holds the lock for too long"
    LOST = "the connection is lost, and nothing was committed"
    ANSWER_LOST = "it is committed, and its answer is lost"
    LATE = "the connection is lost, and it is committed a moment later"


class MemorySink:
    """A `Sink` that keeps rows and ledger in a `MemoryStore`, moved together.

    A frame is a DataFrame, or any iterable of rows. With `per_partition` each row says where it
    comes from, as `row["topic"]` and `row["partition"]`. Each element of `faults` meets one
    transaction, the first the first, None none; the next `unreadable` reads fail.
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
        """The name for people."""
        return f"memory {self._key}"

    @property
    def key(self) -> str:
        """The name in the ledger."""
        return self._key

    @property
    def per_partition(self) -> bool:
        """Whether each partition has a transaction of its own."""
        return self._per_partition

    @property
    def rows(self) -> list[Any]:
        """The rows that are durable."""
        return list(self.store.rows.get(self._key, ()))

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        """Read the heads."""
        if self.unreadable:
            self.unreadable -= 1
            raise SinkError(f"{self.label} cannot be read")
        return self.store.read(self._key, query)

    def moved_by(self, query_id: str) -> Mapping[LedgerKey, Mapping[TopicPartition, Head]] | None:
        """Read what a query id has moved."""
        return self.store.moved_by(query_id)

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:  # noqa: ARG002  # the protocol's
        """Write the rows and the entry, in one transaction or one a partition."""
        rows = frame.collect() if hasattr(frame, "collect") else list(frame)
        if not self._per_partition:
            return self._transact(rows, entry)
        written = 0
        for tp, move in entry.moves.items():
            own = [row for row in rows if (row["topic"], row["partition"]) == tp]
            written += self._transact(own, replace(entry, moves={tp: move})).rows
        return Applied(rows=written)

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def _transact(self, rows: list[Any], entry: Entry) -> Applied:
        fault = self.faults.popleft() if self.faults else None
        reached("sink.begun")
        transaction = self.store.begin()
        try:
            written = Applied(rows=transaction.insert(self._key, rows))
            reached("sink.rows-written")
            self._move(transaction, entry)
            transaction.record(self._key, entry, written)
            reached("sink.ledger-moved")
            self._commit(transaction, fault)
        except BaseException:  # a killed driver's too: nothing of it may stay
            if self.store.late is not transaction:
                transaction.rollback()
            raise
        reached("sink.committed")
        return written

    def _move(self, transaction: Transaction, entry: Entry) -> None:
        for tp, move in entry.moves.items():
            moved = transaction.move(self._key, entry.query, tp, move.found, entry.head(tp))
            if moved != 1:
                raise ForeignWriterError(
                    f"the ledger of {self.label} was moved by another driver, at {tp}",
                    ranges={tp: one.span for tp, one in entry.moves.items()},
                    cause="a second driver runs this query, or this one has a successor",
                    fix="Stop all drivers of the query but one, and restart it",
                )

    def _commit(self, transaction: Transaction, fault: SinkFault | None) -> None:
        match fault:
            case SinkFault.REFUSED:
                raise SinkError(f"{self.label} refuses the batch")
            case SinkFault.TRY_AGAIN:
                raise RetriableSinkError(f"{self.label}: {fault.value}")
            case SinkFault.BUSY:
                raise SinkLockedError(f"{self.label}: {fault.value}")
        reached("sink.commit-sent")
        if fault is SinkFault.LATE:
            transaction.commit_late()
        elif fault is not SinkFault.LOST:
            transaction.commit()
        if fault is not None:
            raise OutcomeUnknownError(f"{self.label}: {fault.value}")
