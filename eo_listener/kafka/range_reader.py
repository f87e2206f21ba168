"""Reads records in ranges of logs, their times and offsets, with a consumer in no group.

Only commands use `RecordReader`, not drivers, because it reads topic settings through the
AdminClient, and fetches records. It stores no records.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire

from eo_listener.audit.evidence import LogFacts
from eo_listener.audit.intervals import Intervals, of_offsets, union
from eo_listener.errors import KafkaError
from eo_listener.kafka.client import TIMED_OUT, ConnectionErrors, open_reader
from eo_listener.kafka.logs import NO_OFFSETS, Logs
from eo_listener.model.kafka_errors import COORDINATOR_MOVES
from eo_listener.offsets import OffsetRange, TopicPartition

_AT_ONCE: Final = 500
_POLL: Final = 0.05  # seconds; a poll returns early only when it is full
_END: Final = "_PARTITION_EOF"
_OF_PARTITION: Final = frozenset({_END, "_AUTO_OFFSET_RESET"})
_QUICK: Final = {"fetch.wait.max.ms": "10", "fetch.error.backoff.ms": "20"}
# librdkafka looks for the coordinator of the group even though its consumer never joins.
_OF_GROUPS: Final = frozenset({"GROUP_AUTHORIZATION_FAILED", *COORDINATOR_MOVES})


class RangeReader:
    """Reads ranges of partitions with a consumer from `open_reader`.

    `errors` collects the errors of the consumer's connections.
    """

    def __init__(
        self, properties: Mapping[str, str], name: str, *, committed: bool, errors: ConnectionErrors
    ) -> None:
        self._errors = errors
        self.consumer: Consumer = open_reader(
            {**properties, **_QUICK}, name, committed=committed, error_cb=self._note
        )

    def messages(
        self,
        ranges: Mapping[TopicPartition, OffsetRange],
        deadline: float,
        *,
        silence: float | None = None,
        to_end: bool = False,
    ) -> Iterator[Any]:
        """Yield the records in `ranges`. Raises KafkaError, also if the deadline passes.

        With `to_end`, a range may reach beyond the end of its log or, for a reader of committed
        records, into an open transaction: the records before that are then all records.

        If `silence` is given, each message that arrives moves the deadline to `silence` seconds
        later. Messages of a partition that is already read to the end of its range do not count.
        """
        remaining = {
            tp: offsets.until for tp, offsets in ranges.items() if offsets.start < offsets.until
        }
        if not remaining:
            return
        starts = {tp: ranges[tp].start or OFFSET_BEGINNING for tp in remaining}
        self.consumer.assign([Wire(*tp, start) for tp, start in starts.items()])
        try:
            while remaining:
                if time.monotonic() >= deadline:
                    raise self._errors.failure(f"reading {min(remaining)}", Answer(TIMED_OUT))
                for message in self._poll():
                    is_progress = _place(message) in remaining
                    yield from self._record(message, remaining)
                    if to_end and _is_end(message):
                        remaining.pop(_place(message), None)
                    if silence is not None and is_progress:
                        deadline = time.monotonic() + silence
        finally:
            self.consumer.unassign()

    def close(self) -> None:
        """Close the connections."""
        self.consumer.close()

    def _poll(self) -> Iterator[Any]:
        """Yield the messages that have arrived; if there is no message, wait a moment for one."""
        first = self.consumer.poll(_POLL)
        if first is not None:
            yield first
            yield from self.consumer.consume(_AT_ONCE, timeout=0)

    def _record(self, message: Any, remaining: dict[TopicPartition, int]) -> Iterator[Any]:
        """Yield the message if it is in a range; remove a partition whose range is read."""
        tp = _place(message)
        error, offset = message.error(), message.offset()
        if error is not None and error.name() != _END:
            if tp in remaining and error.name() not in _OF_GROUPS:
                raise self._errors.failure(f"reading {tp}", error)
            self._note(error)  # a connection's error: librdkafka continues
            return
        if tp not in remaining or offset is None:
            return
        if error is None and offset < remaining[tp]:
            yield message
        if offset + (error is None) >= remaining[tp]:
            del remaining[tp]

    def _note(self, error: Answer) -> None:
        """Record an error of a connection.

        Errors about groups are ignored: the reader has no group.
        """
        if error.name() not in _OF_GROUPS:
            self._errors.record(error)


def _is_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.name() == _END


def _place(message: Any) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


_FIRST: Final = 1  # offsets to read first: nearly always a record
_MORE: Final = 1000  # offsets to read next, if the first was a transaction's marker, or compacted


def record_times(
    properties: Mapping[str, str], offsets: Mapping[TopicPartition, int], *, timeout: float
) -> dict[TopicPartition, int]:
    """Return the time of the first committed record at or after each offset, in ms since 1970.

    For an offset at or beyond the log's last stable offset, the result has the time of the last
    record within the 1,000 offsets before the last stable offset. The result lacks partitions that
    have no record within 1,000 offsets, or that no longer exist. Raises KafkaError. The function
    has a few steps, each of which takes `timeout` seconds at most.
    """
    errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
    reader = RangeReader(properties, "eo-listener-times", committed=True, errors=errors)
    logs = Logs(properties)
    with closing(reader), closing(logs):
        bounds = _bounds(logs, offsets, timeout)
        times: dict[TopicPartition, int] = {}
        for size in (_FIRST, _MORE):
            after = {
                tp: OffsetRange(begin, min(begin + size, end))
                for tp, (start, end) in bounds.items()
                if tp not in times and (begin := max(offsets[tp], start)) < end
            }
            for tp, written in _times(reader, after, timeout):
                times.setdefault(tp, written)
        before = {
            tp: OffsetRange(max(start, end - _MORE), end)
            for tp, (start, end) in bounds.items()
            if tp not in times and offsets[tp] >= end > start
        }
        times |= dict(_times(reader, before, timeout))  # the last of several wins
        return times


def _times(
    reader: RangeReader, ranges: Mapping[TopicPartition, OffsetRange], timeout: float
) -> list[tuple[TopicPartition, int]]:
    return [
        (_place(message), message.timestamp()[1])
        for message in reader.messages(ranges, time.monotonic() + timeout, silence=timeout)
        if message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE
    ]


def _bounds(
    logs: Logs, offsets: Mapping[TopicPartition, int], timeout: float
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the start and the last stable offset of each log."""
    snapshot = logs.snapshot(NO_OFFSETS, offsets.keys(), time.monotonic() + timeout)
    starts = snapshot.whole().starts
    stable = logs.stable_ends(tuple(starts), time.monotonic() + timeout)
    return {tp: (start, stable[tp]) for tp, start in starts.items() if tp in stable}


_SMALL: Final = {
    **_QUICK,
    # A broker still sends one batch of records for a partition, but not a megabyte of them.
    "fetch.message.max.bytes": "1",
    "queued.min.messages": "1",
    # Else librdkafka waits a second for a partition if its broker sent only records of another.
    "fetch.queue.backoff.ms": "10",
}


def oldest_records(
    properties: Mapping[str, str], offsets: Mapping[TopicPartition, int], *, seconds: float
) -> dict[TopicPartition, int]:
    """Return the time of the first record at or after each offset, in milliseconds since 1970.

    The result lacks partitions without such a record (markers of transactions are not records), and
    partitions whose record has no time. It also lacks partitions without an answer within
    `seconds`: reading old records of many partitions may take long, and a partial answer is better
    than none. Records of open and aborted transactions also count. Raises SettingsError for
    properties that librdkafka does not accept.
    """
    if not offsets:
        return {}
    errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
    consumer = open_reader(
        {**properties, **_SMALL}, "eo-listener-oldest", committed=False, error_cb=errors.record
    )
    deadline = time.monotonic() + seconds
    remaining = set(offsets)
    times: dict[TopicPartition, int] = {}
    with closing(consumer):
        consumer.assign([Wire(tp.topic, tp.partition, offset) for tp, offset in offsets.items()])
        while remaining and time.monotonic() < deadline:
            done = set()
            for message in consumer.consume(_AT_ONCE, timeout=_POLL):
                tp, error = _place(message), message.error()
                if tp in remaining and (error is None or error.name() in _OF_PARTITION):
                    done.add(tp)
                    remaining.discard(tp)
                    if error is None and message.timestamp()[0] != TIMESTAMP_NOT_AVAILABLE:
                        times[tp] = int(message.timestamp()[1])
            if done:
                consumer.pause([Wire(*tp) for tp in done])
    return times


Headers = Sequence[tuple[str, "str | bytes | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLog:
    """An existing topic: its id, or None if it has no id, and the logs of its partitions.

    `ranges` has, by partition, the range from the first record that Kafka still has to the end of
    the log.
    """

    id: str | None
    ranges: Mapping[int, OffsetRange]


class StoredRecord(NamedTuple):
    """The place of a record, and its headers."""

    partition: TopicPartition
    offset: int
    headers: Headers


class TargetLogs:
    """Reads the logs to which a sink without transactions writes. Only one thread may use it.

    The class reads with read_uncommitted: the sink's records belong to no transaction, and open
    transactions of other producers would hide them.

    `timeout` limits each request, in seconds. While records are read, it limits each wait for the
    next record of a partition that is not yet read to its end. Every request may raise KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout: float) -> None:
        self._properties = dict(properties)
        self._timeout = timeout
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._logs = Logs(properties)
        self._reader: RangeReader | None = None

    def topics(self, names: Collection[str]) -> Mapping[str, TargetLog]:
        """Return the topics among `names` that exist."""
        deadline = time.monotonic() + self._timeout
        topics = self._logs.topics(names, deadline)
        partitions = {
            TopicPartition(name, number)
            for name, topic in topics.items()
            for number in topic.partitions
        }
        snapshot = self._logs.snapshot(NO_OFFSETS, partitions, deadline).whole()
        logs: dict[str, dict[int, OffsetRange]] = {name: {} for name in topics}
        for tp, end in sorted(snapshot.ends.items()):
            logs[tp.topic][tp.partition] = OffsetRange(snapshot.starts[tp], end)
        ids = snapshot.topic_ids
        return {
            name: TargetLog(id=ids.get(name), ranges=ranges)
            for name, ranges in logs.items()
            if ranges
        }

    def policy(self, topic: str) -> str:
        """Return the `cleanup.policy` of a topic."""
        return self._logs.cleanup_policy(topic, time.monotonic() + self._timeout)

    def records(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Iterator[StoredRecord]:
        """Yield the records in `ranges`."""
        deadline = time.monotonic() + self._timeout
        for message in self._open().messages(ranges, deadline, silence=self._timeout):
            tp = TopicPartition(message.topic(), message.partition())
            yield StoredRecord(tp, message.offset(), message.headers() or ())

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> RangeReader:
        if self._reader is None:
            self._reader = RangeReader(
                self._properties, "eo-listener-target", committed=False, errors=self._errors
            )
        return self._reader


_NEAR: Final = 10_000  # two ranges with at most this many offsets between them are read as one


class RecordReader:
    """The `LogReader` that uses librdkafka. Two threads must not use it at once.

    `timeout` limits each request, and each wait for the next record, in seconds. `transactional` is
    True if any producer of the topics is transactional, None if that is unknown. `facts` and
    `visible` raise SettingsError for properties that librdkafka does not accept.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        transactional: bool | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._properties = dict(properties)
        self._transactional = transactional
        self._timeout = timeout
        self._logs = Logs(properties)
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._readers: dict[bool, RangeReader] = {}

    def facts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """Return the logs' starts and ends, and whether they are compacted. Raises KafkaError."""
        deadline = time.monotonic() + self._timeout
        snapshot = self._logs.snapshot(NO_OFFSETS, partitions, deadline).whole()
        compacted = {
            topic: self._is_compacted(topic) for topic in sorted({t for t, _ in snapshot.ends})
        }
        deadline = time.monotonic() + self._timeout
        stable = self._logs.stable_ends(tuple(snapshot.ends), deadline)
        return {
            tp: LogFacts(
                start=snapshot.starts[tp],
                stable=min(stable[tp], end),
                end=end,
                topic_id=snapshot.topic_ids.get(tp.topic),
                compacted=compacted[tp.topic],
                transactional=self._transactional,
            )
            for tp, end in snapshot.ends.items()
            if tp in stable
        }

    def visible(
        self, partition: TopicPartition, ranges: Intervals, *, committed: bool
    ) -> Intervals:
        """Return the offsets of records in `ranges`, and perhaps of records between the ranges."""
        reader, timeout = self._reader(committed=committed), self._timeout
        offsets: list[OffsetRange] = []
        for part in _merge(ranges):
            messages = reader.messages(
                {partition: part}, time.monotonic() + timeout, silence=timeout, to_end=True
            )
            offsets.extend(of_offsets(message.offset() for message in messages))
        return union(offsets)

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _is_compacted(self, topic: str) -> bool | None:
        """Return True if compaction may delete records, None if the policy cannot be read."""
        try:
            policy = self._logs.cleanup_policy(topic, time.monotonic() + self._timeout)
        except (KafkaError, KeyError):  # a missing right: the kind of the proof shows it
            return None
        return "compact" in policy

    def _reader(self, *, committed: bool) -> RangeReader:
        if committed not in self._readers:
            self._readers[committed] = RangeReader(
                self._properties, "eo-listener-proof", committed=committed, errors=self._errors
            )
        return self._readers[committed]


def _merge(ranges: Intervals) -> Iterator[OffsetRange]:
    """Yield the ranges to read; join ranges that are close together."""
    merged: OffsetRange | None = None
    for part in ranges:
        if merged is not None and part.start - merged.until <= _NEAR:
            merged = OffsetRange(merged.start, part.until)
            continue
        if merged is not None:
            yield merged
        merged = part
    if merged is not None:
        yield merged
