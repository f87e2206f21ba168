"""The format of the ledger in a compacted topic, and the settings of that topic. No I/O.

Format 1. A record has the heads of PER_RECORD partitions of one topic, always the same ones: those
of 0 to 499, of 500 to 999, and so on. So a new partition moves no head from one record to another,
and the heads of 10,000 partitions are 20 records, each of which fits Kafka's default message size.
All records of a sink and query are in one partition of the topic, that of their first one: so most
open transactions of other queries do not block them.

A record that cannot be read stops the query that it may be of, and no other one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
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

PER_RECORD: Final = 500
SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Each batch appends its heads: without these a log of a week is read at each start.
    "segment.bytes": str(32 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}

Ranges = Mapping[TopicPartition, OffsetRange]


class BatchKey(NamedTuple):
    """Of a batch without transactions: whose record it is.

    A run has a key of its own, so that a driver that was replaced and goes on takes nothing away
    from its successor's.
    """

    sink: str
    query: str
    run: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True)
class TargetEnds:
    """The ends of the logs of a target's partitions; `id` is the topic's, None if unknown."""

    id: str | None
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch without transactions that was begun, or was applied where `size` is set.

    A run has one record of each sink and query, which it writes before a batch's first row, and
    again once every row is acknowledged. That second record is the batch's commit: the heads it
    moves are those of its moves, until a later batch has written them into the records of heads.

    `number` counts the batches of a sink and query, from 1. `moves` are its ranges; `topic_ids`
    distinguish the topics of all its ranges from others of their names. `left` has the ranges begun
    under this number and not applied: more than the moves if a batch of another checkpoint was
    shorter than the one before it. `since` has the ends of the targets before the first row of this
    number, and `size` is the number of offsets behind them after the last. `rows` is how many of
    these are rows of this number; None if the record does not say. `identity` names the columns
    that identify rows.
    """

    number: int
    query_id: str
    run_id: str
    batch_id: int
    identity: tuple[str, ...]
    moves: Ranges
    topic_ids: Mapping[str, str | None]
    left: Ranges
    since: Mapping[str, TargetEnds]
    size: int | None = None
    rows: int | None = None

    @property
    def is_finished(self) -> bool:
        """True if all that was begun is applied."""
        return self.size is not None and not self.left

    def heads(self) -> dict[TopicPartition, Head]:
        """The heads that it has moved; none if it was only begun."""
        if self.size is None:
            return {}
        return {
            tp: Head(
                range=one,
                topic_id=self.topic_ids[tp.topic],
                query_id=self.query_id,
                run_id=self.run_id,
                batch_id=self.batch_id,
            )
            for tp, one in self.moves.items()
        }

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded(
            {
                "v": FORMAT,
                "number": self.number,
                "moved": [self.query_id, self.run_id, self.batch_id],
                "id": list(self.identity),
                "moves": self._topics(self.moves),
                "left": self._topics(self.left),
                "since": [
                    [name, one.id, sorted(one.ends.items())] for name, one in self.since.items()
                ],
                "size": self.size,
                "rows": self.rows,
            }
        )

    def _topics(self, ranges: Ranges) -> list[list[Any]]:
        return [[name, self.topic_ids[name], rows] for name, rows in _by_topic(ranges).items()]

    @classmethod
    def decode(cls, given: Mapping[str, Any]) -> BatchRecord:
        """Read it. Raises FormatError."""
        try:
            query_id, run_id, batch_id = given["moved"]
            return cls(
                number=given["number"],
                query_id=query_id,
                run_id=run_id,
                batch_id=batch_id,
                identity=tuple(given["id"]),
                moves=_ranges((name, rows) for name, _, rows in given["moves"]),
                topic_ids={
                    name: topic_id for name, topic_id, _ in (*given["moves"], *given["left"])
                },
                left=_ranges((name, rows) for name, _, rows in given["left"]),
                since={
                    name: TargetEnds(topic_id, dict(ends))
                    for name, topic_id, ends in given["since"]
                },
                size=given["size"],
                rows=given["rows"],
            )
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(
                f"the ledger's topic holds an unreadable batch: {type(error).__name__}",
                cause="another program writes to this topic",
                fix="Give the ledger a topic of its own, ledger_topic=",
            ) from error


def newest(records: Iterable[BatchRecord]) -> BatchRecord | None:
    """The batch that counts, of those of all runs: of the highest number, and rather applied.

    Of several that were begun under one number the lowest ends count: whose rows came first is not
    known, and to read more of a log than is needed does no harm.
    """
    found = sorted(records, key=lambda one: (one.number, one.size is not None))
    if not found:
        return None
    last = found[-1]
    if last.size is None:
        for other in found[:-1]:
            if other.number == last.number:
                last = replace(
                    last,
                    since=_lowest(last.since, other.since),
                    left={**other.left, **last.left},
                    topic_ids={**other.topic_ids, **last.topic_ids},
                )
    return last


def _lowest(
    one: Mapping[str, TargetEnds], other: Mapping[str, TargetEnds]
) -> dict[str, TargetEnds]:
    both = {**other, **one}
    for name in one.keys() & other.keys():
        if one[name].id == other[name].id:
            ends, others = one[name].ends, other[name].ends
            lower = {at: min(ends[at], others[at]) for at in ends.keys() & others.keys()}
            both[name] = TargetEnds(one[name].id, lower)
    return both


def _by_topic(ranges: Ranges) -> dict[str, list[list[int]]]:
    found: defaultdict[str, list[list[int]]] = defaultdict(list)
    for tp, one in sorted(ranges.items()):
        found[tp.topic].append([tp.partition, *one])
    return found


def _ranges(topics: Iterable[tuple[str, list[list[int]]]]) -> dict[TopicPartition, OffsetRange]:
    return {
        TopicPartition(name, number): OffsetRange(start, until)
        for name, rows in topics
        for number, start, until in rows
    }


class RepairKey(NamedTuple):
    """Whose ledger was repaired; `repair` is another text for each record."""

    sink: str
    query: str
    repair: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
        return encoded({"v": FORMAT, **self._asdict()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRecord:
    """Heads of `topic` as a repair found them, and what it made of each: of PER_RECORD at most.

    The topic has heads and no history of batches; these records are all that it remembers.

    With `gap` the next offset was moved over it, by `run_id`; without, the ledger was renamed, as
    `verdict` says. `at` is when, in ISO 8601.
    """

    topic: str
    heads: Heads
    run_id: str
    verdict: str
    gap: OffsetRange | None
    at: str

    def encode(self) -> bytes:
        """As it stands in Kafka."""
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
    def decode(cls, given: Mapping[str, Any]) -> RepairRecord:
        """Read it. Raises FormatError."""
        try:
            topic, gap = given["topic"], given["gap"]
            return cls(
                topic=topic,
                heads=dict(read_row(topic, row, given["moved"]) for row in given["heads"]),
                run_id=given["run"],
                verdict=given["verdict"],
                gap=None if gap is None else OffsetRange(*gap),
                at=given["at"],
            )
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise FormatError(
                f"the ledger's topic holds an unreadable repair: {type(error).__name__}",
                cause="another program writes to this topic, or a newer release of eo_listener "
                "has written to it",
                fix="Give the ledger a topic of its own, ledger_topic=, or use that release",
            ) from error

    def applied(self) -> Iterator[AppliedBatch]:
        """For each partition what was found, and what it was made."""
        for tp, found in self.heads.items():
            yield AppliedBatch(
                partition=tp,
                head=found,
                rows=None,
                verdict=BatchVerdict.NEXT.value,
                gap=None,
                applied_at=UNKNOWN_TIME,
            )
            at = found.range.until if self.gap is None else self.gap.until
            run_id = found.run_id if self.gap is None else self.run_id
            yield AppliedBatch(
                partition=tp,
                head=replace(found, range=OffsetRange(at, at), run_id=run_id),
                rows=0,
                verdict=self.verdict if self.gap is None else GAP_ACCEPTED,
                gap=self.gap,
                applied_at=self.at,
            )


def history_of(repairs: Iterable[RepairRecord]) -> list[AppliedBatch]:
    """The heads that repairs read and wrote, those of each partition in the order of offsets.

    A head that one has made and the next has found is there once.
    """
    found: list[AppliedBatch] = []
    seen: set[tuple[TopicPartition, Head]] = set()
    for one in sorted(repairs, key=lambda one: one.at):
        for applied in one.applied():
            place = (applied.partition, applied.head)
            if applied.applied_at != UNKNOWN_TIME or place not in seen:
                found.append(applied)
            seen.add(place)
    return sorted(found, key=lambda one: (one.partition, one.head.range.until))


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
            raise _foreign("a key of an unknown kind")
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
    """A record that no ledger of format 1 has written: why it is unreadable, and its place."""

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

        Raises FormatError if a record that is, or may be, one of these is unreadable.
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

        Raises FormatError if a record with this id is unreadable.
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
    """Return True if it is of another format, which may name sink and query in a way of its own."""
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
        cause="with delete, Kafka deletes old heads although they are still valid",
        fix=alter_topic(servers, topic, "cleanup.policy=compact")
        + "; or name another topic, ledger_topic=",
    )


def encoded(value: object) -> bytes:
    """JSON as the ledger's topic holds it: the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


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
        raise _foreign(f"a record does not have format {FORMAT}")
    return given


def _foreign(what: str) -> FormatError:
    return FormatError(
        f"the ledger's topic holds something other than a ledger of format {FORMAT}: {what}",
        cause="another program writes to this topic, or a newer release of eo_listener has "
        "written to it",
        fix="Give the ledger a topic of its own, ledger_topic=, or use that release",
    )
