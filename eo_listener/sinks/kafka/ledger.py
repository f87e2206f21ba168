"""The ledger in a compacted topic: its records, and what is done about its topic.

Format 1. A record has the heads of PER_RECORD partitions of one topic, always the same ones: those
of 0 to 499, of 500 to 999, and so on. So a new partition moves no head from one record to another,
and the heads of 10,000 partitions are 20 records, each of which fits Kafka's default for the size
of a message. All records of a sink and query are in one partition of the topic, where their first
one is: so of other queries' transactions that stay open, most are not in the way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

from eo_listener.model.errors import FormatError, SettingsError
from eo_listener.model.ledger import FORMAT, Entry, Head, LedgerKey
from eo_listener.model.offsets import OffsetRange, TopicPartition

TOPIC: Final = "eo-ledger"
PER_RECORD: Final = 500
PARTITIONS: Final = 16
"""Of a topic that is made here: how many transactions can stand in each other's way."""
SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Each batch appends its heads: without these a log of a week is read at each start.
    "segment.bytes": str(32 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}

Heads = Mapping[TopicPartition, Head]


class RecordKey(NamedTuple):
    """Which heads a record has: those from partition `first` on, PER_RECORD at most."""

    sink: str
    query: str
    topic: str
    first: int

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return _text({"v": FORMAT, **self._asdict()})

    @classmethod
    def decode(cls, text: bytes) -> RecordKey:
        """Raise FormatError for what no ledger has written."""
        given = _parsed(text)
        try:
            return cls(**{name: given[name] for name in cls._fields})
        except KeyError as error:
            raise _foreign(f"a key has no {error}") from None


class LedgerRecord(NamedTuple):
    """A record to be written."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record that was read: its heads, and in which partition of the ledger it lies."""

    heads: Heads
    partition: int


@dataclass(frozen=True, slots=True)
class LedgerRecords:
    """What the ledger's topic holds, read once."""

    records: Mapping[RecordKey, StoredRecord]

    def heads(self, sink: str, query: str) -> dict[TopicPartition, Head]:
        """All heads of a sink and query."""
        return {
            tp: head
            for key, record in self.records.items()
            if key[:2] == (sink, query)
            for tp, head in record.heads.items()
        }

    def moved_by(self, query_id: str) -> dict[LedgerKey, dict[TopicPartition, Head]]:
        """All heads that a query id has moved last, under any key."""
        found: defaultdict[LedgerKey, dict[TopicPartition, Head]] = defaultdict(dict)
        for key, record in self.records.items():
            for tp, head in record.heads.items():
                if head.query_id == query_id:
                    found[LedgerKey(key.sink, key.query)][tp] = head
        return dict(found)

    def partition(self, sink: str, query: str, partitions: int) -> int:
        """Where records of a sink and query go: where they are, else by a sum over both."""
        for key, record in self.records.items():
            if key[:2] == (sink, query):
                return record.partition
        return crc32(_text([sink, query])) % partitions


def records_of(sink: str, entry: Entry, before: Heads) -> Iterator[LedgerRecord]:
    """Make the records that `entry` changes; `before` are all heads of its sink and query."""
    changed: defaultdict[RecordKey, dict[TopicPartition, Head]] = defaultdict(dict)
    for tp in entry.moves:
        changed[_key(sink, entry.query, tp)][tp] = entry.head(tp)
    for tp, head in before.items():
        key = _key(sink, entry.query, tp)
        if key in changed:
            changed[key].setdefault(tp, head)
    for key, heads in changed.items():
        yield LedgerRecord(key.encode(), encode_heads(heads))


def encode_heads(heads: Heads) -> bytes:
    """Write heads of one topic; who has moved them stands there once."""
    movers: dict[tuple[str, str, int, str | None], int] = {}
    rows = []
    for tp, head in sorted(heads.items()):
        mover = (head.query_id, head.run_id, head.batch_id, head.topic_id)
        rows.append([tp.partition, *head.range, movers.setdefault(mover, len(movers))])
    return _text({"v": FORMAT, "moved": list(movers), "heads": rows})


def decode_heads(topic: str, text: bytes) -> dict[TopicPartition, Head]:
    """Read heads of one topic. Raises FormatError."""
    given = _parsed(text)
    try:
        movers = given["moved"]
        return {
            TopicPartition(topic, number): _head(OffsetRange(start, until), *movers[mover])
            for number, start, until, mover in given["heads"]
        }
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise _foreign(f"a value cannot be read: {type(error).__name__}") from error


class Decoder:
    """Reads what a topic holds; what has not changed since is not read again."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, RecordKey, StoredRecord]] = {}

    def decode(self, values: Mapping[bytes, tuple[bytes, int]]) -> LedgerRecords:
        """Read all records: key, value and partition of each. Raises FormatError."""
        known, self._known = self._known, {}
        for key, (value, partition) in values.items():
            had = known.get(key)
            if had is None or had[0] != value or had[2].partition != partition:
                of = RecordKey.decode(key)
                had = value, of, StoredRecord(decode_heads(of.topic, value), partition)
            self._known[key] = had
        return LedgerRecords({of: record for _, of, record in self._known.values()})


def owner(text: bytes) -> LedgerKey | None:
    """The sink and query of a record's key; None for what no ledger has written."""
    try:
        return LedgerKey(*RecordKey.decode(text)[:2])
    except FormatError:
        return None


def concerns(sink: str, query: str) -> Callable[[bytes, bytes | None], bool]:
    """Whether a record is of this sink and query."""
    return lambda key, _: owner(key) == (sink, query)


def concerns_mover(query_id: str) -> Callable[[bytes, bytes | None], bool]:
    """Whether a record may have a head that this query id has moved."""
    quoted = _text(query_id)
    return lambda _, value: value is not None and quoted in value


def refuse_policy(topic: str, policy: str, servers: str) -> None:
    """Raise SettingsError for a topic that would lose heads, or never get smaller."""
    if policy == "compact":
        return
    raise SettingsError(
        f"the ledger's topic {topic} has cleanup.policy={policy}",
        cause="with delete, heads are deleted when they are old, though they are still valid",
        fix=f"kafka-configs --bootstrap-server {servers} --alter --topic {topic} --add-config "
        "cleanup.policy=compact; or name another topic, ledger_topic=",
    )


def _key(sink: str, query: str, tp: TopicPartition) -> RecordKey:
    return RecordKey(sink, query, tp.topic, tp.partition - tp.partition % PER_RECORD)


def _head(
    offset_range: OffsetRange, query_id: str, run_id: str, batch: int, topic_id: str | None
) -> Head:
    return Head(
        range=offset_range, topic_id=topic_id, query_id=query_id, run_id=run_id, batch_id=batch
    )


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        raise _foreign("a record is not JSON") from None
    if not isinstance(given, dict) or given.get("v") != FORMAT:
        raise _foreign(f"a record is not of format {FORMAT}")
    return given


def _foreign(what: str) -> FormatError:
    return FormatError(
        f"the ledger's topic holds something else than a ledger of format {FORMAT}: {what}",
        cause="another program writes to this topic, or a newer release of eo_listener has",
        fix="Give the ledger a topic of its own, ledger_topic=, or use that release",
    )
