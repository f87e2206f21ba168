"""Reads the newest value of each key of a compacted topic, to the end of its log.

The end is the high watermark at the start of the read. A read_committed consumer sees nothing after
the start of the first open transaction, whoever owns the transaction, so the values that it reads
may be old. Therefore a second, read_uncommitted consumer reads the keys from that start to the end:
if no requested key is among them, no requested value is old.

Values stay in memory; the next read fetches only newer records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_END, KafkaException
from confluent_kafka import KafkaError as Answer
from confluent_kafka import TopicPartition as Wire
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # no __all__

from eo_listener.errors import KafkaError
from eo_listener.kafka.client import (
    TIMED_OUT,
    ConnectionErrors,
    answer_of,
    open_admin,
    seconds_until,
)
from eo_listener.kafka.logs import STALE, Logs
from eo_listener.kafka.range_reader import RangeReader
from eo_listener.offsets import OffsetRange, TopicPartition

_REPLICAS: Final = 3
_PAUSE: Final = 0.02
_PUSHED_OUT: Final = "_AUTO_OFFSET_RESET"  # the log begins after the offset to read next


Concerns = Callable[[bytes, "bytes | None"], bool]
"""A function of a record's key and value that returns True if the caller needs the record."""


class PendingRecord(NamedTuple):
    """The first record of the open transaction at which the read of a partition stops.

    `hidden` are the keys of the requested records from this record to the end. Each such record may
    belong to the open transaction, or to another transaction that is open, committed or aborted.
    """

    partition: int
    offset: int
    key: bytes
    hidden: frozenset[bytes]


class Stored(NamedTuple):
    """The newest value of a key, and the partition that has it."""

    value: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The values read from a topic.

    If `pending` is not empty, values that the caller needs may be old.
    """

    values: Mapping[bytes, Stored]
    partitions: int
    pending: tuple[PendingRecord, ...] = ()


class CompactedTopic:
    """Reads one topic with two consumers that join no group. Only one thread may use it.

    `timeout` limits each method, in seconds. Every method except `close` may raise KafkaError.
    """

    def __init__(self, properties: Mapping[str, str], topic: str, *, timeout: float) -> None:
        self.topic = topic
        self._timeout = timeout
        self._logs = Logs(properties)
        self._admin: AdminClient = open_admin(properties)
        self._errors = ConnectionErrors(properties.get("bootstrap.servers", ""))
        self._committed, self._uncommitted = (
            RangeReader(properties, "eo-listener-ledger", committed=committed, errors=self._errors)
            for committed in (True, False)
        )
        self._id: str | None = None
        self._policy: str | None = None
        self._values: dict[bytes, Stored] = {}
        self._read: dict[int, int] = {}  # by partition: the offset to read next

    def exists(self) -> bool:
        """Return True if the topic exists; the client needs only the right to read it."""
        return self._follow(self._deadline())

    def policy(self) -> str | None:
        """Return the topic's cleanup.policy, or None if the topic does not exist."""
        deadline = self._deadline()
        if not self._follow(deadline):
            return None
        if self._policy is None:
            self._policy = self._logs.cleanup_policy(self.topic, deadline)
        return self._policy

    def create(self, partitions: int, settings: Mapping[str, str]) -> None:
        """Create the topic, unless it already exists, and wait for its metadata.

        The topic gets 3 replicas, like Kafka's own topics by default. (The brokers' default for
        other topics is 1.) If there are fewer than 3 brokers, the topic gets one replica on each.
        """
        deadline = self._deadline()
        action = f"creating topic {self.topic}"
        try:
            cluster = self._admin.describe_cluster(request_timeout=self._timeout)
            replicas = min(_REPLICAS, len(cluster.result(timeout=seconds_until(deadline)).nodes))
            more = {"min.insync.replicas": "2"} if replicas == _REPLICAS else {}
            new = NewTopic(self.topic, partitions, replicas, config={**settings, **more})
            self._admin.create_topics([new])[self.topic].result(timeout=seconds_until(deadline))
        except (KafkaException, Late) as error:
            if answer_of(error).name() != "TOPIC_ALREADY_EXISTS":
                raise self._errors.failure(action, answer_of(error)) from error
        while not self._follow(deadline):
            if time.monotonic() >= deadline:
                raise self._errors.failure(action, Answer(TIMED_OUT))
            time.sleep(_PAUSE)

    def read(self, concerns: Concerns, *, pending_timeout: float) -> Reading:
        """Read the log up to its current end.

        The result has at least the records that `concerns` selects.

        If an open transaction hides some of the selected records, the method waits up to
        `pending_timeout` seconds for the transaction to end. The result's `pending` describes the
        records that are still hidden after that time.
        """
        deadline = self._deadline() + pending_timeout
        stop_waiting = time.monotonic() + pending_timeout
        if not self._follow(deadline):
            raise KafkaError(f"topic {self.topic} does not exist", code="UNKNOWN_TOPIC_OR_PART")
        ends = self._ends(self._uncommitted, tuple(self._read), deadline)
        for partition, end in ends.items():
            if end < self._read[partition]:  # the log has lost committed records
                self._forget(partition)
        while True:
            behind = [part for part, end in ends.items() if self._read[part] < end]
            stable = self._ends(self._committed, behind, deadline) if behind else {}
            try:
                self._take({part: min(end, ends[part]) for part, end in stable.items()}, deadline)
                pending = [
                    record
                    for part, end in stable.items()
                    if end < ends[part]
                    and (record := self._pending(part, ends[part], concerns, deadline)) is not None
                ]
            except KafkaError as error:
                if error.code != _PUSHED_OUT:
                    raise
                for partition in behind:  # compaction or truncation: read it from its beginning
                    self._forget(partition)
                continue
            if not pending or time.monotonic() >= stop_waiting:
                return Reading(
                    values=MappingProxyType(dict(self._values)),
                    partitions=len(self._read),
                    pending=tuple(pending),
                )
            time.sleep(_PAUSE)

    def count_after(self, concerns: Concerns, partition: int) -> int:
        """Count the selected records of a partition that were appended after the last `read`.

        Aborted records count too.
        """
        deadline = self._deadline()
        end = self._ends(self._uncommitted, [partition], deadline)[partition]
        ranges = {partition: OffsetRange(self._read[partition], end)}
        return sum(
            concerns(key, value)
            for _, _, key, value in self._records(self._uncommitted, ranges, deadline)
        )

    def close(self) -> None:
        """Close the connections."""
        self._logs.close()
        self._committed.close()
        self._uncommitted.close()

    def _follow(self, deadline: float) -> bool:
        """Return True if the topic exists; forget the values of an earlier topic of that name."""
        topic = self._logs.topics((self.topic,), deadline).get(self.topic)
        if topic is None:
            return False
        if topic.id is None or topic.id != self._id:
            self._id, self._policy = topic.id, None
            self._values, self._read = {}, {}
        for partition in sorted(topic.partitions):
            self._read.setdefault(partition, 0)
        return True

    def _forget(self, partition: int) -> None:
        self._read[partition] = 0
        for key in [key for key, stored in self._values.items() if stored.partition == partition]:
            del self._values[key]

    def _take(self, ends: Mapping[int, int], deadline: float) -> None:
        """Read on in each partition up to its offset in `ends`, and keep the committed values."""
        ranges = {part: OffsetRange(self._read[part], end) for part, end in ends.items()}
        for partition, offset, key, value in self._records(self._committed, ranges, deadline):
            self._read[partition] = offset  # the next read starts here, if this one is interrupted
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = Stored(value, partition)
        self._read.update(ends)

    def _pending(
        self, partition: int, end: int, concerns: Concerns, deadline: float
    ) -> PendingRecord | None:
        """Return the first record of a transaction that hides requested records, or None."""
        first: tuple[int, bytes] | None = None
        hidden: set[bytes] = set()
        ranges = {partition: OffsetRange(self._read[partition], end)}
        for _, offset, key, value in self._records(self._uncommitted, ranges, deadline):
            first = first or (offset, key)
            if concerns(key, value):
                hidden.add(key)
        if first is None or not hidden:
            return None
        return PendingRecord(partition, *first, frozenset(hidden))

    def _records(
        self, reader: RangeReader, ranges: Mapping[int, OffsetRange], deadline: float
    ) -> Iterator[tuple[int, int, bytes, bytes | None]]:
        """Yield partition, offset, key and value of the records in `ranges`."""
        of_topic = {TopicPartition(self.topic, number): part for number, part in ranges.items()}
        for message in reader.messages(of_topic, deadline):
            yield message.partition(), message.offset(), message.key() or b"", message.value()

    def _ends(
        self, reader: RangeReader, partitions: tuple[int, ...] | list[int], deadline: float
    ) -> dict[int, int]:
        """Return the offset up to which `reader` can read each partition, in order of partition."""
        action = f"reading the end of topic {self.topic}"
        queries = [Wire(self.topic, part, OFFSET_END) for part in partitions]
        while True:
            try:
                answers = reader.consumer.offsets_for_times(
                    queries, timeout=seconds_until(deadline)
                )
                error = next((part.error for part in answers if part.error is not None), None)
            except KafkaException as raised:
                answers, error = [], answer_of(raised)
            if error is None:
                return {part.partition: part.offset for part in answers}
            if error.name() not in STALE or time.monotonic() >= deadline:
                raise self._errors.failure(action, error)
            time.sleep(_PAUSE)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout
