"""Sinks that are wrong on purpose, each in one way that a store's author may get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from eo_listener.errors import ForeignWriterError
from eo_listener.model.fault_points import fault_point
from eo_listener.model.ledger import Applied, Entry, Head, LedgerKey
from eo_listener.model.planned_batch import PlannedBatch
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.testing import MemorySink, MemoryStore, Transaction

Found: TypeAlias = "Head | None"


class Broken(MemorySink):
    """A right one, in steps that can be done wrong."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        rows = list(frame)
        transaction = self.store.begin()
        fault_point("sink.begun")
        try:
            self.insert(transaction, rows)
            fault_point("sink.rows-written")
            self.move(transaction, entry)
            fault_point("sink.ledger-moved")
            fault_point("sink.commit-sent")
            transaction.commit()
        except BaseException:
            self.undo(transaction)
            raise
        fault_point("sink.committed")
        return Applied(rows=len(rows))

    def insert(self, transaction: Transaction, rows: list[Any]) -> None:
        transaction.insert(self.key, rows)

    def move(self, transaction: Transaction, entry: Entry) -> None:
        for tp, move in entry.moves.items():
            if self.swap(transaction, entry, tp, move.expected) != 1:
                raise ForeignWriterError("moved")

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        return to.move(self.key, entry.query, tp, found, entry.head(tp))

    def undo(self, transaction: Transaction) -> None:
        transaction.rollback()

    def there(self, entry: Entry, tp: TopicPartition) -> Head | None:
        return self.store.read(self.key, entry.query).get(tp)


class LedgerOfItsOwn(Broken):
    """The rows are committed first, the ledger afterwards."""

    def insert(self, transaction: Transaction, rows: list[Any]) -> None:
        first = self.store.begin()
        first.insert(self.key, rows)
        first.commit()


class LedgerFirst(Broken):
    """The ledger is committed first, the rows afterwards."""

    def move(self, transaction: Transaction, entry: Entry) -> None:
        ledger = self.store.begin()
        try:
            super().move(ledger, entry)
            ledger.commit()
        except BaseException:
            ledger.rollback()
            raise


class NobodyCounts(Broken):
    """A compare-and-set whose row count is not checked."""

    def move(self, transaction: Transaction, entry: Entry) -> None:
        for tp, move in entry.moves.items():
            self.swap(transaction, entry, tp, move.expected)


class CountsTheLast(Broken):
    """The row count of the last head alone is checked."""

    def move(self, transaction: Transaction, entry: Entry) -> None:
        moved = 1
        for tp, move in entry.moves.items():
            moved = self.swap(transaction, entry, tp, move.expected)
        if moved != 1:
            raise ForeignWriterError("moved")


class ComparesNothing(Broken):
    """The head is set, whatever it was: the last writer wins."""

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        return super().swap(to, entry, tp, self.there(entry, tp))


class ComparesOffsets(Broken):
    """Only the offset is compared: an empty range, or another run's same range, goes through."""

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        there = self.there(entry, tp)
        same = found and there and found.range.until == there.range.until
        return super().swap(to, entry, tp, there if same else found)


class InsertsOver(Broken):
    """A head that must not exist yet is written over."""

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        return super().swap(to, entry, tp, found or self.there(entry, tp))


class NoRowsNoMove(Broken):
    """A batch without rows is not written down."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        return super().apply(frame, entry, plan) if list(frame) else Applied(rows=0)


class NoOffsetsNoMove(Broken):
    """An empty range is not written down."""

    def move(self, transaction: Transaction, entry: Entry) -> None:
        moves = {tp: one for tp, one in entry.moves.items() if one.verdict is not None}
        super().move(transaction, replace(entry, moves=moves))


class OneLedgerForAll(Broken):
    """The sinks of a store share their heads."""

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        return self.store.read("", query)

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        return to.move("", entry.query, tp, found, entry.head(tp))


class OneQueryForAll(Broken):
    """The queries of a sink share their heads."""

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        return self.store.read(self.key, "")

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        return to.move(self.key, "", tp, found, entry.head(tp))


class NeverUndoes(Broken):
    """After an error the transaction stays, and the next batch commits it too."""

    left: Transaction | None = None

    def insert(self, transaction: Transaction, rows: list[Any]) -> None:
        if self.left is not None:
            self.left.commit()
        super().insert(transaction, rows)

    def undo(self, transaction: Transaction) -> None:
        self.left = transaction


class RemembersInstead(Broken):
    """The heads are those that this process has moved, not those that are durable."""

    def __init__(self, store: MemoryStore, *, key: str) -> None:
        super().__init__(store, key=key)
        self.known: dict[TopicPartition, Head] = {}

    def applied(self, query: str) -> Mapping[TopicPartition, Head]:
        return {**super().applied(query), **(self.known if query == "flights" else {})}

    def move(self, transaction: Transaction, entry: Entry) -> None:
        super().move(transaction, entry)
        self.known.update({tp: entry.head(tp) for tp in entry.moves})


class DropsEqualRows(Broken):
    """A row that is there already is not written: at-least-once, hidden."""

    def insert(self, transaction: Transaction, rows: list[Any]) -> None:
        super().insert(transaction, [row for row in rows if row not in self.rows])


class SmallOffsets(Broken):
    """Offsets have 32 bits."""

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        head = entry.head(tp)
        cut = OffsetRange(head.range.start % 2**31, head.range.until % 2**31)
        return to.move(self.key, entry.query, tp, found, replace(head, range=cut))


class ForgetsTheTopicId(Broken):
    """The topic's id is not kept."""

    def swap(self, to: Transaction, entry: Entry, tp: TopicPartition, found: Found) -> int:
        head = replace(entry.head(tp), topic_id=None)
        return to.move(self.key, entry.query, tp, found, head)


class SwallowsRefusal(Broken):
    """A head that was moved is taken for a batch that is done."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        try:
            return super().apply(frame, entry, plan)
        except ForeignWriterError:
            return Applied(rows=0)


class CountsWrong(Broken):
    """It says that it has written nothing."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        super().apply(frame, entry, plan)
        return Applied(rows=0)


class WritesOneChunk(Broken):
    """What comes behind the first chunk is forgotten, and counted."""

    def insert(self, transaction: Transaction, rows: list[Any]) -> None:
        super().insert(transaction, rows[:10_000])


class DropsOtherHeads(Broken):
    """Only the partitions of the last batch keep a head."""

    def apply(self, frame: Any, entry: Entry, plan: PlannedBatch) -> Applied:
        applied = super().apply(frame, entry, plan)
        heads = self.store.heads[self.key, entry.query]
        for tp in set(heads) - set(entry.moves):
            del heads[tp]
        return applied


class KnowsItselfOnly(Broken):
    """What a query id has moved is sought in this sink alone."""

    def moved_by(self, query_id: str) -> dict[LedgerKey, Mapping[TopicPartition, Head]]:
        found = self.store.moved_by(query_id).items()
        return {key: heads for key, heads in found if key.sink == self.key}


class KnowsNoQueryId(Broken):
    """All heads count as those of the query id."""

    def moved_by(self, query_id: str) -> dict[LedgerKey, Mapping[TopicPartition, Head]]:
        return {LedgerKey(*key): heads for key, heads in self.store.heads.items()}


class ForgetsTheQueryId(Broken):
    """It says that the query id has moved nothing."""

    def moved_by(self, query_id: str) -> dict[LedgerKey, Mapping[TopicPartition, Head]]:
        return {}


BUGS = tuple(Broken.__subclasses__())
