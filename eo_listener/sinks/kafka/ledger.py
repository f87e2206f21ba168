"""The format of the ledger in a compacted topic, and the settings of that topic. No I/O.

Format 1. Each record has the heads of a fixed range of PER_RECORD partitions of one topic: 0 to
499, 500 to 999, and so on. So no head moves to another record when a topic gets a partition. The
heads of 10,000 partitions fill 20 records, each of which fits Kafka's default message size. All
records of a sink and query are in one partition of the ledger's topic, the partition of their first
record. So most open transactions of other queries do not block a read of these records.

An unreadable record stops only the query to which it may belong.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar
from zlib import crc32

from eo_listener.client_config.admin_commands import alter_topic
from eo_listener.errors import FormatError, SettingsError
from eo_listener.model.ledger import (
    FORMAT,
    GAP_ACCEPTED,
    UNKNOWN_TIME,
    AppliedBatch,
    BatchVerdict,
    Entry,
    Head,
    LedgerKey,
)
from eo_listener.offsets import OffsetRange, TopicPartition
from eo_listener.sinks.ledger_text import Heads, Movers, read_row

_Record = TypeVar("_Record")

PER_RECORD: Final = 500
SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Each batch appends its heads: without these settings, each start reads a log of a week.
    "segment.bytes": str(32 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}

Ranges = Mapping[TopicPartition, OffsetRange]


class BatchKey(NamedTuple):
    """The key of the records of the batches that a run writes without transactions.

    Each run has its own key, so that a driver that was replaced and still runs does not overwrite
    the records of its successor.
    """

    sink: str
    query: str
    run: str

    def encode(self) -> bytes:
        """Return the key as Kafka stores it: JSON."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True)
class TargetEnds:
    """The log ends of a target topic's partitions; `id` is the topic's id, or None if unknown."""

    id: str | None
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch that a sink without transactions has begun or, if `size` is set, applied.

    A run has one such record for each sink and query. The sink writes the record before a batch's
    first row, and again once Kafka has acknowledged every row. The second version is the batch's
    commit: it holds the new heads of `moves`, until a later batch writes these into the records of
    heads.
    """

    #: Counts the batches of a sink and query, from 1.
    number: int
    query_id: str
    run_id: str
    batch_id: int
    #: The columns that identify rows.
    identity: tuple[str, ...]
    #: The ranges of the batch.
    moves: Ranges
    #: The ids of the topics of all these ranges, by name: a recreated topic has another id.
    topic_ids: Mapping[str, str | None]
    #: The ranges that were begun under this number and are not applied. They are more than `moves`
    #: if another checkpoint planned a shorter batch in place of an unfinished one.
    remaining: Ranges
    #: The ends of the targets before the first row with this number.
    since: Mapping[str, TargetEnds]
    #: The number of offsets after these ends, once all rows are written; None until then.
    size: int | None = None
    #: How many of these offsets are rows with this number, or None if that is not recorded.
    rows: int | None = None

    @property
    def is_finished(self) -> bool:
        """True if the batch is applied, and no range of an earlier, unfinished batch remains."""
        return self.size is not None and not self.remaining

    def heads(self) -> dict[TopicPartition, Head]:
        """Return the heads that the batch has moved; empty if the batch was only begun."""
        if self.size is None:
            return {}
        return {
            tp: Head(
                range=offsets,
                topic_id=self.topic_ids[tp.topic],
                query_id=self.query_id,
                run_id=self.run_id,
                batch_id=self.batch_id,
            )
            for tp, offsets in self.moves.items()
        }

    def target_ids(self) -> dict[str, str]:
        """Return the known ids of the target's topics, by name."""
        return {name: target.id for name, target in self.since.items() if target.id is not None}

    def encode(self) -> bytes:
        """Return the value as Kafka stores it: JSON."""
        return encoded(
            {
                "v": FORMAT,
                "number": self.number,
                "moved": [self.query_id, self.run_id, self.batch_id],
                "id": list(self.identity),
                "moves": self._topics(self.moves),
                "left": self._topics(self.remaining),
                "since": [
                    [name, target.id, sorted(target.ends.items())]
                    for name, target in self.since.items()
                ],
                "size": self.size,
                "rows": self.rows,
            }
        )

    def _topics(self, ranges: Ranges) -> list[list[Any]]:
        return [[name, self.topic_ids[name], rows] for name, rows in _by_topic(ranges).items()]

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> BatchRecord:
        """Make a BatchRecord from a parsed value. Raises FormatError."""
        with _reading("a batch"):
            query_id, run_id, batch_id = document["moved"]
            return cls(
                number=document["number"],
                query_id=query_id,
                run_id=run_id,
                batch_id=batch_id,
                identity=tuple(document["id"]),
                moves=_ranges((name, rows) for name, _, rows in document["moves"]),
                topic_ids={
                    name: topic_id for name, topic_id, _ in (*document["moves"], *document["left"])
                },
                remaining=_ranges((name, rows) for name, _, rows in document["left"]),
                since={
                    name: TargetEnds(topic_id, dict(ends))
                    for name, topic_id, ends in document["since"]
                },
                size=document["size"],
                rows=document["rows"],
            )


def newest(records: Iterable[BatchRecord]) -> BatchRecord | None:
    """Return the record with the highest batch number, preferably an applied one, or None.

    If several runs began a batch with this number, the returned record has the lowest of their
    stored ends. Nobody knows whose rows came first, and reading more of a log than necessary does
    no harm.
    """
    in_order = sorted(records, key=lambda record: (record.number, record.size is not None))
    if not in_order:
        return None
    last = in_order[-1]
    if last.size is None:
        for earlier in in_order[:-1]:
            if earlier.number == last.number:
                last = replace(
                    last,
                    since=_lowest(last.since, earlier.since),
                    remaining={**earlier.remaining, **last.remaining},
                    topic_ids={**earlier.topic_ids, **last.topic_ids},
                )
    return last


def _lowest(
    first: Mapping[str, TargetEnds], second: Mapping[str, TargetEnds]
) -> dict[str, TargetEnds]:
    both = {**second, **first}
    for name in first.keys() & second.keys():
        if first[name].id == second[name].id:
            ends, second_ends = first[name].ends, second[name].ends
            lower = {at: min(ends[at], second_ends[at]) for at in ends.keys() & second_ends.keys()}
            both[name] = TargetEnds(first[name].id, lower)
    return both


def _by_topic(ranges: Ranges) -> dict[str, list[list[int]]]:
    rows: defaultdict[str, list[list[int]]] = defaultdict(list)
    for tp, offsets in sorted(ranges.items()):
        rows[tp.topic].append([tp.partition, *offsets])
    return rows


def _ranges(topics: Iterable[tuple[str, list[list[int]]]]) -> dict[TopicPartition, OffsetRange]:
    return {
        TopicPartition(name, number): OffsetRange(start, until)
        for name, rows in topics
        for number, start, until in rows
    }


class RepairKey(NamedTuple):
    """The key of a repair's record; `repair` is a different text for each record."""

    sink: str
    query: str
    repair: str

    def encode(self) -> bytes:
        """Return the key as Kafka stores it: JSON."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRecord:
    """At most PER_RECORD heads of `topic` before a repair, and the change that the repair made.

    The ledger's topic has heads, but no history of batches; records of repairs are its only
    history.

    If `gap` is set, the repair moved the next offset past this gap, and `run_id` stands for the
    repair in the head; otherwise the repair renamed the ledger, as `verdict` describes. `at` is the
    time, in ISO 8601.
    """

    topic: str
    heads: Heads
    run_id: str
    verdict: str
    gap: OffsetRange | None
    at: str

    def encode(self) -> bytes:
        """Return the value as Kafka stores it: JSON."""
        movers = Movers()
        rows = [movers.row(tp, head) for tp, head in sorted(self.heads.items())]
        return encoded(
            {
                "v": FORMAT,
                "topic": self.topic,
                "moved": movers.listed,
                "heads": rows,
                "run": self.run_id,
                "verdict": self.verdict,
                "gap": self.gap,
                "at": self.at,
            }
        )

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> RepairRecord:
        """Make a RepairRecord from a parsed value. Raises FormatError."""
        with _reading("a repair"):
            topic, gap = document["topic"], document["gap"]
            return cls(
                topic=topic,
                heads=dict(read_row(topic, row, document["moved"]) for row in document["heads"]),
                run_id=document["run"],
                verdict=document["verdict"],
                gap=None if gap is None else OffsetRange(*gap),
                at=document["at"],
            )

    def applied(self) -> Iterator[AppliedBatch]:
        """Yield, for each partition, the head before the repair and the head after it."""
        for tp, head in self.heads.items():
            yield AppliedBatch(
                partition=tp,
                head=head,
                rows=None,
                verdict=BatchVerdict.NEXT.value,
                gap=None,
                applied_at=UNKNOWN_TIME,
            )
            offset = head.range.until if self.gap is None else self.gap.until
            run_id = head.run_id if self.gap is None else self.run_id
            yield AppliedBatch(
                partition=tp,
                head=replace(head, range=OffsetRange(offset, offset), run_id=run_id),
                rows=0,
                verdict=self.verdict if self.gap is None else GAP_ACCEPTED,
                gap=self.gap,
                applied_at=self.at,
            )


def history_of(repairs: Iterable[RepairRecord]) -> list[AppliedBatch]:
    """Return the heads that repairs read and wrote, sorted by partition, then by offset.

    A head that one repair wrote and the next repair read is in the list only once.
    """
    history: list[AppliedBatch] = []
    listed: set[tuple[TopicPartition, Head]] = set()
    for repair in sorted(repairs, key=lambda repair: repair.at):
        for batch in repair.applied():
            place = (batch.partition, batch.head)
            if batch.applied_at != UNKNOWN_TIME or place not in listed:
                history.append(batch)
            listed.add(place)
    return sorted(history, key=lambda batch: (batch.partition, batch.head.range.until))


class RecordKey(NamedTuple):
    """The key of a record with the heads of PER_RECORD partitions of `topic`.

    `first` is the lowest of these partitions.
    """

    sink: str
    query: str
    topic: str
    first: int

    def encode(self) -> bytes:
        """Return the key as Kafka stores it: JSON."""
        return encoded({"v": FORMAT, **self._asdict()})


AnyKey = RecordKey | BatchKey | RepairKey


def decode_key(text: bytes) -> AnyKey:
    """Decode the key of any record. Raises FormatError for a key that no ledger has written."""
    document = _parsed(text)
    values = {name: value for name, value in document.items() if name != "v"}
    for kind in (RecordKey, BatchKey, RepairKey):
        if values.keys() == set(kind._fields) and all(
            isinstance(value, int if name == "first" else str) for name, value in values.items()
        ):
            return kind(**values)
    raise _foreign(f"a key has the parts {', '.join(document)}")


class LedgerRecord(NamedTuple):
    """An encoded record to write to the ledger's topic."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class HeadsRecord:
    """Heads of one source topic, and the ids, by name, of the topics that got the rows."""

    heads: Heads
    targets: Mapping[str, str]

    def encode(self) -> bytes:
        """Return the value as Kafka stores it: JSON, in which each mover occurs once."""
        movers = Movers()
        rows = [movers.row(tp, head) for tp, head in sorted(self.heads.items())]
        return encoded(
            {"v": FORMAT, "moved": movers.listed, "heads": rows, "targets": dict(self.targets)}
        )

    @classmethod
    def decode(cls, topic: str, document: Mapping[str, Any]) -> HeadsRecord:
        """Make a HeadsRecord from a parsed value. Raises FormatError."""
        with _reading("a value"):
            return cls(
                dict(read_row(topic, row, document["moved"]) for row in document["heads"]),
                {str(name): str(topic_id) for name, topic_id in document["targets"].items()},
            )


@dataclass(frozen=True, slots=True)
class DecodedRecord(Generic[_Record]):
    """A record that was read, and its partition in the ledger's topic."""

    record: _Record
    partition: int


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that is not of format 1: its value, its partition and the error."""

    value: bytes
    partition: int
    error: FormatError


@dataclass(frozen=True, slots=True)
class LedgerRecords:
    """The newest record of each key in the ledger's topic, at one moment."""

    records: Mapping[RecordKey, DecodedRecord[HeadsRecord]]
    batches: Mapping[BatchKey, DecodedRecord[BatchRecord]] = field(default_factory=dict)
    repairs: Mapping[RepairKey, DecodedRecord[RepairRecord]] = field(default_factory=dict)
    unreadable: Mapping[bytes, UnreadableRecord] = field(default_factory=dict)

    def heads(self, sink: str, query: str) -> dict[TopicPartition, Head]:
        """Return all heads of a sink and query.

        Raises FormatError if an unreadable record has, or may have, some of these heads.
        """
        for text, record in self.unreadable.items():
            if owner(text) == (sink, query) or _hides_owner(text):
                raise record.error
        batch = self.batch(sink, query)
        return self.written_heads(sink, query) | ({} if batch is None else batch.heads())

    def written_heads(self, sink: str, query: str) -> dict[TopicPartition, Head]:
        """Return the heads in the records of heads, which may lack the moves of the last batch."""
        return {
            tp: head
            for stored in self._records_of(sink, query)
            for tp, head in stored.record.heads.items()
        }

    def batch(self, sink: str, query: str) -> BatchRecord | None:
        """Return the last batch that was begun without transactions, or None if there is none."""
        return newest(self.batches[key].record for key in self.batch_keys(sink, query))

    def batch_keys(self, sink: str, query: str) -> list[BatchKey]:
        """Return the keys of all runs that have begun batches without transactions."""
        return [key for key in self.batches if key[:2] == (sink, query)]

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return all heads, of any sink and query, whose last move was by the query id `query_id`.

        Raises FormatError if a record with this id is unreadable.
        """
        may_name = concerns_mover(query_id)
        for text, unreadable in self.unreadable.items():
            if may_name(text, unreadable.value):
                raise unreadable.error
        heads: defaultdict[LedgerKey, dict[TopicPartition, Head]] = defaultdict(dict)
        for key, stored in self.records.items():
            heads[LedgerKey(key.sink, key.query)].update(stored.record.heads)
        for owner in {LedgerKey(key.sink, key.query) for key in self.batches}:
            batch = self.batch(*owner)
            heads[owner].update({} if batch is None else batch.heads())
        moved_heads: defaultdict[LedgerKey, dict[TopicPartition, Head]] = defaultdict(dict)
        for owner, owned in heads.items():
            for tp, head in owned.items():
                if head.query_id == query_id:
                    moved_heads[owner][tp] = head
        return moved_heads

    def targets(self, sink: str, query: str) -> dict[str, str]:
        """Return the ids, by topic name, of the topics that hold the rows recorded in the heads."""
        topic_ids: dict[str, str] = {}
        for stored in self._records_of(sink, query):
            topic_ids.update(stored.record.targets)
        batch = self.batch(sink, query)
        if batch is not None and (batch.is_finished or batch.number > 1):
            topic_ids.update(batch.target_ids())
        return topic_ids

    def partition(self, sink: str, query: str, partitions: int) -> int:
        """Choose one of the `partitions` of the ledger's topic for a sink and query.

        The result is the partition that has their records. If they have no record yet, the CRC-32
        of both names decides.
        """
        for stored in self._records_of(sink, query):
            return stored.partition
        for key in self.batch_keys(sink, query):
            return self.batches[key].partition
        return crc32(encoded([sink, query])) % partitions

    def _records_of(self, sink: str, query: str) -> Iterator[DecodedRecord[HeadsRecord]]:
        return (stored for key, stored in self.records.items() if key[:2] == (sink, query))


def records_of(
    sink: str, entry: Entry, before: Heads, targets: Mapping[str, str], *, complete: bool = False
) -> Iterator[LedgerRecord]:
    """Yield the records that `entry` changes; `before` are all heads of its sink and query.

    `targets` are the ids, by name, of the topics to which the entry's rows go. With `complete`,
    yield the records of all heads.
    """
    heads = {tp: entry.head(tp) for tp in entry.moves}
    return records_of_heads(
        sink, entry.query, {**before, **heads} if complete else heads, before, targets
    )


def records_of_heads(
    sink: str, query: str, heads: Heads, before: Heads, targets: Mapping[str, str]
) -> Iterator[LedgerRecord]:
    """Yield the records that `heads` change; the other arguments are as in `records_of`."""
    changed: defaultdict[RecordKey, dict[TopicPartition, Head]] = defaultdict(dict)
    for tp, head in heads.items():
        changed[_key(sink, query, tp)][tp] = head
    for tp, head in before.items():
        key = _key(sink, query, tp)
        if key in changed:
            changed[key].setdefault(tp, head)
    for key, key_heads in changed.items():
        yield LedgerRecord(key.encode(), HeadsRecord(key_heads, targets).encode())


class Decoder:
    """Decodes the records of each reading of a topic.

    If a record has not changed since the previous reading, the decoder reuses the decoded record.
    """

    def __init__(self) -> None:
        self._cache: dict[
            bytes, tuple[bytes, AnyKey | bytes, DecodedRecord[Any] | UnreadableRecord]
        ] = {}

    def decode(self, values: Mapping[bytes, tuple[bytes, int]]) -> LedgerRecords:
        """Decode `values`, which map each key to its value and partition."""
        cache, self._cache = self._cache, {}
        kinds: dict[type, dict[Any, Any]] = {
            kind: {} for kind in (RecordKey, BatchKey, RepairKey, bytes)
        }
        for key, (value, partition) in values.items():
            cached = cache.get(key)
            if cached is None or cached[0] != value or cached[2].partition != partition:
                cached = value, *_decode(key, value, partition)
            self._cache[key] = cached
            _, record_key, record = cached
            kinds[type(record_key)][record_key] = record
        return LedgerRecords(*kinds.values())


def _decode(
    key: bytes, value: bytes, partition: int
) -> tuple[AnyKey | bytes, DecodedRecord[Any] | UnreadableRecord]:
    """Return a record with its decoded key, or with the raw key if the record is unreadable."""
    try:
        record_key, document = decode_key(key), _parsed(value)
        record: HeadsRecord | BatchRecord | RepairRecord
        if isinstance(record_key, BatchKey):
            record = BatchRecord.decode(document)
        elif isinstance(record_key, RepairKey):
            record = RepairRecord.decode(document)
        else:
            record = HeadsRecord.decode(record_key.topic, document)
    except FormatError as error:
        return key, UnreadableRecord(value, partition, error)
    return record_key, DecodedRecord(record, partition)


def owner(text: bytes) -> LedgerKey | None:
    """Return the sink and query in a record's key of any format, or None if the key lacks them."""
    document = _json(text)
    if not isinstance(document, dict):
        return None
    sink, query = document.get("sink"), document.get("query")
    return LedgerKey(sink, query) if isinstance(sink, str) and isinstance(query, str) else None


def _hides_owner(key: bytes) -> bool:
    """Return True if `key` has another format, which does not show its sink and query."""
    document = _json(key)
    return isinstance(document, dict) and document.get("v", FORMAT) != FORMAT and owner(key) is None


def concerns(sink: str, query: str) -> Callable[[bytes, bytes | None], bool]:
    """Return a function that returns True for the key and value of this ledger's records."""
    return lambda key, _: owner(key) == (sink, query)


def concerns_mover(query_id: str) -> Callable[[bytes, bytes | None], bool]:
    """Return a function that returns True if a record may have a head that this query id moved."""
    quoted = encoded(query_id)
    return lambda _, value: value is not None and quoted in value


def refuse_policy(topic: str, policy: str, servers: str) -> None:
    """Raise SettingsError unless Kafka compacts the topic and deletes nothing by age or size."""
    if policy == "compact":
        return
    raise SettingsError(
        f"the ledger's topic {topic} has cleanup.policy={policy}",
        cause="with delete, Kafka deletes old heads although they are still valid",
        fix=alter_topic(servers, topic, "cleanup.policy=compact")
        + "; or name another topic with ledger_topic=",
    )


def encoded(value: object) -> bytes:
    """Return `value` as JSON for the ledger's topic: the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _key(sink: str, query: str, tp: TopicPartition) -> RecordKey:
    return RecordKey(sink, query, tp.topic, tp.partition - tp.partition % PER_RECORD)


def _json(text: bytes) -> Any:
    """Parse JSON; return None if `text` is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parsed(text: bytes) -> dict[str, Any]:
    document = _json(text)
    if document is None:
        raise _foreign("a record is not JSON")
    if not isinstance(document, dict) or document.get("v") != FORMAT:
        raise _foreign(f"a record does not have format {FORMAT}")
    return document


@contextmanager
def _reading(part: str) -> Iterator[None]:
    """Raise FormatError if decoding a `part` of a parsed record fails."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _foreign(f"{part} cannot be read: {type(error).__name__}") from error


def _foreign(detail: str) -> FormatError:
    return FormatError(
        f"the ledger's topic holds something other than a ledger of format {FORMAT}: {detail}",
        cause="another program writes to this topic, or a newer release of eo_listener has "
        "written to it",
        fix="Give the ledger its own topic (ledger_topic=), or use that release",
    )
