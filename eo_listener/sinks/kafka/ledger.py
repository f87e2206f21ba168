"""The format of the ledger in a compacted topic, and the settings of that topic. No I/O.

Format 1. A record has the heads of PER_RECORD partitions of one topic, always the same ones: those
of 0 to 499, of 500 to 999, and so on. So a new partition moves no head from one record to another,
and the heads of 10,000 partitions are 20 records, each of which fits Kafka's default for the size
of a message. All records of a sink and query are in one partition of the topic, where their first
one is: so of other queries' transactions that stay open, most are not in the way.

A record that cannot be read stops the query that it may be of, and no other one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zlib import crc32

from eo_listener.client_config.topic_commands import alter_topic
from eo_listener.model.errors import FormatError, SettingsError
from eo_listener.model.ledger import FORMAT, Entry, Head, LedgerKey
from eo_listener.model.offsets import TopicPartition
from eo_listener.sinks.kafka.batch_records import BatchKey, BatchRecord, encoded, newest
from eo_listener.sinks.kafka.repair_records import RepairKey, RepairRecord
from eo_listener.sinks.packed_heads import Heads, Movers, read_row

PER_RECORD: Final = 500
SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Each batch appends its heads: without these a log of a week is read at each start.
    "segment.bytes": str(32 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


class RecordKey(NamedTuple):
    """The key of a record with the heads of PER_RECORD partitions of `topic`, from `first` on."""

    sink: str
    query: str
    topic: str
    first: int

    def encode(self) -> bytes:
        """Return the key as Kafka stores it: JSON."""
        return encoded({"v": FORMAT, **self._asdict()})

    @classmethod
    def decode(cls, text: bytes) -> RecordKey:
        """Raise FormatError for what is no key of heads."""
        key = decode_key(text)
        if not isinstance(key, cls):
            raise _foreign("a key of another kind")
        return key


AnyKey = RecordKey | BatchKey | RepairKey


def decode_key(text: bytes) -> AnyKey:
    """Read the key of any record. Raises FormatError for what no ledger has written."""
    given = _parsed(text)
    named = all(isinstance(one, str) for name, one in given.items() if name not in ("v", "first"))
    for kind in (RecordKey, BatchKey, RepairKey):
        if (
            given.keys() == {"v", *kind._fields}
            and named
            and isinstance(given.get("first", 0), int)
        ):
            return kind(**{name: given[name] for name in kind._fields})
    raise _foreign(f"a key has the parts {', '.join(given)}")


class LedgerRecord(NamedTuple):
    """A record to write, encoded."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that was read: its heads, and in which partition of the ledger it lies.

    `targets` are the ids of the topics that the rows went to, by name.
    """

    heads: Heads
    partition: int
    targets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch without transactions that was read, and in which partition of the ledger it lies."""

    batch: BatchRecord
    partition: int


@dataclass(frozen=True, slots=True)
class StoredRepair:
    """A repair that was read, and in which partition of the ledger it lies."""

    repair: RepairRecord
    partition: int


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that no ledger of format 1 has written: why it cannot be read, and where it lies."""

    value: bytes
    partition: int
    error: FormatError


@dataclass(frozen=True, slots=True)
class LedgerRecords:
    """The newest record of each key in the ledger's topic, at one moment."""

    records: Mapping[RecordKey, StoredRecord]
    batches: Mapping[BatchKey, StoredBatch] = field(default_factory=dict)
    repairs: Mapping[RepairKey, StoredRepair] = field(default_factory=dict)
    unreadable: Mapping[bytes, UnreadableRecord] = field(default_factory=dict)

    def heads(self, sink: str, query: str) -> dict[TopicPartition, Head]:
        """Return all heads of a sink and query.

        Raises FormatError where a record cannot be read that is of these, or may be.
        """
        for text, unread in self.unreadable.items():
            if owner(text) == (sink, query) or _may_be_anybodys(text):
                raise unread.error
        batch = self.batch(sink, query)
        return self.written_heads(sink, query) | ({} if batch is None else batch.heads())

    def written_heads(self, sink: str, query: str) -> dict[TopicPartition, Head]:
        """Those that are in records of heads: the last batch's may not be there yet."""
        return {
            tp: head
            for record in self._records_of(sink, query)
            for tp, head in record.heads.items()
        }

    def batch(self, sink: str, query: str) -> BatchRecord | None:
        """The last batch without transactions that was begun."""
        return newest(self.batches[key].batch for key in self.batch_keys(sink, query))

    def batch_keys(self, sink: str, query: str) -> list[BatchKey]:
        """Of the runs that have begun batches."""
        return [key for key in self.batches if key[:2] == (sink, query)]

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """Return all heads that a query id has moved last, of any sink and query.

        Raises FormatError where a record cannot be read that has this id.
        """
        names_it = concerns_mover(query_id)
        for text, unread in self.unreadable.items():
            if names_it(text, unread.value):
                raise unread.error
        heads: defaultdict[LedgerKey, dict[TopicPartition, Head]] = defaultdict(dict)
        for key, record in self.records.items():
            heads[LedgerKey(key.sink, key.query)].update(record.heads)
        for owner in {LedgerKey(key.sink, key.query) for key in self.batches}:
            batch = self.batch(*owner)
            heads[owner].update({} if batch is None else batch.heads())
        found = {
            owner: {tp: head for tp, head in theirs.items() if head.query_id == query_id}
            for owner, theirs in heads.items()
        }
        return {owner: moved for owner, moved in found.items() if moved}

    def targets(self, sink: str, query: str) -> dict[str, str]:
        """The ids of the topics that hold what the heads say, by name."""
        found: dict[str, str] = {}
        for record in self._records_of(sink, query):
            found.update(record.targets)
        batch = self.batch(sink, query)
        if batch is not None and (batch.is_finished or batch.number > 1):
            found.update({name: one.id for name, one in batch.since.items() if one.id is not None})
        return found

    def partition(self, sink: str, query: str, partitions: int) -> int:
        """Choose the ledger's partition for a sink and query, out of so many `partitions`.

        The one that their records are in; for the first record one by the CRC-32 of both names.
        """
        for record in self._records_of(sink, query):
            return record.partition
        for key in self.batch_keys(sink, query):
            return self.batches[key].partition
        return crc32(encoded([sink, query])) % partitions

    def _records_of(self, sink: str, query: str) -> Iterator[StoredRecord]:
        return (one for key, one in self.records.items() if key[:2] == (sink, query))


def records_of(
    sink: str, entry: Entry, before: Heads, targets: Mapping[str, str], *, complete: bool = False
) -> Iterator[LedgerRecord]:
    """Yield the records that `entry` changes; `before` are all heads of its sink and query.

    `targets` are the ids of the topics that its rows go to, by name. With `complete` the records
    of all heads.
    """
    heads = {tp: entry.head(tp) for tp in entry.moves}
    return records_of_heads(
        sink, entry.query, {**before, **heads} if complete else heads, before, targets
    )


def records_of_heads(
    sink: str, query: str, heads: Heads, before: Heads, targets: Mapping[str, str]
) -> Iterator[LedgerRecord]:
    """Yield the records that these heads change; the others as in `records_of`."""
    changed: defaultdict[RecordKey, dict[TopicPartition, Head]] = defaultdict(dict)
    for tp, head in heads.items():
        changed[_key(sink, query, tp)][tp] = head
    for tp, head in before.items():
        key = _key(sink, query, tp)
        if key in changed:
            changed[key].setdefault(tp, head)
    for key, of_key in changed.items():
        yield LedgerRecord(key.encode(), encode_heads(of_key, targets))


def encode_heads(heads: Heads, targets: Mapping[str, str]) -> bytes:
    """Encode heads of one topic, and the ids of the sink's topics.

    Each mover (query, run, batch and topic id) stands there once.
    """
    movers = Movers()
    rows = [movers.row(tp, head) for tp, head in sorted(heads.items())]
    written = {"moved": movers.listed, "heads": rows, "targets": dict(targets)}
    return encoded({"v": FORMAT, **written})


def decode_heads(topic: str, text: bytes) -> dict[TopicPartition, Head]:
    """Decode heads of one topic. Raises FormatError."""
    given = _parsed(text)
    try:
        return dict(read_row(topic, row, given["moved"]) for row in given["heads"])
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise _foreign(f"a value cannot be read: {type(error).__name__}") from error


def decode_targets(text: bytes) -> dict[str, str]:
    """Read the ids of the target's topics. Raises FormatError."""
    try:
        return {str(topic): str(topic_id) for topic, topic_id in _parsed(text)["targets"].items()}
    except (KeyError, AttributeError) as error:
        raise _foreign(f"a value cannot be read: {type(error).__name__}") from error


class Decoder:
    """Decodes the records of a topic again and again; those that are unchanged only once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, _Decoded]] = {}

    def decode(self, values: Mapping[bytes, tuple[bytes, int]]) -> LedgerRecords:
        """Decode `values`, by key the value and its partition."""
        known, self._known = self._known, {}
        for key, (value, partition) in values.items():
            had = known.get(key)
            if had is None or had[0] != value or had[1][1].partition != partition:
                had = value, _decoded(key, value, partition)
            self._known[key] = had
        heads: dict[RecordKey, StoredRecord] = {}
        batches: dict[BatchKey, StoredBatch] = {}
        repairs: dict[RepairKey, StoredRepair] = {}
        unreadable: dict[bytes, UnreadableRecord] = {}
        for key, (_, (of, record)) in self._known.items():
            if isinstance(record, UnreadableRecord):
                unreadable[key] = record
            elif isinstance(of, BatchKey) and isinstance(record, StoredBatch):
                batches[of] = record
            elif isinstance(of, RecordKey) and isinstance(record, StoredRecord):
                heads[of] = record
            elif isinstance(of, RepairKey) and isinstance(record, StoredRepair):
                repairs[of] = record
        return LedgerRecords(heads, batches, repairs, unreadable)


_Decoded = tuple["AnyKey | None", "StoredRecord | StoredBatch | StoredRepair | UnreadableRecord"]


def _decoded(key: bytes, value: bytes, partition: int) -> _Decoded:
    try:
        of = decode_key(key)
        if isinstance(of, BatchKey):
            return of, StoredBatch(BatchRecord.decode(_parsed(value)), partition)
        if isinstance(of, RepairKey):
            return of, StoredRepair(RepairRecord.decode(_parsed(value)), partition)
        return of, StoredRecord(decode_heads(of.topic, value), partition, decode_targets(value))
    except FormatError as error:
        return None, UnreadableRecord(value, partition, error)


def owner(text: bytes) -> LedgerKey | None:
    """Return the sink and query that a record's key names, of any format; None if it names none."""
    given = _json(text)
    if not isinstance(given, dict):
        return None
    sink, query = given.get("sink"), given.get("query")
    return LedgerKey(sink, query) if isinstance(sink, str) and isinstance(query, str) else None


def _may_be_anybodys(key: bytes) -> bool:
    """Whether it is of another format, which may name sink and query in a way of its own."""
    given = _json(key)
    return isinstance(given, dict) and given.get("v", FORMAT) != FORMAT and owner(key) is None


def concerns(sink: str, query: str) -> Callable[[bytes, bytes | None], bool]:
    """Return whether a record, by key and value, is of this sink and query."""
    return lambda key, _: owner(key) == (sink, query)


def concerns_mover(query_id: str) -> Callable[[bytes, bytes | None], bool]:
    """Return whether a record, by key and value, may have a head that this query id has moved."""
    quoted = encoded(query_id)
    return lambda _, value: value is not None and quoted in value


def refuse_policy(topic: str, policy: str, servers: str) -> None:
    """Raise SettingsError unless the topic is compacted, and nothing is deleted by age or size."""
    if policy == "compact":
        return
    raise SettingsError(
        f"the ledger's topic {topic} has cleanup.policy={policy}",
        cause="with delete, heads are deleted when they are old, though they are still valid",
        fix=alter_topic(servers, topic, "cleanup.policy=compact")
        + "; or name another topic, ledger_topic=",
    )


def _key(sink: str, query: str, tp: TopicPartition) -> RecordKey:
    return RecordKey(sink, query, tp.topic, tp.partition - tp.partition % PER_RECORD)


def _json(text: bytes) -> Any:
    """Parse it; None for what is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parsed(text: bytes) -> dict[str, Any]:
    given = _json(text)
    if given is None:
        raise _foreign("a record is not JSON")
    if not isinstance(given, dict) or given.get("v") != FORMAT:
        raise _foreign(f"a record is not of format {FORMAT}")
    return given


def _foreign(what: str) -> FormatError:
    return FormatError(
        f"the ledger's topic holds something else than a ledger of format {FORMAT}: {what}",
        cause="another program writes to this topic, or a newer release of eo_listener has",
        fix="Give the ledger a topic of its own, ledger_topic=, or use that release",
    )
