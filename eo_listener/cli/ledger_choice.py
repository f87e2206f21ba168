"""Which ledgers of a store are those of the query that is audited, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from eo_listener.audit.evidence import AppliedRange
from eo_listener.audit.history import read_history
from eo_listener.audit.intervals import Intervals, union, without
from eo_listener.audit.positions import CheckpointPositions, LedgerPositions, StorePositions
from eo_listener.model.counted_sources import BATCHES
from eo_listener.model.ledger import LedgerKey, StoredLedger
from eo_listener.model.protocols import LedgerReader
from eo_listener.offsets import OffsetRange, TopicPartition

_Ledgers = Mapping[LedgerKey, StoredLedger]
_UNKNOWN: Final[Mapping[str, str | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """By the names that were given; without a `query`, by the checkpoint's id or its partitions."""

    query: str | None
    sink: str | None
    checkpoint: CheckpointPositions | None

    def read(self, reader: LedgerReader) -> StorePositions:
        """Read a store. Raises what the reader does."""
        every = reader.ledgers()
        chosen = self.chosen(every)
        moved = self._moved(every)
        return StorePositions(
            store=reader.label,
            ledgers=tuple(positions(reader, every[key]) for key in sorted(chosen)),
            other_keys=tuple(sorted(every.keys() - chosen)),
            renamed=tuple(sorted(moved - chosen)),
        )

    def chosen(self, every: _Ledgers) -> set[LedgerKey]:
        """The keys of the query that is meant."""
        keys = {key for key in every if self.sink is None or key.sink == self.sink}
        if self.query is not None:
            return {key for key in keys if key.query == self.query}
        if self.checkpoint is None or not self.checkpoint.exists:
            return keys
        moved = self._newest(every, keys & self._moved(every))
        if moved:
            return moved
        read = self.checkpoint.ahead.keys() | self.checkpoint.done.keys()
        reading = {key for key in keys if every[key].heads.keys() & read}
        # Of a table that was taken back to before its first batch nothing says whose it is.
        emptied = {key for key in keys if every[key].taken_back and not every[key].heads}
        return reading or (emptied if len(emptied) == 1 else set())

    def _moved(self, every: _Ledgers) -> set[LedgerKey]:
        """Keys of which the checkpoint's query has moved a head last."""
        own = None if self.checkpoint is None else self.checkpoint.query_id
        return {
            key
            for key, ledger in every.items()
            if any(head.query_id == own for head in ledger.heads.values())
        }

    def _newest(self, every: _Ledgers, moved: set[LedgerKey]) -> set[LedgerKey]:
        """Of each sink the key that has the newest batch: the query may have been renamed.

        A query that runs on a copy of the checkpoint has the same id. So if exactly one ledger
        stands at the checkpoint's newest batch, or at the next one, that ledger is meant.
        """
        last = -1 if self.checkpoint is None else self.checkpoint.newest
        newest = set()
        for sink in {key.sink for key in moved}:
            keys = sorted(key for key in moved if key.sink == sink)
            fit = [key for key in keys if _batch(every[key]) in (last, last + 1)]
            rest = fit if len(fit) == 1 else keys
            newest.add(max(rest, key=lambda key: _batch(every[key])))
        return newest


def positions(reader: LedgerReader, ledger: StoredLedger) -> LedgerPositions:
    """A ledger and its history."""
    history = read_history(reader.history(ledger.key), ledger.heads, newest=ledger.newest_only)
    return LedgerPositions(
        store=reader.label,
        key=ledger.key,
        heads=ledger.heads,
        began=history.began,
        gaps={tp: tuple(ranges) for tp, ranges in history.gaps.items()},
        missing={tp: tuple(ranges) for tp, ranges in history.missing.items()},
        repeated={tp: tuple(ranges) for tp, ranges in history.repeated.items()},
        begun=ledger.begun,
        taken_back=ledger.taken_back,
        targets=ledger.targets,
        replaced=ledger.replaced,
    )


def claims(
    reader: LedgerReader, sink: str, topic_ids: Mapping[str, str | None] = _UNKNOWN
) -> dict[TopicPartition, AppliedRange]:
    """Return the ranges that a sink's table must have, as `merged` describes, from its ledgers."""
    return merged(applied_ranges(reader, sink), topic_ids)


def applied_ranges(
    reader: LedgerReader, sink: str
) -> Iterator[tuple[TopicPartition, AppliedRange]]:
    """Yield what each query that writes to a sink's table has applied to it.

    If the history does not record a partition's beginning, it counts from 0, and nothing that is
    absent before the oldest batch of the history is certainly lost.
    """
    for key, ledger in reader.ledgers().items():
        if key.sink == sink:
            yield from _claims(reader, ledger)


def merged(
    ranges: Iterable[tuple[TopicPartition, AppliedRange]], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, AppliedRange]:
    """Merge the applied ranges of all queries; `topic_ids` are the topics' present ids."""
    by_partition: dict[TopicPartition, AppliedRange] = {}
    for tp, claim in ranges:
        now = topic_ids.get(tp.topic)
        by_partition[tp] = _both(by_partition[tp], claim, now) if tp in by_partition else claim
    return by_partition


def _claims(
    reader: LedgerReader, ledger: StoredLedger
) -> Iterator[tuple[TopicPartition, AppliedRange]]:
    history = read_history(reader.history(ledger.key), ledger.heads, newest=ledger.newest_only)
    for tp, head in ledger.heads.items():
        if tp != BATCHES:
            yield (
                tp,
                AppliedRange(
                    range=OffsetRange(history.began.get(tp, 0), head.range.until),
                    topic_id=head.topic_id,
                    gaps=tuple(history.gaps.get(tp, ())),
                    known_from=history.began.get(tp, history.oldest.get(tp, head.range.start)),
                    older={name: topic.range for name, topic in history.older.get(tp, {}).items()},
                ),
            )


def _both(first: AppliedRange, second: AppliedRange, now: str | None) -> AppliedRange:
    """Merge the applied ranges of two queries for one partition of a table; `now` is its topic's id
    in Kafka.

    Of two topics of the name the newer counts, as far as Kafka or a history shows which it is.
    Offsets that one query has given up count as given up if the other has not applied them. If the
    history of either begins later than its query, nothing below is certain.
    """
    by_kafka = now is not None and now in (first.topic_id, second.topic_id)
    is_newer = first.topic_id == now if by_kafka else second.topic_id in first.older
    if second.topic_id is not None and is_newer:
        first, second = second, first
    older = dict(first.older)
    for name, offsets in second.older.items():
        older[name] = _spanned(older.get(name, offsets), offsets)
    if None not in (first.topic_id, second.topic_id) and first.topic_id != second.topic_id:
        name = str(first.topic_id)
        for offsets in first.ranges:
            older[name] = _spanned(older.get(name, offsets), offsets)
        return replace(second, older=older)
    applied = union((*_applied(first), *_applied(second)))
    return AppliedRange(
        range=second.range,
        topic_id=second.topic_id,
        gaps=without(union((*first.gaps, *second.gaps)), applied),
        known_from=max(first.known_from, second.known_from),
        older=older,
        beside=(*first.ranges, *second.beside),
    )


def _applied(applied: AppliedRange) -> Intervals:
    return without(union(applied.ranges), union(applied.gaps))


def _spanned(first: OffsetRange, second: OffsetRange) -> OffsetRange:
    return OffsetRange(min(first.start, second.start), max(first.until, second.until))


def _batch(ledger: StoredLedger) -> int:
    return max(head.batch_id for head in ledger.heads.values())
